"""A multilingual encoder made of a teacher of one language and translations of it, in two steps.

`aligned` gives the teacher's blocks a vocabulary of all languages, without training: the aligned encoder. `student`
trains that encoder to place a translation where the teacher has its source. `steps` runs both on the training splits
of the corpora, and `pairs` keeps the texts that are measured out of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from disent_core.encoders.contract import (
    IN_DOMAIN,
    EncoderConfig,
    EncoderStep,
    FloatName,
    Layers,
    Pooling,
    StatesName,
    encoder_key,
)
from disent_core.encoders.kinds.huggingface import (
    OF_READING,
    HuggingFaceConfig,
    Length,
    ModelMadeHere,
    Products,
    Vocabulary,
)
from disent_core.settings import (
    Names,
    NotNegative,
    Positive,
    PositiveFloat,
    Precision,
    Rate,
    Seconds,
    Seed,
    Share,
    SomeNames,
)
from disent_core.storage.tables import fingerprint

CODE_VERSION = "1"  # changes with every change of `steps` that changes what encoders are made from
ALIGNED_VERSION = "1"  # changes with every change of this folder's code that changes aligned encoders
STUDENT_VERSION = "1"
"""Changes with every change of this folder's code that changes students, beyond a change of aligned encoders."""
_READ_LATER = {*OF_READING, "checkpoint_seconds"}
"""Settings on which the weights do not depend."""
_OF_ALIGNMENT = ("teacher", "corpora", "languages", "pivot", "vocab_size", "keep_teacher_words", "align_iterations")
"""Settings that the aligned encoder depends on; the others are those of the student."""


