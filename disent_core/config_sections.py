"""The sections of the configuration that belong to no single stage: corpora, experiment and targets."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from disent_core.corpora import READERS
from disent_core.targets import MaskingConfig, TemplatePairConfig

FORBID: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """A published corpus: its reader, where it lies (either `path` or `url`) and its locales.

    Attributes:
        name: of the corpus in tables and metrics.
        format: its reader's name, from `READERS`.
        languages: locales, as published.
        path: folder or archive, relative to the file.
        url: of an archive, downloaded once.
        sha256: of that archive, in hex; another one is refused.
        size: of that archive, in bytes.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID

    name: str
    format: str
    languages: tuple[str, ...]
    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.format not in READERS:
            raise ValueError(f"format {self.format!r} is unknown; choose one of {', '.join(READERS)}")
        if (self.path is None) == (self.url is None):
            raise ValueError("give either path or url")
        if not self.languages or len(set(self.languages)) < len(self.languages):
            raise ValueError(f"languages must be distinct, and at least one: {list(self.languages)}")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """What is trained and compared. A pair `en-de+en-es` trains one model on the mixture of both.

    Attributes:
        pairs: of languages, in one direction only, or mixtures of such pairs.
        methods: names from the registry, or of tables `[methods.NAME]`.
        seeds: of every method in which something is random.
        device: of encoding, training and evaluation; `auto` is the GPU where there is one.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID

    pairs: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self) -> None:
        for name in ("pairs", "methods", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must be distinct, and at least one: {list(values)}")
        if odd := [seed for seed in self.seeds if not 0 <= seed < 2**63]:
            raise ValueError(f"seeds must be from 0 to 2**63 - 1, not {odd}")


@dataclass(frozen=True, kw_only=True)
class TargetsConfig(MaskingConfig):
    """How utterances are masked, and how template pairs are generated: those of tasks, and those of training.

    Training never sees a slot value or a source of the test split.

    Attributes:
        template_pairs: those of tasks.
        training_template_pairs: those of training; `values` must be "train", and `splits` of train and dev.
    """

    template_pairs: TemplatePairConfig = field(default_factory=TemplatePairConfig)
    training_template_pairs: TemplatePairConfig = field(
        default_factory=lambda: TemplatePairConfig(splits=("train", "dev"), values="train", n_targets=1)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        training = self.training_template_pairs
        if "test" in training.splits or training.values != "train":
            raise ValueError(
                f"training_template_pairs must have splits train and dev and values 'train', "
                f"not {list(training.splits)} and {training.values!r}: nothing of test may be trained on"
            )
