"""Open a configuration and its folder of results for reading."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from disent.extras import needing_extra
from disent.model import Model, load_head
from disent_core.errors import DamagedError, EncoderError, TableError, TrainingError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from disent_core.config.model import Config
    from disent_core.export.folder import Exported
    from disent_core.lineage.run_heads import RunHead
    from disent_core.lineage.workspace import Workspace


def open(config: str | Path = "disent.toml", *, home: str | Path | None = None) -> "Run":
    """Open the results of a configuration. Nothing is computed, and no result has to exist yet.

    Args:
        config: the TOML file, or the folder of its `disent.toml`.
        home: folder of results, or an address such as `s3://bucket/prefix`. None: as for commands, `DISENT_HOME` or
            `data` in the project.

    Raises:
        ConfigError: if the configuration can't be read, or the folder has results of another one; the message names
            file, line and key.
    """
    from disent.home import check_owner, expanded, home_folder, open_home

    with needing_extra("train"):
        from disent_core.config.load import load_config
        from disent_core.lineage.workspace import Workspace

    folder, path = home_folder() if home is None else open_home(home), expanded(config)
    workspace = Workspace(load_config(path / "disent.toml" if path.is_dir() else path), folder)
    check_owner(workspace.config, workspace.home)
    return Run(workspace)


class HeadName(NamedTuple):
    """Name of a head: `run.head(*name)` opens it."""

    method: str
    encoder: str
    pair: str


class Run:
    """The results of a configuration, as `open` returns them."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace

    def __repr__(self) -> str:
        return f"Run({str(self.config.path)!r}, home={str(self.home)!r})"

    @property
    def config(self) -> "Config":
        """The configuration."""
        return self._workspace.config

    @property
    def home(self) -> Path:
        """Folder of results."""
        return self._workspace.home

    def heads(self) -> list[HeadName]:
        """List every head that can be opened: trained heads, and methods that need no training."""
        from disent_core.storage.results import result_exists

        return [
            HeadName(method.name, encoder, pair)
            for encoder, method, pair in self.config.measured()
            if not method.method.is_trained or result_exists(self._workspace.head(encoder, method.name, pair))
        ]

    def head(self, method: str, encoder: str | None = None, pair: str | None = None) -> "Head":
        """Open a head.

        Args:
            method: name of the method in the configuration.
            encoder: name of its encoder; may be left out if the method has only one.
            pair: its training set, `en-de`; may be left out if there is only one, or if the method is untrained.

        Raises:
            ValueError: if the configuration has no such method, encoder or pair.
            TrainingError: if the head was not trained, or with other settings; the message says how to train it.
        """
        from disent_core.lineage.head_spec import head_run, require_trained
        from disent_core.lineage.run_heads import RunHead

        config = self.config
        chosen = config.methods[_choice("method", method, config.experiment.methods)]
        encoders = [name for name in config.encoders if chosen in config.methods_of(name)]
        encoder = _choice("encoder", encoder, encoders)
        pairs = config.training_sets_of(chosen)
        pair = pairs[0] if pair is None and not chosen.method.is_trained else _choice("pair", pair, pairs)
        with self._missing_results():
            require_trained(self._workspace, head_run(self._workspace, encoder, chosen, pair))
        return Head(RunHead(self._workspace, chosen, encoder, pair))

    def table(self, *name: str) -> "pl.DataFrame":
        """Read a table of the run, with all partitions concatenated.

        Args:
            name: of the table, `"metrics"`, optionally preceded by its stage and followed by the first parts of a
                partition; `"corpora", "utterances", "massive", "en"` is one file. `"history.metrics"` is the history.

        Raises:
            ValueError: if there is no such table or partition.
            TableError: if no part of it exists yet, or a file is damaged.
        """
        import polars as pl

        from disent_core.lineage.history import read_history
        from disent_core.lineage.tables import read_stored

        if name == ("history.metrics",):
            return pl.DataFrame(read_history(self._workspace).rows)
        with self._missing_results():
            return pl.DataFrame(read_stored(self._workspace, name))

    def metrics(self, *, task: str | None = None, method: str | None = None) -> "pl.DataFrame":
        """Read the table `metrics`: every result of every method, with its 95 % interval.

        The row whose `seed` is null is the mean over seeds.

        Args:
            task: only of this task.
            method: only of this method.

        Raises:
            TableError: if nothing has been evaluated yet.
        """
        import polars as pl

        wanted = {"task": task, "method": method}
        filters = [pl.col(column) == value for column, value in wanted.items() if value is not None]
        return self.table("metrics").filter(*filters)

    def sql(self, query: str) -> "pl.DataFrame":
        """Query the warehouse, as `disent sql` does. A query can't change data or read other files.

        Args:
            query: a `select` (or `from ...`) in DuckDB's SQL; `show tables` lists tables and views.

        Raises:
            TableError: if the warehouse has not been built.
            DisentError: if the query fails, or is not a query.
        """
        import polars as pl

        from disent.query import query as answer

        with self._missing_results():
            return pl.DataFrame(answer(self._workspace.warehouse, query))

    @contextmanager
    def _missing_results(self) -> Iterator[None]:
        """Add the folder of results to the error about a missing result: it may belong to another configuration."""
        try:
            yield
        except DamagedError:
            raise
        except (EncoderError, TableError, TrainingError) as error:
            remedy = "If they are in another folder, name it: disent.open(..., home=FOLDER)"
            raise type(error)(f"{error}. Results were read from {self.home}. {remedy}") from error


