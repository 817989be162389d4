"""Write the tables of results in README and docs from warehouses, each row with a fingerprint of the code behind it.

A table is between two comments, and nothing outside of them is changed:

    <!-- results CONFIG ENCODER TASKS: WHAT -->
    <!-- end -->

CONFIG is a configuration of the project. ENCODER is one of its encoders or several; one that it lacks is passed over,
and a row with a column `encoder` is about that one. TASKS are the tasks of the figures, or `all`. Both are separated by
commas. WHAT is `DATASET METRIC` (the leaderboard of the single task and encoder), the path of an SQL file, or a query.
The answer of a query with a column `shown_as` is pivoted: one row a method, one column for each value of `shown_as`.

The last two columns are fingerprints of what a row was made from: `data`, all tables of texts of the run and the
encoder's vectors; `code`, the code and settings (`code_of`), or `earlier` if these have changed since. `write_results`
writes them, and a test finds rows of another code.

A block without a table says that it has not been run yet. In the line of `<!-- earlier -->` stands how many rows of all
pages are of earlier code, and how many tables have not been run yet.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_assets.duckdb_warehouse import query
from disent_assets.table_text import render
from disent_core.config.load import Config, load_config
from disent_core.errors import DisentError
from disent_core.evaluation.contract import task
from disent_core.experiment.embeddings import lazy_encoder
from disent_core.experiment.evaluation import CODE_VERSION, metrics_inputs
from disent_core.experiment.heads import head_run, require_trained
from disent_core.experiment.tables import OF_LANGUAGES, OF_PAIRS, stored_tables
from disent_core.experiment.workspace import Workspace
from disent_core.heads.identity import settings_fingerprint
from disent_core.report.scores import CUT_SHORT, CUT_SHORT_NOTE, marked
from disent_core.storage.atomic import write_text
from disent_core.storage.checksums import is_stored
from disent_core.storage.tables import content_of, fingerprint

EARLIER = "earlier"
"""`code` of a row that was produced by other code or settings than the current ones."""
NOT_RUN = "*Not run yet at this code.*"
"""In place of the command and the table, so that nobody looks for figures that do not exist."""
FILES = ("README.md", "docs/*.md")
_BLOCK = re.compile(
    r"<!-- results (?P<config>\S+) (?P<encoder>\S+) (?P<tasks>\S+): (?P<what>.*?) -->\n(?P<body>.*?)<!-- end -->",
    re.DOTALL,
)
_EARLIER = re.compile(r"(?<=<!-- earlier -->\n).*")
_STAMPS = ("data", "code")
_FIGURE = ("shown_as", "value", "ci_low", "ci_high", "n", "seeds", "converged")
_METHODS = ("method", "method_a", "method_b", "left_side", "right_side")
"""Columns whose cells begin with the name of a method; a row without such a column is about all methods."""
_LEADERBOARD = """
select method, embedding, evaluated_on as shown_as, value, ci_low, ci_high, n, seeds, converged
from leaderboard
where
    encoder = '{encoder}' and task = '{task}' and dataset = '{dataset}' and metric = '{metric}' and rank is not null
    and hubness = 'none'
    and coalesce(try_cast(settings as json) ->> 'gold', 'z_mean') = 'z_mean'
