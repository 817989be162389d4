"""Settings sections that belong to no single stage: corpora, experiment and targets."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from disent_core.corpora import format_module, is_of_pairs
from disent_core.corpora.contract import Shares
from disent_core.errors import ConfigError, commas, quoted
from disent_core.settings import DISTINCT, NOT_EMPTY, Count, Names, Positive, Seed, Settings, SomeNames
from disent_core.storage.download import file_name
from disent_core.targets.code_switching import CodeSwitchingConfig
from disent_core.targets.masking import MaskingConfig
from disent_core.targets.parallel_mates import ParallelMateConfig
from disent_core.targets.template_pairs import TemplatePairConfig

_SHA256 = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Settings):
    """A published corpus: its reader, its location (`path`, `url` or both), and the part of it to use.

    Attributes:
        name: name of the corpus in tables and metrics.
        format: name of its reader, or the module of your own reader.
        languages: locales, as published; for a corpus of sentence pairs, the languages (`en`, `de`) whose pairs to use.
            If omitted, all that are at `path`; a corpus with a `url` has to name them, or `pairs`.
        pairs: for a corpus of sentence pairs, the pairs to use; `en-de` has English as the source and German as the
            target.
        path: folder or archive, relative to the configuration file.
        url: URL of an archive, which may be in a bucket (`s3://bucket/key`). It is downloaded once: to `path` if that
            is given and nothing is there yet.
        sha256: SHA-256 of the download, in hex; a file with another checksum is refused.
        size: size of the download in bytes.
        train: whether heads train on it, or it is used for evaluation only; if omitted, the default of its format.
        limit: use only this many rows, the first ones, of each split of a language or pair.
        splits: shares of train, dev and test, for formats that publish no splits.
        licence: licence of its texts, such as `CC-BY-4.0`, which the cards of exported heads state.
    """

    name: str
    format: str
    languages: Names = ()
    pairs: Names = ()
    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    size: Annotated[int, Ge(1), Le(1 << 50)] | None = None
    train: bool | None = None
    limit: Positive | None = None
    splits: Shares | None = None
    licence: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            format_module(self.format)
        except ConfigError as error:
            raise ValueError(f"format: {error}") from error
        if self.path is None and self.url is None:
            raise ValueError("give path, url or both")
        if "://" in (self.path or ""):
            raise ValueError("path must be a file or folder on this machine; give the address of an archive as url")
        if self.url is not None:
            file_name(self.url)
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 must be 64 hex digits, as `sha256sum` writes them, not {quoted(self.sha256)}")
        if self.pairs and not self.is_of_pairs:
            raise ValueError(f"pairs are for formats of sentence pairs only, and {self.format!r} is not one of them")
        if self.url is not None and not (self.pairs or (self.languages and not self.is_of_pairs)):
            raise ValueError("the contents of a download are not known yet: name its languages or pairs")
        if self.splits is not None:
            if format_module(self.format).SHARES is None:
                raise ValueError(f"splits are published with format {self.format!r}; leave splits out")
            if min(self.splits) < 0 or abs(sum(self.splits) - 1) > 1e-6:
                raise ValueError(f"splits must be shares of train, dev and test, with sum 1, not {commas(self.splits)}")

    @property
    def is_of_pairs(self) -> bool:
        """Whether it is read into `sentence_pairs`, else into `utterances`."""
        return is_of_pairs(self.format)

    @property
    def is_switchable(self) -> bool:
        """Whether its pairs are translations, whose words can be code-switched."""
        return format_module(self.format).KIND in ("translations", "bitext")

    @property
    def trains(self) -> bool:
        """Whether heads train on it."""
        return format_module(self.format).TRAINS if self.train is None else self.train

    @property
    def shares(self) -> Shares | None:
        """Shares of the splits that are drawn; None if the splits are published."""
        return self.splits or format_module(self.format).SHARES


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig(Settings):
    """What is trained and compared. A pair `en-de+en-es` trains one model on the mixture of both.

    Attributes:
        pairs: language pairs, each in one direction only, mixtures of such pairs, or names of `[training_sets.NAME]`.
        methods: names from the registry or of `[methods.NAME]` tables.
        seeds: random seeds; ignored by deterministic methods.
        device: device for encoding, training and evaluation; `auto` uses the GPU if there is one.
    """

    pairs: SomeNames
    methods: SomeNames
    seeds: Annotated[tuple[Seed, ...], DISTINCT, NOT_EMPTY] = (0, 1, 2)
    device: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True, kw_only=True)
class TrainingSetConfig(Settings):
    """A mixture of the pairs of a pivot with other languages; `pairs` refers to it by NAME.

    Attributes:
        pivot: the language that all pairs share; if omitted, the first language of the corpora.
        languages: languages to pair with the pivot, in this order; `all` means those of the training corpora of
            utterances.
        evaluate: further pairs of these languages, on which heads are evaluated but not trained.
    """

    pivot: str | None = None
    languages: Literal["all"] | SomeNames = "all"
    evaluate: Names = ()


@dataclass(frozen=True, kw_only=True)
class SettingsSearchConfig(Settings):
    """A hyperparameter search: the same number of trials for each method, drawn from its own values, selected on dev.

    A trial is the method with other settings, named `METHOD_trial_2`. Its head and metrics are like any others, so an
    interrupted search resumes where it stopped, and adding trials keeps those already run.

    Attributes:
        methods: methods of the experiment whose settings are searched; none by default.
        trials: number of settings tried for each method: the configured ones, then random ones.
        trials_of: a different number of trials, by method name, for methods whose training is too slow for `trials`.
        seed: random seed for drawing the settings.
        by: selection criterion, the mean of these: accuracy@1 of `translation` retrieval in both directions, and of
            `template` retrieval in both languages.
    """

    methods: Names = ()
    trials: Count = 8
    trials_of: dict[str, Count] = field(default_factory=dict)
    seed: Seed = 0
    by: Annotated[tuple[Literal["translation", "template"], ...], DISTINCT, NOT_EMPTY] = ("translation", "template")


@dataclass(frozen=True, kw_only=True)
class MtebConfig(Settings):
    """Results of mteb, the embedding benchmark, to store in the warehouse beside those measured here.

    Attributes:
        results: folders of result files, each under a name you choose, such as `published = "../results"`; the folder
            of `disent mteb` is `mteb` in the folder of results.
        tasks: further mteb tasks to read, besides `Tatoeba`, `STS17`, `MassiveIntentClassification`,
            `MassiveScenarioClassification` and those of disent.
    """

    results: dict[str, str] = field(default_factory=dict)
    tasks: Names = ()


@dataclass(frozen=True, kw_only=True)
class ExportsConfig(Settings):
    """Heads that are also kept as folders, as written by `disent export`, and exported again when they change.

    Attributes:
        heads: heads to export, named as in commands: `"METHOD@ENCODER:PAIR"`.
        embeddings: only these embeddings, for heads that embed; if omitted, all that sentence-transformers' own modules
            compute.
        onnx: also write an ONNX graph; needs the extra `onnx`.
        licence: licence of the weights, for the cards, such as `CC-BY-4.0`.
    """

    heads: Names = ()
    embeddings: Names = ()
    onnx: bool = False
    licence: str | None = None


@dataclass(frozen=True, kw_only=True)
class WarehouseConfig(Settings):
    """How the warehouse stores the tables of a run.

    Attributes:
        copy_rows_below: tables with fewer rows are copied into the file, and all tables of a home in a bucket; larger
            ones are views.
    """

    copy_rows_below: Annotated[int, Ge(0), Le(1 << 50)] = 10_000_000


OF_TRAINING: dict[str, Any] = {"splits": ("train", "dev"), "values": "train", "n_targets": 1}
"""Defaults of `training_template_pairs`."""


@dataclass(frozen=True, kw_only=True)
class TargetsConfig(MaskingConfig):
    """How utterances are masked, and how template pairs are generated for tasks and for training.

    Training never sees a slot value or a source of the test split.

    Attributes:
        template_pairs: template pairs that tasks evaluate.
        training_template_pairs: template pairs that heads train on; `values` must be "train", `splits` train and dev.
        parallel_mates: translation pairs with other slot values, for methods that train on them.
        code_switching: sentences with some words replaced by translations; none without dictionaries.
    """

    template_pairs: TemplatePairConfig = field(default_factory=TemplatePairConfig)
    training_template_pairs: TemplatePairConfig = field(default_factory=lambda: TemplatePairConfig(**OF_TRAINING))
    parallel_mates: ParallelMateConfig = field(default_factory=ParallelMateConfig)
    code_switching: CodeSwitchingConfig = field(default_factory=CodeSwitchingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        training = self.training_template_pairs
        if "test" in training.splits or training.values != "train":
            raise ValueError(
                f"training_template_pairs must have splits train and dev and values 'train', "
                f"not {commas(training.splits)} and {training.values!r}: nothing from test may be trained on"
            )