class Head(Model):
    """A method on an encoder and a pair, trained or not; opened by `Run.head`.

    For a task's texts, vectors equal those that evaluation measures, to the bit with one thread. Texts that the run has
    encoded in `language` are looked up; others are encoded on demand and not stored.

    Attributes:
        name: method, encoder and pair.
    """

    def __init__(self, head: "RunHead") -> None:
        super().__init__(head)
        self.name = HeadName(head.configured.name, head.encoder, head.trained_on)
        self._is_limited = self.languages is not None
        self.languages = self.languages or tuple(head.workspace.config.languages)

    def __repr__(self) -> str:
        return f"Head(method={self.name.method!r}, encoder={self.name.encoder!r}, pair={self.name.pair!r})"

    @property
    def modules(self) -> tuple[str, ...]:
        """Names in the configuration that the head uses: method, encoder kind, and the encoder's name on the hub."""
        from disent_core.lineage.run_heads import modules_of

        return modules_of(self._head.workspace, self.name.encoder, self._head.configured)

    def embed(self, texts: Sequence[str], *, language: str, seed: int | None = None) -> "dict[str, np.ndarray]":
        """Earlier name of `encode_all`; `seed` is one of `seeds`, or None for the first."""
        return self._encoded(texts, language, self._seed(seed))

    def save(
        self,
        folder: str | Path,
        embeddings: Sequence[str] | None = None,
        *,
        onnx: bool = False,
        licence: str | None = None,
    ) -> "Exported":
        """See `Model.save`; an untrained method has nothing to save."""
        if not self._head.method.is_trained:
            raise TrainingError(
                f"{self.name.method} is untrained, so there is nothing to save; use its encoder's folder"
            )
        path = self._head.workspace.head(self.name.encoder, self.name.method, self.name.pair)
        return load_head(path, methods=self.modules).save(folder, embeddings, onnx=onnx, licence=licence)

    def _language(self, language: str | None) -> str:
        if language is None and not self._is_limited:
            return ""
        self._refuse_untagged(language)
        return _choice("language", language, self.languages or ())


def _choice(what: str, name: str | None, choices: Iterable[str]) -> str:
    """Return the name if it is among the choices, or the only choice if no name is given."""
    from disent_core.config.toml_lines import nearest

    names = list(choices)
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        problem = f"name the {what}" if name is None else f"unknown {what} {name!r}{nearest(name, names)}"
        raise ValueError(f"{problem}; choose one of {', '.join(names)}")
    return name