qualify row_number() over (
    partition by method, embedding, evaluated_on order by list_position({pairs}, trained_on), trained_on
) = 1
order by list_sort(string_split(evaluated_on, '-')), evaluated_on not like 'en-%', rank, method
"""
"""If several training sets were evaluated on a language, the first in `pairs` counts; `qe` has its official score."""


@dataclass(frozen=True)
class Table:
    """A Markdown table: its column names, and its rows as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, markdown: str) -> "Table":
        """The first table of a text; a table without columns if there is none."""
        lines = [line.strip() for line in markdown.splitlines() if line.lstrip().startswith("|")]
        cells = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in lines]
        return cls(cells[0] if cells else (), tuple(cells[2:]))

    @property
    def markdown(self) -> str:
        """The table as lines of text."""
        if not self.columns:
            return ""
        lines = (self.columns, ("---",) * len(self.columns), *self.rows)
        return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)

    @property
    def earlier(self) -> int:
        """Number of rows of earlier code."""
        return sum(row[-1] == EARLIER for row in self.rows)

    def methods(self, row: Sequence[str]) -> list[str]:
        """Names of the methods that a row is about."""
        named = dict(zip(self.columns, row, strict=True))
        return [named[column].split()[0] for column in _METHODS if named.get(column)]

    def about(self, row: Sequence[str]) -> "About":
        """The methods that a row is about, and the encoder if it names one."""
        return About(tuple(self.methods(row)), dict(zip(self.columns, row, strict=True)).get("encoder", ""))

    def with_missing(self, before: "Table", is_missing: Callable[["About"], bool]) -> "Table":
        """With the rows of `before` about methods that a run lacks (`is_missing`), below its own."""
        missing = [row for row in before.rows if before.methods(row) and is_missing(before.about(row))]
        if not missing:
            return self
        names = dict.fromkeys((*self.columns, *before.columns))
        columns = (*(name for name in names if name not in _STAMPS), *_STAMPS)
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        rows += [dict(zip(before.columns, row, strict=True)) for row in missing]
        return Table(columns, tuple(tuple(row.get(name, "") for name in columns) for row in rows))

    def stamped(self, stamp: Callable[["About", "Stamp"], "Stamp"]) -> "Table":
        """The table with `stamp(about, old)` as the last cells of each row; `old` is empty if there was none."""
        if not self.columns:
            return self
        bare = tuple(name for name in self.columns if name not in _STAMPS)
        rows = []
        for row in self.rows:
            named = dict(zip(self.columns, row, strict=True))
            new = stamp(self.about(row), Stamp(named.get("data", ""), named.get("code", "")))
            rows.append((*(named[name] for name in bare), new.data, new.code))
        return Table((*bare, *_STAMPS), tuple(rows))


class About(NamedTuple):
    """Methods (none: all) and encoder (empty: all of the block) that a row is about."""

    methods: tuple[str, ...]
    encoder: str = ""


class Stamp(NamedTuple):
    """The fingerprints of data and code behind a row."""

    data: str
    code: str


@dataclass(frozen=True)
class Block:
    """The text between two comments: the source of the figures, and the table."""

    config: str
    encoder: str
    tasks: str
    what: str
    body: str

    @property
    def table(self) -> Table:
        """The table as it is in the file."""
        return Table.parse(self.body)

    @property
    def command(self) -> str:
        """The command that shows the figures, if DISENT_CONFIG and DISENT_HOME name the run."""
        if self._is_leaderboard:
            return f"disent leaderboard {self.tasks}"
        return (
            f"disent sql {self.what}" if self.what.endswith(".sql") else f'disent sql "{" ".join(self.what.split())}"'
        )

    def sql(self, project: Path, config: Config) -> str:
        """The query for the figures."""
        if self._is_leaderboard:
            dataset, metric = self.what.split()
            names = {"encoder": self.encoder, "task": self.tasks, "dataset": dataset, "metric": metric}
            return _LEADERBOARD.format(pairs=list(config.experiment.pairs), **names)
        return (project / self.what).read_text(encoding="utf-8") if self.what.endswith(".sql") else self.what

    def code(self, config: Config, about: About) -> str:
        """Fingerprint of the current code and settings of a row; `earlier` if its encoder or a method is gone."""
        encoders = self.encoders(config, about)
        known = _methods(config, encoders)
        if not known or not known.issuperset(about.methods):
            return EARLIER
        tasks = config.evaluation.tasks if self.tasks == "all" else self.tasks.split(",")
        return code_of(config, encoders, sorted(about.methods or known), sorted(tasks))

    def encoders(self, config: Config, about: About) -> list[str]:
        """The encoders of a row that the configuration has."""
        names = [about.encoder] if about.encoder else self.encoder.split(",")
        return [name for name in names if name in config.encoders]

    def text(self, table: Table) -> str:
        """The block with another table."""
        head = f"<!-- results {self.config} {self.encoder} {self.tasks}: {self.what} -->"
        if not table.columns:
            return f"{head}\n\n{NOT_RUN}\n\n<!-- end -->"
        note = f"\n{CUT_SHORT_NOTE}.\n" if CUT_SHORT in table.markdown else ""
        return f"{head}\n\n    {self.command}\n\n{table.markdown}{note}<!-- end -->"

    @property
    def _is_leaderboard(self) -> bool:
        return re.fullmatch(r"\S+ \S+", self.what) is not None


