"""Where things are: the configuration and the folder of results.

The one place that reads the environment: `DISENT_CONFIG` (default `disent.toml` in the project), `DISENT_HOME`
(default `data/` in the project), `DISENT_EXECUTOR` and `DISENT_UI`. What belongs here: paths. What does not:
anything computed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from disent_core.config.load import Config, load_config
from disent_core.corpora.download import file_name
from disent_core.errors import ConfigError
from disent_core.storage.tables import safe_part, table_path

PROJECT = Path(__file__).resolve().parent.parent
SQL = PROJECT / "sql"


@dataclass(frozen=True)
class Workspace:
    """A configuration and its folder of results; every asset is made from one."""

    config: Config
    home: Path

    def table(self, stage: str, table: str, *partition: str) -> Path:
        """Path of one partition of a table."""
        return table_path(self.home, stage, table, *partition)

    @property
    def embeddings(self) -> Path:
        """Folder of the content-addressed vectors."""
        return self.home / "tables" / "embeddings"

    def head(self, encoder: str, method: str, trained_on: str) -> Path:
        """Weights of all seeds of a head."""
        return self._file("heads", encoder, method, f"{trained_on}.safetensors")

    def checkpoint(self, encoder: str, method: str, trained_on: str) -> Path:
        """State of a training that is under way."""
        return self._file("checkpoints", encoder, method, f"{trained_on}.safetensors")

    def plot(self, *of: str, name: str) -> Path:
        """A picture: of an encoder, method and entry, or of the warehouse."""
        return self._file("plots", *of, f"{name}.png")

    def pretrained(self, encoder: str) -> Path:
        """Model folder of an encoder that the lineage pretrains."""
        return self._file("encoders", encoder)

    def corpus_path(self, name: str) -> Path:
        """File or folder of a corpus: as configured, or where its download lies."""
        corpus = next(corpus for corpus in self.config.corpora if corpus.name == name)
        if corpus.path is not None:
            return self.config.resolve(corpus.path)
        assert corpus.url is not None  # the configuration has one of the two
        return self._file("downloads", name, file_name(corpus.url))

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.home / "warehouse.duckdb"

    def _file(self, *parts: str) -> Path:
        return self.home.joinpath(*(safe_part(part) for part in parts))


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Folder of results."""
    return Path(environment.get("DISENT_HOME") or PROJECT / "data").expanduser().resolve()


def run_settings(environment: Mapping[str, str] = os.environ, *, choices: tuple[str, ...]) -> tuple[str, str | None]:
    """Which executor runs the steps of a run, the first choice if none is named, and the address of the UI.

    Raises:
        ConfigError: if there is no such executor.
    """
    executor = environment.get("DISENT_EXECUTOR") or choices[0]
    if executor not in choices:
        raise ConfigError(f"DISENT_EXECUTOR: {executor!r} is none of {', '.join(choices)}")
    return executor, environment.get("DISENT_UI") or None


def open_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace that the environment names.

    Raises:
        ConfigError: if the configuration can't be read.
    """
    path = Path(environment.get("DISENT_CONFIG") or PROJECT / "disent.toml").expanduser()
    return Workspace(load_config(path), home_folder(environment))
