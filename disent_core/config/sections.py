"""Settings sections that belong to no single stage: corpora, experiment and targets."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from disent_core.corpora import format_module, is_of_pairs
from disent_core.corpora.contract import Shares
from disent_core.errors import ConfigError, quoted
from disent_core.settings import DISTINCT, NOT_EMPTY, Count, Names, Positive, Seed, Settings, SomeNames
from disent_core.storage.download import file_name
from disent_core.targets.code_switching import CodeSwitchingConfig
from disent_core.targets.masking import MaskingConfig
from disent_core.targets.parallel_mates import ParallelMateConfig
from disent_core.targets.template_pairs import TemplatePairConfig

_SHA256 = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Settings):
    """A published corpus: its reader, where it lies (`path`, `url` or both), and which part of it is used.

    Attributes:
        name: name of the corpus in tables and metrics.
        format: name of its reader, or the module of a reader of your own.
        languages: locales, as published; for a corpus of sentence pairs the languages (`en`, `de`) whose pairs are
            used. Left out: all that lie at `path`.
        pairs: pairs to use of a corpus of sentence pairs; `en-de` reads source English, target German.
        path: folder or archive, relative to the configuration file.
        url: address of an archive, also in a bucket (`s3://bucket/key`), which is downloaded once: to `path` if that is
            given and nothing is there yet.
        sha256: SHA-256 of the download, in hex; another file is refused.
        size: size of the download in bytes.
        train: whether heads train on it, or it is only for evaluation; left out: the default of its format.
        limit: number of first rows to use of each split of a language or pair.
        splits: shares of train, dev and test, for formats that publish no splits.
        licence: that of its texts, such as `CC-BY-4.0`, which the cards of exported heads name.
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
            raise ValueError("path is a file or folder of this machine; give an archive at an address by url")
        if self.url is not None:
            file_name(self.url)
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 must be 64 hex digits, as `sha256sum` writes them, not {quoted(self.sha256)}")
        if self.pairs and not self.is_of_pairs:
            raise ValueError(f"pairs are of corpora of sentence pairs, which format {self.format!r} is not")
        if self.url is not None and not (self.pairs or (self.languages and not self.is_of_pairs)):
            raise ValueError("what a download has is not known yet: name its languages or pairs")
        if self.splits is not None:
            if format_module(self.format).SHARES is None:
                raise ValueError(f"splits are published with format {self.format!r}; leave splits out")
            if min(self.splits) < 0 or abs(sum(self.splits) - 1) > 1e-6:
                raise ValueError(f"splits must be shares of train, dev and test that sum to 1, not {self.splits}")

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
        pairs: language pairs, in one direction only, mixtures of such pairs, or names of `[training_sets.NAME]`.
        methods: names from the registry, or of tables `[methods.NAME]`.
        seeds: random seeds; ignored by deterministic methods.
        device: device of encoding, training and evaluation; `auto` is the GPU where there is one.
    """

    pairs: SomeNames
    methods: SomeNames
    seeds: Annotated[tuple[Seed, ...], DISTINCT, NOT_EMPTY] = (0, 1, 2)
    device: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True, kw_only=True)
class TrainingSetConfig(Settings):
    """A mixture of the pairs of a pivot with other languages, for which NAME stands in `pairs`.

    Attributes:
        pivot: the language of every pair; left out: the first language of the corpora.
        languages: those whose pair with the pivot is in the set, in this order; `all` are those of the training corpora
            of utterances.
        evaluate: further pairs of these languages: heads are measured on them and not trained on them.
    """

    pivot: str | None = None
    languages: Literal["all"] | SomeNames = "all"
    evaluate: Names = ()


@dataclass(frozen=True, kw_only=True)
class SettingsSearchConfig(Settings):
    """A search of settings: the same number for each method, drawn from its own values, and chosen on dev.

    A trial is the method with other settings, under the name `METHOD_trial_2`: a head and its metrics like all others,
    so a search that was stopped goes on where it was, and more trials keep those that were run.

    Attributes:
        methods: methods of the experiment whose settings are searched; none by default.
        trials: settings of each method: the configured ones, then random ones.
        trials_of: another number for methods whose training is too slow for `trials`, by name.
        seed: of the random settings.
        by: what decides, the mean of these: accuracy@1 of `translation` in both directions, of the `template` in both
            languages.
    """

    methods: Names = ()
    trials: Count = 8
    trials_of: dict[str, Count] = field(default_factory=dict)
    seed: Seed = 0
    by: Annotated[tuple[Literal["translation", "template"], ...], DISTINCT, NOT_EMPTY] = ("translation", "template")


@dataclass(frozen=True, kw_only=True)
class MtebConfig(Settings):
    """Results of mteb, the benchmark of embeddings, that the warehouse has beside those measured here.

    Attributes:
        results: folders of result files, each under a name of yours, as `published = "../results"`; that of
            `disent mteb` is `mteb` in the folder of results.
        tasks: names of tasks of mteb that are read as well, beside `Tatoeba`, `STS17`, `MassiveIntentClassification`,
            `MassiveScenarioClassification` and those of disent.
    """

    results: dict[str, str] = field(default_factory=dict)
    tasks: Names = ()


@dataclass(frozen=True, kw_only=True)
class ExportsConfig(Settings):
    """Heads that are also kept as folders, as `disent export` writes them, and exported again when they change.

    Attributes:
        heads: as commands name them, `"METHOD@ENCODER:PAIR"`.
        embeddings: only these, of heads that embed; none: all that sentence-transformers' own modules compute.
        onnx: whether a folder has an ONNX graph too; needs the extra `onnx`.
        licence: of the weights, for the cards, such as `CC-BY-4.0`.
    """

    heads: Names = ()
    embeddings: Names = ()
    onnx: bool = False
    licence: str | None = None


@dataclass(frozen=True, kw_only=True)
class WarehouseConfig(Settings):
    """How the warehouse holds the tables of a run.

    Attributes:
        copy_rows_below: a table with fewer rows is copied into the file; of a larger one, the file has a view.
    """

    copy_rows_below: Annotated[int, Ge(0), Le(1 << 50)] = 10_000_000


@dataclass(frozen=True, kw_only=True)
class TargetsConfig(MaskingConfig):
    """How utterances are masked, and how template pairs are generated for tasks and for training.

    Training never sees a slot value or a source of the test split.

    Attributes:
        template_pairs: template pairs that tasks evaluate.
        training_template_pairs: template pairs that heads train on; `values` must be "train", `splits` train and dev.
        parallel_mates: translation pairs with other slot values, for methods that train on them.
        code_switching: sentences some of whose words are replaced by translations; none without dictionaries.
    """

    template_pairs: TemplatePairConfig = field(default_factory=TemplatePairConfig)
    training_template_pairs: TemplatePairConfig = field(
        default_factory=lambda: TemplatePairConfig(splits=("train", "dev"), values="train", n_targets=1)
    )
    parallel_mates: ParallelMateConfig = field(default_factory=ParallelMateConfig)
    code_switching: CodeSwitchingConfig = field(default_factory=CodeSwitchingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        training = self.training_template_pairs
        if "test" in training.splits or training.values != "train":
            raise ValueError(
                f"training_template_pairs must have splits train and dev and values 'train', "
                f"not {list(training.splits)} and {training.values!r}: nothing of test may be trained on"
            )