def blocks(text: str) -> list[Block]:
    """All blocks of a Markdown text."""
    return [Block(**match.groupdict()) for match in _BLOCK.finditer(text)]


def code_of(config: Config, encoders: Sequence[str], methods: Iterable[str], tasks: Iterable[str]) -> str:
    """Fingerprint (eight digits) of the code and settings behind figures: those of encoders, methods and tasks.

    It depends on the configuration and the code alone.
    """
    of_methods = [
        (name, method.method.name, method.method.code_version, settings_fingerprint(method.settings))
        for name in methods
        for method in [config.methods[name]]
    ]
    of_tasks = [(name, task(name).code_version) for name in tasks]
    return fingerprint(CODE_VERSION, *(config.encoders[encoder] for encoder in encoders), of_methods, of_tasks)[:8]


# --- writing ----------------------------------------------------------------------------------------------


def write_results(project: Path, homes: Mapping[str, Path]) -> list[str]:
    """Write every table whose configuration has a warehouse; mark rows of earlier code in the other tables.

    Args:
        project: the folder of README and docs.
        homes: folder of results, by the path of the configuration as the comments name it.

    Returns:
        One line for each table: its file, and the source of its figures.

    Raises:
        DisentError: if a query can't be run, or a configuration can't be read.
    """
    lines, pages = [], {}
    for path in result_files(project):

        def written(match: re.Match[str], name: str = path.relative_to(project).as_posix()) -> str:
            block = Block(**match.groupdict())
            table, source = _table(block, project, homes.get(block.config))
            lines.append(f"{name}, {block.command}: {len(table.rows)} rows {source}, {table.earlier} of earlier code")
            return block.text(table)

        pages[path] = _BLOCK.sub(written, path.read_text(encoding="utf-8"))
    count = earlier_rows(pages.values())
    for path, text in pages.items():
        new = _EARLIER.sub(count, text)
        if new != path.read_text(encoding="utf-8"):
            write_text(path, new)
    return [*lines, count]


def earlier_rows(pages: Iterable[str]) -> str:
    """The sentences that count the rows of earlier code in all pages, and the tables that no run has made yet."""
    tables = [block.table for text in pages for block in blocks(text)]
    earlier, rows = sum(table.earlier for table in tables), sum(len(table.rows) for table in tables)
    missing = sum(not table.columns for table in tables)
    counted = f"Rows of earlier code, in README and docs: {earlier:,} of {rows:,}."
    return f"{counted} Tables that have not been run yet: {missing:,} of {len(tables):,}."


def result_files(project: Path) -> list[Path]:
    """The Markdown files that may have tables of results."""
    return sorted(path for pattern in FILES for path in project.glob(pattern))


def configurations(project: Path) -> list[str]:
    """The configurations that the pages name, in their order."""
    pages = (path.read_text(encoding="utf-8") for path in result_files(project))
    return list(dict.fromkeys(block.config for text in pages for block in blocks(text)))


def default_homes(project: Path) -> dict[str, Path]:
    """Configuration -> default folder of its results: `data` for the demo, `data/NAME` for `configs/NAME.toml`."""
    others = {f"configs/{path.name}": project / "data" / path.stem for path in (project / "configs").glob("*.toml")}
    return {"disent.toml": project / "data", **others}


