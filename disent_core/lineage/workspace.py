"""Locate everything that a run reads and writes: a configuration, its folder of results, and the paths in it."""

from dataclasses import dataclass
from pathlib import Path

from disent_core.config.model import Config
from disent_core.corpora.download import file_name
from disent_core.shards.backend import INLINE, ShardBackend
from disent_core.storage.tables import safe_part, table_path

Key = tuple[str, ...]
"""Stage and name of a table; also the key of its asset."""

UTTERANCES: Key = ("corpora", "utterances")
SENTENCE_PAIRS: Key = ("corpora", "sentence_pairs")
POOL: Key = ("negatives", "negative_pool")
MASKED: Key = ("targets", "masked_utterances")
TEMPLATES: Key = ("targets", "template_pairs")
TRAINING_TEMPLATES: Key = ("targets", "training_template_pairs")
SWITCHED: Key = ("targets", "code_switched_pairs")
ALIGNED: Key = ("targets", "aligned_pairs")
MATES: Key = ("targets", "parallel_mates")
MTEB_RESULTS: Key = ("evaluation", "mteb_results")

OF_LANGUAGES = (UTTERANCES, POOL, MASKED, TEMPLATES, TRAINING_TEMPLATES)
"""Tables with a file for every corpus and language."""
OF_PAIRS = (SENTENCE_PAIRS, SWITCHED)
"""Tables with a file for every corpus and pair of languages."""


@dataclass(frozen=True)
class Workspace:
    """A configuration and its folder of results.

    Attributes:
        config: of the run.
        home: folder of results.
        prefix: how the keys of its assets begin, in a Dagster project with other assets.
        shard_backend: where the shards of a step are computed; no result depends on it.
    """

    config: Config
    home: Path
    prefix: Key = ()
    shard_backend: ShardBackend = INLINE

    def table(self, stage: str, table: str, *partition: str) -> Path:
        """Path of one partition of a table."""
        return table_path(self.home, stage, table, *partition)

    @property
    def tables(self) -> Path:
        """Folder of all tables."""
        return self.home / "tables"

    @property
    def embeddings(self) -> Path:
        """Folder of the content-addressed vectors."""
        return self.tables / "embeddings"

    def head(self, encoder: str, method: str, trained_on: str) -> Path:
        """Weights of all seeds of a head."""
        return self._file("heads", encoder, method, f"{trained_on}.safetensors")

    def training_curve(self, encoder: str, method: str, trained_on: str) -> Path:
        """Losses of a head by epoch, as a table."""
        return self.table("heads", "training_curve", encoder, method, trained_on)

    def checkpoint(self, encoder: str, method: str, trained_on: str) -> Path:
        """Checkpoint of an unfinished training."""
        return self._file("checkpoints", encoder, method, f"{trained_on}.safetensors")

    def shards(self, stage: str, *partition: str) -> Path:
        """Folder of the finished shards of an unfinished step."""
        return self._file("shards", stage, *partition)

    def comparisons(self, encoder: str) -> Path:
        """Paired tests between the methods of an encoder."""
        return self.table("evaluation", "comparisons", encoder)

    @property
    def plots(self) -> Path:
        """Folder of all pictures."""
        return self.home / "plots"

    def plot(self, *of: str, name: str) -> Path:
        """A picture: of an encoder, method and training set, or of the warehouse."""
        return self._file("plots", *of, f"{name}.png")

    def encoder(self, encoder: str, part: str = "encoder") -> Path:
        """Folder of a model that steps of the encoder make."""
        return self._file("encoders" if part == "encoder" else f"{part}_encoders", encoder)

    def corpus_path(self, name: str) -> Path:
        """File or folder of a corpus: the configured path, or that of its download."""
        corpus = next(corpus for corpus in self.config.corpora if corpus.name == name)
        if corpus.path is not None:
            return self.config.resolve(corpus.path)
        assert corpus.url is not None  # the configuration requires path or url
        return self._file("downloads", name, file_name(corpus.url))

    def record(self, *of: str) -> Path:
        """Record of what a step read and made."""
        return self._file("records", *of[:-1], f"{of[-1]}.json")

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.home / "warehouse.duckdb"

    def _file(self, *parts: str) -> Path:
        return self.home.joinpath(*(safe_part(part) for part in parts))