@dataclass(frozen=True, kw_only=True)
class DistilledConfig(ModelMadeHere):
    """A multilingual encoder made here, in two steps, from a teacher of one language and translations.

    The aligned encoder has the teacher's blocks and a vocabulary of all languages; its rows for foreign pieces are
    averages of the teacher's rows, by word alignment. The student is trained from there: a softmax picks the teacher's
    vector of the sentence that a text translates. Neither step learns from texts in the dev or test split of any corpus
    of the file. The method is a variant of Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813.

    Attributes:
        teacher: name of the teacher encoder: `kind = "huggingface"` with a BERT body and mean pooling.
        corpora: corpora whose training splits the encoder is made from. Dev splits of corpora of sentence pairs are
            held out for early stopping. A corpus of utterances makes the encoder in-domain, so no head is trained on
            it.
        languages: languages besides `pivot`; if omitted, all that the corpora pair with it.
        pivot: the teacher's language.
        layer: as in `HuggingFaceConfig`; so are `max_length`, `products`, `vector_dtype` and `states_dtype`. Pooling is
            the mean. Encoders that differ only in these share one student, which is trained once.
        max_length: tokens read from a text.
        products: library for float32 matrix products on a CPU.
        vector_dtype: number format of stored sentence vectors.
        states_dtype: number format of stored token states. `int8` takes half the memory of `float16`; the values of a
            token share a scale.
        vocab_size: Unigram pieces of the vocabulary, special tokens included.
        keep_teacher_words: add the whole words of the teacher's vocabulary.
        align_iterations: iterations of expectation maximisation for IBM model 1.
        train: train a student; otherwise the encoder is the aligned one.
        epochs: maximum number of passes over the foreign texts.
        max_steps: training steps, instead of `epochs`.
        batch_size: texts per step, all of the same length.
        learning_rate: peak learning rate of AdamW; after `warmup_steps` it falls linearly to 0.
        row_learning_rate: peak learning rate for the rows of the vocabulary.
        warmup_steps: steps over which the learning rate rises.
        loss: `softmax` picks the sentence for a text; `symmetric` also the text for a sentence.
        temperature: divisor of the cosines in the softmax.
        bank: number of additional sentences, besides those of the batch, from which the right one is picked.
        pivot_share: share of the texts in the teacher's language to include in each pass over the foreign texts.
        validate_steps: steps between evaluations on the held-out pairs.
        patience: evaluations without improvement after which training stops.
        precision: number format of the matrix products of training.
        seed: random seed of batches and banks.
        checkpoint_seconds: seconds between two checkpoints.
    """

    pooling: ClassVar[Pooling] = "mean"

    teacher: str
    corpora: SomeNames
    languages: Names = ()
    pivot: str = "en"
    layer: Layers = -1
    max_length: Length = 128
    products: Products = field(default="onednn", repr=False)  # in `__str__`
    vector_dtype: FloatName = "float32"
    states_dtype: StatesName = "float16"
    vocab_size: Vocabulary = 32_000
    keep_teacher_words: bool = True
    align_iterations: Annotated[int, Ge(1), Le(1_000)] = 6
    train: bool = True
    epochs: Positive = 1
    max_steps: Positive | None = None
    batch_size: Positive = 256
    learning_rate: Rate = 2e-4
    row_learning_rate: Rate = 1e-3
    warmup_steps: NotNegative = 50
    loss: Literal["softmax", "symmetric"] = "softmax"
    temperature: PositiveFloat = 0.05
    bank: Annotated[int, Ge(0), Le(1_000_000)] = 2_048
    pivot_share: Share = 0.25
    validate_steps: Positive = 100
    patience: Positive = 3
    precision: Precision = "bfloat16"
    seed: Seed = 0
    checkpoint_seconds: Seconds = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pivot in self.languages:
            raise ValueError(f"languages must not include the pivot {self.pivot!r}")

    def __str__(self) -> str:
        """Return what fingerprints read. Encoders that are older than `products` keep theirs."""
        return repr(self) if self.products == "torch" else f"{self!r}, {self.products}"

    def identity(self, *, is_student: bool) -> dict[str, Any]:
        """Return the settings that the weights of the aligned encoder, or of the student, depend on."""
        settings = {name: value for name, value in asdict(self).items() if name not in _READ_LATER}
        return {name: value for name, value in settings.items() if is_student or name in _OF_ALIGNMENT}

    def has_seen(self, config: Any) -> str | None:
        return IN_DOMAIN if set(self.corpora) & config.locales.keys() else "bitext"

    def taught_languages(self, config: Any) -> tuple[str, ...]:
        """Return the languages beside the pivot that the encoder learns."""
        pairs = [pair for name in self.corpora for pair in config.sentence_pairs.get(name, ())]
        pairs += [(self.pivot, language) for name in self.corpora for language in config.locales.get(name, ())]
        paired = dict.fromkeys(language for pair in pairs if self.pivot in pair for language in pair)
        return self.languages or tuple(language for language in paired if language != self.pivot)

    def problems(self, config: Any) -> Iterator[tuple[str, str]]:
        if not _can_teach(config.encoders.get(self.teacher)):
            suitable = ", ".join(name for name, candidate in config.encoders.items() if _can_teach(candidate))
            remedy = f"choose one of {suitable}" if suitable else "add one"
            problem = f"{self.teacher!r} is not an encoder of kind huggingface that takes the mean of its last layer"
            yield "teacher", f"{problem}; {remedy}"
        for corpus in self.corpora:
            if corpus not in config.locales and corpus not in config.sentence_pairs:
                known = ", ".join((*config.locales, *config.sentence_pairs))
                yield "corpora", f"there is no corpus {corpus!r}; choose one of {known}"
        paired = replace(self, languages=()).taught_languages(config)
        if lacking := [language for language in self.languages if language not in paired]:
            problem = f"none of the corpora {', '.join(self.corpora)} pairs {', '.join(lacking)} with {self.pivot}"
            yield "languages", f"{problem}; possible languages: {', '.join(paired) or 'none'}"
        if not paired:
            problem = f"none of the corpora {', '.join(self.corpora)} pairs a language with {self.pivot!r}"
            yield "corpora", f"{problem}; name others, or set pivot"
        if self.train and not any(corpus in config.sentence_pairs for corpus in self.corpora):
            problem = f"{self.name!r} names no corpus of sentence pairs, whose dev split ends its training"
            yield "corpora", f"{problem}; add one, or set train = false"

    def alignment_version(self, config: Any) -> str:
        """Return the fingerprint of the code and settings that determine the aligned encoder."""
        teacher = config.encoders[self.teacher]
        return fingerprint(CODE_VERSION, ALIGNED_VERSION, self.identity(is_student=False), teacher)

    def student_version(self, config: Any) -> str:
        """Return the fingerprint of the code and settings that determine the student."""
        return fingerprint(STUDENT_VERSION, self.alignment_version(config), self.identity(is_student=True))

    def aligned_by(self, config: Any) -> str:
        """Return the first encoder with the same alignment: the aligned encoder is made for it, and shared."""
        return self._first_of_version(config, DistilledConfig.alignment_version)

    def student_of(self, config: Any) -> str:
        """Return the first encoder with the same student, which the others copy."""
        return self._first_of_version(config, DistilledConfig.student_version)

    def _first_of_version(self, config: Any, version: "Callable[[DistilledConfig, Any], str]") -> str:
        distilled = (settings for settings in config.encoders.values() if isinstance(settings, DistilledConfig))
        return next(other.name for other in distilled if version(other, config) == version(self, config))

    def steps(self, config: Any) -> Sequence[EncoderStep]:
        """Return the alignment, unless that of another encoder is the same, and the training or copy of the student."""
        tables = ("utterances",) * bool(config.utterance_languages) + ("sentence_pairs",) * bool(config.pair_names)
        aligned, student = self.aligned_by(config), self.student_of(config)
        alignment = EncoderStep(
            encoder=self.name,
            part="aligned",
            description="The teacher's blocks under a vocabulary of all languages, whose foreign rows are averages of "
            "the teacher's rows by word alignment. Nothing is trained.",
            version=self.alignment_version(config),
            tables=tables,
            is_training=False,
            make="disent_core.encoders.kinds.distilled.steps:align",
        )
        training = EncoderStep(
            encoder=self.name,
            description="The encoder: the aligned one, trained to place a translation where the teacher has its "
            "source. New translations make a new encoder.",
            version=self.student_version(config),
            tables=tables,
            after=(encoder_key(aligned, "aligned"), *([] if student == self.name else [encoder_key(student)])),
            make="disent_core.encoders.kinds.distilled.steps:distil",
        )
        return [alignment, training] if aligned == self.name else [training]


def _can_teach(candidate: EncoderConfig | None) -> bool:
    return isinstance(candidate, HuggingFaceConfig) and candidate.pooling == "mean" and candidate.layer == -1