def _table(block: Block, project: Path, home: Path | None) -> tuple[Table, str]:
    config = load_config(project / block.config)

    def kept(about: About, old: Stamp) -> Stamp:
        return old if old.code == block.code(config, about) else Stamp("", EARLIER)

    before = block.table.stamped(kept)
    if home is None or not is_stored(home / "warehouse.duckdb"):
        return before, f"kept ({block.config} has no warehouse here)"
    workspace = Workspace(config, home)
    is_fresh = cache(lambda encoder, method: _is_of_current_code(workspace, encoder, method))
    data = cache(lambda encoders: _data(workspace, encoders))

    def made(about: About) -> set[tuple[str, str]]:
        """Encoders and methods whose metrics are behind a row."""
        encoders = block.encoders(config, about)
        of_row = [(encoder, method.name) for encoder in encoders for method in config.methods_of(encoder)]
        return {(encoder, method) for encoder, method in of_row if method in about.methods or not about.methods}

    def stamp(about: About, _: Stamp) -> Stamp:
        current = block.code(config, about)
        if current == EARLIER or not all(is_fresh(*one) for one in made(about)):
            return Stamp("", EARLIER)
        return Stamp(data(tuple(block.encoders(config, about))), current)

    answer = shown(query(workspace.warehouse, block.sql(project, config))).stamped(stamp)
    if not all(map(answer.methods, answer.rows)) and not all(is_fresh(*one) for one in made(About(()))):
        return before, f"kept (its rows are about all methods, and {home} lacks some)"
    measured = _measured(workspace)
    return answer.with_missing(before, lambda about: bool(made(about) - measured)), f"from {home}"


def _methods(config: Config, encoders: Iterable[str]) -> set[str]:
    """Names of the methods of some of the encoders."""
    return {method.name for encoder in encoders for method in config.methods_of(encoder)}


def _measured(workspace: Workspace) -> set[tuple[str, str]]:
    """Encoders and methods that have metrics."""
    rows = query(workspace.warehouse, "select distinct encoder, method from metrics").to_pylist()
    return {(row["encoder"], row["method"]) for row in rows}


def _data(workspace: Workspace, encoders: Sequence[str]) -> str:
    """Fingerprint (eight digits) of all tables of texts, and of the encoders' vectors."""
    stored = stored_tables(workspace)
    texts = [content_of(path) for key in (*OF_LANGUAGES, *OF_PAIRS) for path in stored[key[1]]]
    return fingerprint(texts, [lazy_encoder(workspace, encoder).fingerprint for encoder in encoders])[:8]


def _is_of_current_code(workspace: Workspace, encoder: str, method: str) -> bool:
    """Whether the current code would make all metrics of a method from the inputs that the home has.

    A training set without metrics says nothing: its figures stand in no row.
    """
    sql = f"select distinct fingerprint from metrics where encoder = '{encoder}' and method = '{method}'"
    recorded = set(query(workspace.warehouse, sql)["fingerprint"].to_pylist())
    configured = workspace.config.methods[method]
    current = set()
    for training_set in workspace.config.training_sets_of(configured):
        with suppress(DisentError, OSError):  # a head is of other code, or a file does not exist: not current
            require_trained(workspace, head_run(workspace, encoder, configured, training_set))
            current.add(metrics_inputs(workspace, encoder, configured, training_set))
    return bool(recorded) and recorded <= current


def shown(answer: pa.Table) -> Table:
    """The answer of a query as a table, pivoted to a column for each value of `shown_as` if it has that column."""
    if "shown_as" not in answer.column_names:
        return Table.parse(render(answer, "markdown"))
    rows = answer.to_pylist()
    keys = [name for name in answer.column_names if name not in _FIGURE]
    columns = list(dict.fromkeys(row["shown_as"] for row in rows))
    grouped: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(tuple(str(row[key]) for key in keys), []).append(row)
    lines = []
    for key, group in grouped.items():
        names = [marked(text, group) if name == "method" else text for name, text in zip(keys, key, strict=True)]
        lines.append(_line(names, {row["shown_as"]: row for row in group}, columns))
    return Table((*keys, *columns, "n", "seeds"), tuple(lines))


def _line(key: Sequence[str], cells: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> tuple[str, ...]:
    counts = sorted({row["n"] for row in cells.values()})
    seeds = max(row["seeds"] for row in cells.values())
    return (
        *key,
        *(_cell(cells[column]) if column in cells else "" for column in columns),
        "-".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))),
        str(seeds) if seeds else "",
    )


def _cell(row: Mapping[str, Any]) -> str:
    """`0.807 [0.794, 0.820]`; with four decimals if three would show 0."""
    digits = 4 if 0 < abs(row["value"]) < 0.001 else 3
    if row["ci_low"] is None or row["ci_high"] is None:
        return f"{row['value']:.{digits}f}"
    return f"{row['value']:.{digits}f} [{row['ci_low']:.{digits}f}, {row['ci_high']:.{digits}f}]"
