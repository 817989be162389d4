"""Locate everything a run reads and writes: the keys of its assets, its folder of results, and the paths in it.

The last part of the key of an asset says what the asset is, because the graph of the UI shows only that part. Tables,
their folders and SQL use other names, without the encoder and the kind of asset.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from disent_core.config.model import Config
from disent_core.embeddings.store import STATES, VECTORS
from disent_core.shards.backend import INLINE, ShardBackend
from disent_core.storage.download import file_name
from disent_core.storage.names import safe_part
from disent_core.storage.tables import SCHEMAS, RefreshResult, read_table, refresh_table, table_path

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
HEAD, METRICS, EXPORT = "_head", "_metrics", "_export"
"""Endings of the keys of methods; the name of the method comes before them."""
EMBEDDINGS = {VECTORS: "vectors", STATES: "states"}
"""Endings of the keys of embeddings, by table; the name of the encoder and `_` come before them."""


def embedding_key(encoder: str, table: str) -> Key:
    return ("embeddings", encoder, f"{encoder}_{EMBEDDINGS[table]}")


def training_data_key(encoder: str) -> Key:
    """Return the key of what the heads of an encoder read; every head depends on it."""
    return ("heads", encoder, f"{encoder}_training_data")


def head_key(encoder: str, method: str) -> Key:
    return ("heads", encoder, f"{method}{HEAD}")


def evaluation_sets_key(encoder: str) -> Key:
    """Return the key of what the tasks read; the metrics of every method of the encoder depend on it."""
    return ("evaluation", encoder, f"{encoder}_evaluation_sets")


def metrics_key(encoder: str, method: str) -> Key:
    return ("evaluation", encoder, f"{method}{METRICS}")


def export_key(encoder: str, method: str) -> Key:
    return ("exports", encoder, f"{method}{EXPORT}")


def comparisons_key(encoder: str) -> Key:
    return ("evaluation", encoder, f"{encoder}_comparisons")


def settings_search_key(encoder: str) -> Key:
    return ("evaluation", encoder, f"{encoder}_settings_search")


@dataclass(frozen=True)
class Workspace:
    """A configuration and its folder of results."""

    config: Config
    home: Path
    prefix: Key = ()
    """Prefix of its assets' keys, in a Dagster project with other assets."""
    shard_backend: ShardBackend = INLINE
    """Where a step's shards are computed; results do not depend on it."""

    def table(self, stage: str, table: str, *partition: str) -> Path:
        return table_path(self.home, stage, table, *partition)

    def read(self, stage: str, table: str, *partition: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a partition, or some of their columns."""
        return read_table(self.table(stage, table, *partition), SCHEMAS[table], columns)

    def refresh(
        self,
        stage: str,
        table: str,
        *partition: str,
        inputs: str,
        make: Callable[[], pa.Table],
        key: Sequence[str] = (),
    ) -> RefreshResult:
        """Make a partition unless it is up to date, as `refresh_table` does."""
        return refresh_table(self.table(stage, table, *partition), SCHEMAS[table], inputs=inputs, make=make, key=key)

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def embeddings(self) -> Path:
        """Folder of the content-addressed vectors."""
        return self.tables / "embeddings"

    def head(self, encoder: str, method: str, trained_on: str) -> Path:
        """Return the file of the weights of all seeds of a head."""
        return self._file("heads", encoder, method, f"{trained_on}.safetensors")

    def export(self, encoder: str, method: str, trained_on: str) -> Path:
        return self._file("exports", encoder, method, trained_on)

    def training_curve(self, encoder: str, method: str, trained_on: str) -> Path:
        return self.table("heads", "training_curve", encoder, method, trained_on)

    def checkpoint(self, encoder: str, method: str, trained_on: str) -> Path:
        return self._file("checkpoints", encoder, method, f"{trained_on}.safetensors")

    def shards(self, stage: str, *partition: str) -> Path:
        """Return the folder of the finished shards of an unfinished step."""
        return self._file("shards", stage, *partition)

    @property
    def plots(self) -> Path:
        return self.home / "plots"

    def plot(self, *of: str, name: str) -> Path:
        """Return the file of a picture: of an encoder, method and training set, or of the warehouse."""
        return self._file("plots", *of, f"{name}.png")

    def encoder(self, encoder: str, part: str = "encoder") -> Path:
        """Return the folder of a model made by the encoder's steps."""
        return self._file("encoders" if part == "encoder" else f"{part}_encoders", encoder)

    def corpus_path(self, name: str) -> Path:
        """Return the file or folder of a corpus: the configured path, or that of its download."""
        corpus = next(corpus for corpus in self.config.corpora if corpus.name == name)
        if corpus.path is not None:
            return self.config.resolve(corpus.path)
        assert corpus.url is not None  # the configuration requires path or url
        return self._file("downloads", name, file_name(corpus.url))

    def record(self, *of: str) -> Path:
        """Return the file of the record of what a step read and made."""
        return self._file("records", *of[:-1], f"{of[-1]}.json")

    @property
    def warehouse(self) -> Path:
        return self.home / "warehouse.duckdb"

    def _file(self, *parts: str) -> Path:
        return self.home.joinpath(*(safe_part(part) for part in parts))
