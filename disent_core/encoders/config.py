"""Settings of the kinds of encoders."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from disent_core.encoders.contract import EncoderConfig, FloatName, Layers, Pooling, absolute
from disent_core.settings import Precision

Algorithm = Literal["unigram", "bpe"]
Products = Literal["onednn", "torch"]


@dataclass(frozen=True, kw_only=True)
class HuggingFaceConfig(EncoderConfig):
    """One frozen model and how its states become a sentence vector. Exactly one of `path` and `id` is set.

    Attributes:
        path: folder of the model; `package:NAME/sub/folder` is a folder inside an installed Python package.
        id: name of the model on the hub.
        revision: branch, tag or commit of the model on the hub; none is its main branch.
        pooling: `cls` is the state at position 0, `mean` the mean over tokens, special ones included and
            padding not, `pooler` the checkpoint's own pooler, `cls_dense_norm` the pipeline that
            sentence-transformers has for LaBSE: state at position 0, its `2_Dense` layer, tanh, norm 1.
        layer: index into `hidden_states`: 0 is the embedding layer, -1 the last layer. Of several, `[2, 4]`, the states
            are side by side, and so are the pooled vectors. Blocks above the highest layer are not run.
        max_length: tokens that are read of a text, special tokens included.
        batch_tokens: tokens of a batch, padding and filling included; none chooses a size for the device.
            Vectors depend on it in their last bits, so it is part of the fingerprint.
        precision: number format of weights and of what the model computes; `auto` is bfloat16 on a GPU, which changes
            vectors by about 1e-2 of their size, and float32 on a CPU. Stored vectors have their own formats, below.
        products: library of the products in float32 on a CPU. `onednn` takes half the time of `torch` on processors
            that aren't Intel's, and vectors differ in their last bits. On a GPU, and where torch has no oneDNN, both
            are the same.
        vector_dtype: number format in which sentence vectors are stored.
        states_dtype: number format in which token states are stored.
        saw: what it was trained on, for the column `encoder_saw` beside its numbers: "English", "bitext". A folder that
            was distilled here tells it itself.
    """

    path: str | None = None
    id: str | None = None
    revision: str | None = None
    pooling: Pooling = "cls"
    layer: Layers = -1
    max_length: int = 128
    batch_tokens: int | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    products: Products = "onednn"
    vector_dtype: FloatName = "float32"
    states_dtype: FloatName = "float16"
    saw: str | None = field(default=None, repr=False)  # no part of the fingerprints, which read the representation

    def __post_init__(self) -> None:
        if (self.path is None) == (self.id is None):
            raise ValueError(f"encoder {self.name!r} needs either a path ({self.path!r}) or an id ({self.id!r})")
        if self.revision is not None and self.id is None:
            raise ValueError(f"encoder {self.name!r}: revision {self.revision!r} needs an id")
        if self.max_length < 3:
            raise ValueError(f"encoder {self.name!r}: max_length is {self.max_length}, must be at least 3")
        self.check_positive("batch_tokens")
        _check_layers(self)
        if self.pooling in ("pooler", "cls_dense_norm") and self.layer != -1:
            raise ValueError(f"encoder {self.name!r}: a pooler reads the last layer, not layer {self.layer}")

    def resolved(self, folder: Path) -> "EncoderConfig":
        """The settings with an absolute `path`, unless it is inside a package."""
        if self.path is None or self.path.startswith("package:"):
            return self
        return replace(self, path=absolute(self.path, folder))


@dataclass(frozen=True, kw_only=True)
class ScratchConfig(EncoderConfig):
    """A small encoder and how it is pretrained. The defaults take about a minute on two cores for 6,000 texts.

    Attributes:
        pooling: as in `HuggingFaceConfig`.
        layer: as in `HuggingFaceConfig`. After so little training a head on token states does best with layer 0,
            where pooling `cls` says nothing.
        vector_dtype: number format in which sentence vectors are stored.
        states_dtype: number format in which token states are stored.
        vocab_size: entries of the tokeniser's vocabulary, special tokens included; at least 100.
        hidden_size: width of a state, a multiple of `heads`.
        layers: layers of the transformer.
        heads: attention heads of each layer.
        intermediate_size: width between the two maps of a layer's feed-forward block.
        tokeniser: algorithm that learns the vocabulary; a Unigram vocabulary may differ in a few entries from
            run to run.
        max_length: tokens that are read of a text (or of a translation pair), special tokens included.
        dropout: dropout probability of states and attention while pretraining, in [0, 1).
        epochs: passes over the texts.
        max_steps: training steps, in place of `epochs`.
        batch_tokens: tokens of a batch, padding included.
        learning_rate: largest learning rate of AdamW.
        warmup: fraction of the steps in which the learning rate rises; then it falls linearly to 0.
        mask_probability: probability that a token is predicted: 80 % of these are masked, 10 % replaced, 10 % kept.
            Twice the usual 0.15 suits few texts: each text trains more tokens (https://arxiv.org/abs/2202.08005).
        weight_decay: strength of the decoupled weight decay.
        translation: also train on translation pairs, both sides in one sequence (TLM).
        seed: random seed of weights, batches and masks.
        checkpoint_seconds: seconds between two checkpoints.
    """

    pooling: Literal["cls", "mean"] = "mean"
    layer: Layers = -1
    vector_dtype: FloatName = "float32"
    states_dtype: FloatName = "float16"
    tokeniser: Algorithm = "bpe"
    vocab_size: int = 1_500
    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    intermediate_size: int = 512
    max_length: int = 64
    dropout: float = 0.0
    epochs: int = 12
    max_steps: int | None = None
    batch_tokens: int = 1_024
    learning_rate: float = 3e-3
    warmup: float = 0.1
    mask_probability: float = 0.3
    weight_decay: float = 0.01
    translation: bool = False
    seed: int = 0
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        _check_layers(self)
        self.check_positive("layers", "heads", "hidden_size", "intermediate_size", "epochs", "batch_tokens",
                            "learning_rate", "max_steps")  # fmt: skip
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}")
        self.check_range("warmup", "mask_probability", "dropout", at_least=0, below=1)
        if self.vocab_size < 100 or self.max_length < 8:
            raise ValueError(f"vocab_size {self.vocab_size} or max_length {self.max_length} is too small")


@dataclass(frozen=True, kw_only=True)
class DistilledConfig(EncoderConfig):
    """A multilingual encoder made here from a teacher of one language and translations. It takes two steps.

    The aligned encoder has the teacher's blocks under a vocabulary of all languages, whose foreign rows are averages of
    the teacher's rows by word alignment. The student is trained from there: a softmax picks the teacher's vector of the
    sentence that a text translates. No text of the dev and test splits of any corpus of the file takes part. The
    method is a form of Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813.

    Attributes:
        teacher: name of the encoder that is taught from: `kind = "huggingface"` with a BERT body and mean pooling.
        corpora: corpora whose training splits it is made from. Dev splits of those of sentence pairs are held
            out: training stops by them. A corpus of utterances makes the encoder one of the domain that is measured,
            so no head is trained on it.
        languages: languages beside `pivot`. Left out: all that the corpora pair with it.
        pivot: the teacher's language.
        layer: as in `HuggingFaceConfig`; so are `max_length`, `products`, `vector_dtype` and `states_dtype`. Its
            pooling is the mean. Encoders that differ in these alone have the same student, which is trained once.
        max_length: tokens that are read of a text.
        products: library of the products in float32 on a CPU.
        vector_dtype: number format in which sentence vectors are stored.
        states_dtype: number format in which token states are stored.
        vocab_size: Unigram pieces of the vocabulary, special tokens included.
        keep_teacher_words: add the whole words of the teacher's vocabulary.
        align_iterations: of expectation maximisation of IBM model 1.
        train: whether a student is trained, or the encoder is the aligned one.
        epochs: largest number of passes over the foreign texts.
        max_steps: training steps, in place of `epochs`.
        batch_size: texts of a step, all of one length.
        learning_rate: largest learning rate of AdamW; after `warmup_steps` it falls linearly to 0.
        row_learning_rate: the same for the rows of the vocabulary.
        warmup_steps: steps in which the learning rate rises.
        loss: `softmax` picks the sentence for a text; `symmetric` also the text for a sentence.
        temperature: by which cosines are divided in the softmax.
        bank: other sentences, beside those of the batch, from which the right one is picked.
        pivot_share: share of the texts in the teacher's language that a pass over the foreign texts takes along.
        validate_steps: steps between two looks at the held-out pairs.
        patience: looks without improvement after which training stops.
        precision: number format of the matrix products of training.
        seed: random seed of batches and banks.
        checkpoint_seconds: seconds between two checkpoints.
    """

    teacher: str
    corpora: tuple[str, ...]
    languages: tuple[str, ...] = ()
    pivot: str = "en"
    layer: Layers = -1
    max_length: int = 128
    products: Products = field(default="onednn", repr=False)  # in `__str__`
    vector_dtype: FloatName = "float32"
    states_dtype: FloatName = "float16"
    vocab_size: int = 32_000
    keep_teacher_words: bool = True
    align_iterations: int = 6
    train: bool = True
    epochs: int = 1
    max_steps: int | None = None
    batch_size: int = 256
    learning_rate: float = 2e-4
    row_learning_rate: float = 1e-3
    warmup_steps: int = 50
    loss: Literal["softmax", "symmetric"] = "softmax"
    temperature: float = 0.05
    bank: int = 2_048
    pivot_share: float = 0.25
    validate_steps: int = 100
    patience: int = 3
    precision: Precision = "bfloat16"
    seed: int = 0
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        _check_layers(self)
        self.check_positive("align_iterations", "epochs", "max_steps", "batch_size", "temperature", "validate_steps",
                            "patience", "learning_rate", "row_learning_rate")  # fmt: skip
        self.check_not_negative("warmup_steps", "bank", "checkpoint_seconds", "seed")
        self.check_range("pivot_share", at_least=0, at_most=1)
        self.check_distinct("corpora", "languages")
        if self.max_length < 3 or self.vocab_size < 100:
            raise ValueError(f"max_length {self.max_length} or vocab_size {self.vocab_size} is too small")
        if not self.corpora:
            raise ValueError("corpora must name at least one")
        if self.pivot in self.languages:
            raise ValueError(f"languages are those beside the pivot {self.pivot!r}")

    def __str__(self) -> str:
        """What fingerprints read. Encoders that are older than `products` keep theirs."""
        return repr(self) if self.products == "torch" else f"{self!r}, {self.products}"


@dataclass(frozen=True, kw_only=True)
class VectorsConfig(EncoderConfig):
    """Where the vectors lie.

    Attributes:
        path: file, folder of files, or pattern of either with `{language}` in it.
        vector_dtype: number format in which sentence vectors are stored.
        saw: as in `HuggingFaceConfig`.
    """

    lacks: ClassVar[Mapping[str, str]] = {"token_states": "token states", "encoder": "a model to tune"}

    path: str
    vector_dtype: FloatName = "float32"
    saw: str | None = field(default=None, repr=False)

    def resolved(self, folder: Path) -> "EncoderConfig":
        """The settings with an absolute `path`."""
        return replace(self, path=absolute(self.path, folder))


def _check_layers(config: HuggingFaceConfig | ScratchConfig | DistilledConfig) -> None:
    if not isinstance(config.layer, int):
        config.check_distinct("layer")
        if not config.layer:
            raise ValueError("layer must be a layer, or a list of at least one")


def frozen(config: ScratchConfig | DistilledConfig, folder: Path) -> HuggingFaceConfig:
    """Return the settings of the encoder that was made in `folder`, for `huggingface.load`."""
    return HuggingFaceConfig(
        name=config.name,
        path=str(folder),
        pooling="mean" if isinstance(config, DistilledConfig) else config.pooling,
        layer=config.layer,
        max_length=config.max_length,
        products=config.products if isinstance(config, DistilledConfig) else "torch",
        vector_dtype=config.vector_dtype,
        states_dtype=config.states_dtype,
    )


READ_LATER = {"name", "pooling", "layer", "products", "vector_dtype", "states_dtype", "checkpoint_seconds"}
"""Settings of an encoder that is made here on which its weights do not depend."""
OF_ALIGNMENT = ("teacher", "corpora", "languages", "pivot", "vocab_size", "keep_teacher_words", "align_iterations")
"""Settings that the aligned encoder depends on; the others are those of the student."""


def distilled_identity(config: DistilledConfig, *, is_student: bool) -> dict[str, Any]:
    """Return the settings that the weights of the aligned encoder, or of the student, depend on."""
    settings = {name: value for name, value in asdict(config).items() if name not in {*READ_LATER, "max_length"}}
    return {name: value for name, value in settings.items() if is_student or name in OF_ALIGNMENT}


def identity(config: ScratchConfig) -> dict[str, Any]:
    """Return the settings that the weights depend on."""
    settings = {name: value for name, value in asdict(config).items() if name not in READ_LATER}
    return settings | (
        {"dropout_seeds": "derived"} if config.dropout else {}
    )  # without dropout nothing draws from them
