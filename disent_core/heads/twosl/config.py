"""Settings of TWOSL, with a switch for everything that the paper leaves open."""

from dataclasses import dataclass, field, replace
from typing import Literal

from disent_core.heads.families.few_shot import FewShotConfig
from disent_core.heads.twosl.decode import Overlap
from disent_core.heads.twosl.features import ConcatNorm
from disent_core.heads.twosl.spans import Mask
from disent_core.losses.contrastive import Form, Hard, LonePair
from disent_core.optimisation.optimiser import OptimiserConfig
from disent_core.settings import OF_PUBLISHED_CODE


@dataclass(frozen=True, kw_only=True)
class TwoSlConfig(FewShotConfig):
    """TWOSL. The defaults are the paper's letter, but for the warm-up of stage 1.

    `warmup` is a share of stage 1's steps where it is below 1, else a number of steps; the paper's default of
    10,000 is more than few examples give, so that its learning rate never leaves the warm-up. An item is None
    where it is no slot: `none_sampling` takes all of a sentence for training, or a number. The filter's
    `filter_threshold` gives way to `filter_recall`, where that is set: the share of training slots that pass.
    `negatives_per_positive` is the paper's 2K. See `span_contrast`, `span_items`, `decode` for the rest.
    """

    max_span: int = 5
    mask: Mask = "word"
    none_sampling: Literal["all"] | int = "all"
    concat_norm: ConcatNorm = "none"

    contrastive: bool = True
    loss: Form = "sbert"
    hard: Hard = "sbert"
    lone_pair: LonePair = field(default="mean", metadata=OF_PUBLISHED_CODE)
    margin: float = 0.5
    negatives_per_positive: int = 2
    max_positive_pairs: int = 50_000
    contrastive_epochs: int = 10
    contrastive_learning_rate: float = 2e-5
    weight_decay: float = 0.01
    warmup: float = 0.1
    clip: float = 1.0

    filter: bool = True
    filter_hidden: tuple[int, ...] = (2500, 1500)
    filter_epochs: int = 30
    filter_threshold: float = 0.5
    filter_recall: float | None = None
    type_hidden: tuple[int, ...] = (3600, 2400, 800)
    type_epochs: int = 100
    classifier_learning_rate: float = 1e-5
    overlap: Overlap = "greedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("max_span", "max_positive_pairs", "contrastive_epochs", "contrastive_learning_rate", "clip",
                            "filter_epochs", "type_epochs", "classifier_learning_rate", "margin")  # fmt: skip
        self.check_not_negative("weight_decay", "warmup")
        self.check_range("filter_recall", above=0, at_most=1)
        self.check_range("filter_threshold", at_least=0, below=1)
        if self.negatives_per_positive < 1 or (self.negatives_per_positive % 2 and self.negatives_per_positive != 1):
            raise ValueError(f"negatives_per_positive must be 1 or even, not {self.negatives_per_positive}")
        if self.none_sampling != "all" and self.none_sampling < 1:
            raise ValueError(f"none_sampling must be 'all' or positive, not {self.none_sampling}")
        for name in ("filter_hidden", "type_hidden"):
            if any(size < 1 for size in getattr(self, name)):
                raise ValueError(f"{name} must be positive sizes, not {getattr(self, name)}")

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
        """Plain Adam."""
        return OptimiserConfig(learning_rate=self.classifier_learning_rate)


TWOSL = TwoSlConfig()
TWOSL_PRESETS = {
    "paper": TWOSL,
    "official_code": replace(TWOSL, warmup=10_000.0),
    "no_contrastive": replace(TWOSL, contrastive=False),
    "no_filter": replace(TWOSL, filter=False),
}
