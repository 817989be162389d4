"""TWOSL: label slots by classifying spans, in two stages.

Stage 1 fine-tunes the encoder so that spans of one type are close; stage 2 filters and classifies all spans, which
are encoded with and without their sentence.
Razumovskaia, Vulić, Korhonen: *Transfer-Free Data-Efficient Multilingual Slot Labeling*, EMNLP 2023.

Its baseline, `token_classification`, tags each word by its first sub-word.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from disent_core.losses import Form, Hard, LonePair
from disent_core.methods.families import FewShotConfig, TaggingMethod
from disent_core.optimisation.config import OptimiserConfig
from disent_core.settings import (
    OF_PUBLISHED_CODE,
    Count,
    Decay,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    PositiveShare,
    Probability,
    Rate,
    Width,
)

Overlap = Literal["greedy", "overwrite"]
ConcatNorm = Literal["none", "l2_each"]
Mask = Literal["word", "subword", "span"]


@dataclass(frozen=True, kw_only=True)
class TwoSlConfig(FewShotConfig):
    """Settings of TWOSL. The defaults follow the paper, except for the warm-up of stage 1.

    Stage 1 fine-tunes the encoder with a contrastive loss on pairs of spans. Stage 2 trains a filter, which tells slots
    from other spans, and a classifier of slot types on the encoder's features.

    Attributes:
        max_span: words of the longest span that is classified.
        mask: what replaces a span in its sentence: a mask for each `word`, for each `subword`, or one for the `span`.
        none_sampling: training spans without a slot: `all`, or at most this number of random ones per sentence.
        concat_norm: `l2_each` normalises the vectors of masked sentence and span before they are concatenated.
        contrastive: run stage 1.
        loss: contrastive loss of stage 1: that of sentence-transformers (`sbert`), or the paper's equation.
        hard: which pairs of a batch count: the hard ones as chosen by sentence-transformers (`sbert`), those within the
            `margin`, or all (`none`).
        lone_pair: threshold of `sbert` mining if a batch has a single positive or negative pair.
        margin: distance (1 - cosine) beyond which a negative pair adds no loss.
        negatives_per_positive: negative pairs per positive pair, the paper's 2K: 1 or an even number.
        max_positive_pairs: maximum number of positive pairs; if there are more, a random sample is taken.
        contrastive_epochs: passes over the pairs in stage 1.
        contrastive_learning_rate: learning rate of stage 1, after the warm-up.
        weight_decay: decoupled weight decay of stage 1; biases and norms are exempt.
        warmup: warm-up of stage 1: a share of its steps if below 1, else a number of steps. The paper's default of
            10,000 exceeds the steps that few examples give, so its learning rate never leaves the warm-up.
        clip: maximum norm of the gradient in stage 1.
        filter: train the filter; without it, the classifier has `no slot` as an additional class.
        filter_hidden: widths of the filter's hidden layers.
        filter_epochs: passes over the spans in training the filter.
        filter_threshold: minimum probability for a span to pass the filter.
        filter_recall: share of the training slots that must pass the filter; sets the threshold in place of
            `filter_threshold`.
        type_hidden: widths of the classifier's hidden layers.
        type_epochs: passes over the spans in training the classifier.
        classifier_learning_rate: learning rate of filter and classifier.
        overlap: what happens to overlapping slots: `greedy` keeps the most probable one, `overwrite` writes them from
            left to right.
    """

    max_span: Positive = 5
    mask: Mask = "word"
    none_sampling: Literal["all"] | Positive = "all"
    concat_norm: ConcatNorm = "none"

    contrastive: bool = True
    loss: Form = "sbert"
    hard: Hard = "sbert"
    lone_pair: LonePair = field(default="mean", metadata=OF_PUBLISHED_CODE)
    margin: PositiveFloat = 0.5
    negatives_per_positive: Count = 2
    max_positive_pairs: Positive = 50_000
    contrastive_epochs: Positive = 10
    contrastive_learning_rate: Rate = 2e-5
    weight_decay: Decay = 0.01
    warmup: NotNegativeFloat = 0.1
    clip: PositiveFloat = 1.0

    filter: bool = True
    filter_hidden: tuple[Width, ...] = (2500, 1500)
    filter_epochs: Positive = 30
    filter_threshold: Probability = 0.5
    filter_recall: PositiveShare | None = None
    type_hidden: tuple[Width, ...] = (3600, 2400, 800)
    type_epochs: Positive = 100
    classifier_learning_rate: Rate = 1e-5
    overlap: Overlap = "greedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives_per_positive % 2 and self.negatives_per_positive != 1:
            raise ValueError(f"negatives_per_positive must be 1 or even, not {self.negatives_per_positive}")

    @property
    def contrastive_optimiser(self) -> OptimiserConfig:
        """AdamW with a linear schedule and clipped gradients, as sentence-transformers trains."""
        return OptimiserConfig(
            learning_rate=self.contrastive_learning_rate,
            weight_decay=self.weight_decay,
            decay="decoupled_matrices",
            warmup=self.warmup,
            schedule="linear",
            clip=self.clip,
        )

    @property
    def classifier_optimiser(self) -> OptimiserConfig:
        return OptimiserConfig(learning_rate=self.classifier_learning_rate)


METHOD = TaggingMethod(
    name="twosl",
    presets={
        "paper": TwoSlConfig(),
        "official_code": TwoSlConfig(warmup=10_000.0),
        "no_contrastive": TwoSlConfig(contrastive=False),
        "no_filter": TwoSlConfig(filter=False),
    },
    kind="disent_core.methods.twosl_head:SpanTagger",
)
NO_CONTRASTIVE, NO_FILTER = (
    replace(METHOD, name=f"twosl_{preset}", presets={"paper": METHOD.presets[preset]})
    for preset in ("no_contrastive", "no_filter")
)


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig(FewShotConfig):
    """A linear layer on the state of each word's first sub-word; all weights of the encoder are fine-tuned.

    Attributes:
        epochs: passes over the training sentences.
        learning_rate: learning rate of Adam, constant.
        weight_decay: strength of the weight decay; 0 turns it off.
        decay: form of the paper's "Adam with weight decay": `l2` adds it to the gradient (Adam), `decoupled` is AdamW.
        dropout: probability of dropout before the linear layer.
    """

    epochs: Positive = 50
    learning_rate: Rate = 1e-5
    weight_decay: Decay = 0.01
    decay: Literal["l2", "decoupled"] = "l2"
    dropout: Probability = 0.1

    @property
    def optimiser(self) -> OptimiserConfig:
        decay = "l2" if self.decay == "l2" else "decoupled_matrices"
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay, decay=decay)


TOKEN_CLASSIFICATION = TaggingMethod(
    name="token_classification",
    presets={"paper": TokenClassificationConfig()},
    kind="disent_core.methods.twosl_head:TokenTagger",
)
