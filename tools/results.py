"""Write the tables of results in docs/results from warehouses, and the short tables on pages from those.

`python -m tools.results [CONFIG]...`, or `make results` and `make tables`. `tools/results.toml` lists the tables: a CSV
file in docs/results with a line per figure (leaderboards) or per row of a query's answer. The last two columns are
fingerprints of what a row was made from: `data` of all the run's tables of texts and the encoder's vectors; `code` of
code and settings (`code_of`), or `earlier` if these have changed since. A test finds rows made by other code.

A table in README and docs is the answer to a query on these files, between two comments:

    <!-- table: select method, value from template_retrieval where encoder = 'minilm_low' -->
    <!-- end -->

All files with their commands are listed between `<!-- files -->` and `<!-- end -->`; the line after `<!-- earlier -->`
gives the number of rows from earlier code.
"""

import csv
import io
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import duckdb

from disent.query import query
from disent_assets.cli.group import errors
from disent_assets.cli.output.tables import render, text_rows
from disent_core.config.load import Config, load_config
from disent_core.errors import DisentError
from disent_core.evaluation.contract import task
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.evaluation_inputs import CODE_VERSION, intervals_version, provenance
from disent_core.lineage.head_spec import head_run, ranked_by_pair, require_trained
from disent_core.lineage.tables import stored_tables
from disent_core.lineage.workspace import OF_LANGUAGES, OF_PAIRS, Workspace
from disent_core.methods.spec import settings_fingerprint
from disent_core.storage.files import write_text
from disent_core.storage.results import result_exists
from disent_core.storage.tables import content_of, fingerprint
from tools.doc_queries import write_answers
from tools.results_run import materialize, outlook, ship_seconds

Row = dict[str, str]

ROOT = Path(__file__).resolve().parents[1]
TABLES = "tools/results.toml"
RESULTS = Path("docs", "results")
PAGES = ("README.md", "docs/**/*.md")
EARLIER = "earlier"
"""`code` of a row that was produced by code or settings other than the current ones."""
_STAMPS = ("data", "code")
_METHODS = ("method", "method_a", "method_b", "left_side", "right_side")
"""Columns whose cells begin with a method's name; a row without any of these columns is about all methods."""
_BLOCK = re.compile(r"<!-- table: (?P<sql>.*?) -->\n.*?<!-- end -->", re.DOTALL)
_FILES = re.compile(r"<!-- files -->\n.*?<!-- end -->", re.DOTALL)
_EARLIER = re.compile(r"(?<=<!-- earlier -->\n).*")
_BOARD = """
select method, embedding, evaluated_on, value, ci_low, ci_high, n, seeds, converged
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
"""If several training sets were evaluated on a language, the first in `pairs` counts; `qe` uses its official score."""


@dataclass(frozen=True)
class Table:
    """A table of results: a leaderboard of one encoder, or the answer to a query.

    Attributes:
        file: its CSV file in docs/results, shared by all leaderboards of a task.
        config: path of its run's configuration.
        encoders: encoders behind its figures; those missing from the configuration are ignored.
        tasks: the tasks behind its figures, or `all`.
        query: SQL, or the path of an SQL file; empty for a leaderboard.
        board: column -> value that identify this leaderboard's rows in the file; empty for a query.
    """

    file: str
    config: str
    encoders: tuple[str, ...]
    tasks: tuple[str, ...]
    query: str
    board: Row

    def rows_of(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of its file that belong to this table."""
        return [row for row in rows if self.board.items() <= row.items()]

    def row_encoders(self, config: Config, row: Row) -> tuple[str, ...]:
        """Return the encoders behind a row, as far as the configuration has them."""
        names = (row["encoder"],) if row.get("encoder") else self.encoders
        return tuple(name for name in names if name in config.encoders)

    def code(self, config: Config, row: Row) -> str:
        """Fingerprint the current code and settings behind a row; `earlier` if its encoder or a method is gone."""
        encoders, of_row = self.row_encoders(config, row), methods_of(row)
        known = {method.name for encoder in encoders for method in config.methods_of(encoder)}
        if not known or not known.issuperset(of_row):
            return EARLIER
        tasks = config.evaluation.tasks if self.tasks == ("all",) else self.tasks
        return code_of(config, encoders, sorted(of_row or known), sorted(tasks))

    @property
    def command(self) -> str:
        """The command that prints the figures, with DISENT_CONFIG and DISENT_HOME set to the run."""
        if self.board:
            return f"disent leaderboard {self.tasks[0]}"
        return (
            f"disent sql {self.query}"
            if self.query.endswith(".sql")
            else f'disent sql "{" ".join(self.query.split())}"'
        )

    def answer(self, project: Path, config: Config, warehouse: Path) -> list[Row]:
        """Return the rows from the warehouse, without fingerprints."""
        if not self.board:
            sql = (project / self.query).read_text(encoding="utf-8") if self.query.endswith(".sql") else self.query
            return text_rows(query(warehouse, sql))
        figures = query(warehouse, _BOARD.format(pairs=list(config.experiment.pairs), **self.board)).to_pylist()
        return [{**self.board, **_figure(figure)} for figure in figures]


def methods_of(row: Row) -> list[str]:
    """Return the names of the methods that a row is about; empty means all."""
    return [row[column].split()[0] for column in _METHODS if row.get(column)]


def _figure(row: Mapping[str, Any]) -> Row:
    """Format a figure with three decimals, or with four if three would show 0."""
    digits = 4 if 0 < abs(row["value"]) < 0.001 else 3
    numbers = {name: "" if row[name] is None else f"{row[name]:.{digits}f}" for name in ("value", "ci_low", "ci_high")}
    counts = {"n": str(row["n"]), "seeds": str(row["seeds"] or ""), "cut_short": "yes" * (row["converged"] is False)}
    return {name: row[name] for name in ("method", "embedding", "evaluated_on")} | numbers | counts


def tables(project: Path) -> list[Table]:
    """Return all tables listed in `tools/results.toml`."""
    listed = tomllib.loads((project / TABLES).read_text(encoding="utf-8"))
    return [
        *(_leaderboard(group["config"], encoder, *board.split())
            for group in listed.get("leaderboards", ()) for board in group["boards"] for encoder in group["encoders"]),
        *(Table(**{**of_query, "encoders": tuple(of_query["encoders"]), "tasks": tuple(of_query["tasks"])}, board={})
            for of_query in listed.get("queries", ())),
    ]  # fmt: skip


def _leaderboard(config: str, encoder: str, task_name: str, dataset: str, metric: str) -> Table:
    board = {"config": config, "encoder": encoder, "task": task_name, "dataset": dataset, "metric": metric}
    return Table(f"{task_name}.csv", config, (encoder,), (task_name,), "", board)


def code_of(config: Config, encoders: Sequence[str], methods: Iterable[str], tasks: Iterable[str]) -> str:
    """Fingerprint (eight digits) the code and settings behind figures: encoders, methods, tasks and intervals.

    It depends only on the configuration and the code.
    """
    of_methods = [
        (name, method.method.name, method.method.code_version, settings_fingerprint(method.settings), *of_mixtures)
        for name in methods
        for method in [config.methods[name]]
        for of_mixtures in [ranked_by_pair(config, [method], config.training_sets_of(method))]
    ]
    of_tasks = [(name, task(name).code_version) for name in tasks]
    of_encoders: list[object] = [config.encoders[encoder] for encoder in encoders]
    of_encoders += [prefix for encoder in encoders if (prefix := getattr(config.encoders[encoder], "prefix", ""))]
    return fingerprint(CODE_VERSION, *of_encoders, of_methods, of_tasks, *intervals_version(config))[:8]


# --- files ------------------------------------------------------------------------------------------------


def read_rows(project: Path, file: str) -> list[Row]:
    """Return the rows of a file in docs/results; none if it does not exist."""
    path = project / RESULTS / file
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def write_rows(project: Path, file: str, rows: Sequence[Row]) -> None:
    """Write a file in docs/results; without rows, it keeps its column names."""
    if not rows:
        return
    columns = dict.fromkeys(name for row in rows for name in row if name not in _STAMPS)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns, *_STAMPS], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = project / RESULTS / file
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text.getvalue())


def earlier_rows(project: Path) -> str:
    """Return the sentence that counts rows from earlier code; a method's figures in a leaderboard are one row."""
    rows = [code for table in tables(project) for code in _codes(table, read_rows(project, table.file))]
    return f"Rows of earlier code: {sum(code == EARLIER for code in rows):,} of {len(rows):,}."


def _codes(table: Table, rows: Iterable[Row]) -> Iterable[str]:
    of_table = table.rows_of(rows)
    if not table.board:
        return [row["code"] for row in of_table]
    return {(row["method"], row["embedding"]): row["code"] for row in of_table}.values()


def default_homes(project: Path) -> dict[str, Path]:
    """Map configurations to their default homes: `data` for the demo, `data/NAME` for `configs/NAME.toml`."""
    others = {f"configs/{path.name}": project / "data" / path.stem for path in (project / "configs").glob("*.toml")}
    return {"disent.toml": project / "data", **others}


# --- writing ----------------------------------------------------------------------------------------------


def write_results(project: Path, homes: Mapping[str, Path]) -> Iterator[str]:
    """Write every table whose configuration has a warehouse, and mark rows from earlier code in the others.

    Yields:
        A line for each table, with its file and the source of its figures.
    """
    written: dict[str, list[Row]] = {}
    for table in tables(project):
        before = table.rows_of(read_rows(project, table.file))
        rows, source = _updated(table, before, project, homes.get(table.config))
        written.setdefault(table.file, []).extend(rows)
        earlier = sum(row["code"] == EARLIER for row in rows)
        name = " ".join([table.file, *list(table.board.values())[1:]])
        yield f"{name}: {len(rows)} rows {source}, {earlier} of earlier code"
    for file, rows in written.items():
        write_rows(project, file, rows)
    write_pages(project)
    yield earlier_rows(project)


def _updated(table: Table, before: list[Row], project: Path, home: Path | None) -> tuple[list[Row], str]:
    config = load_config(project / table.config)
    kept = [row if row["code"] == table.code(config, row) else row | _stamp() for row in before]
    if home is None or not result_exists(home / "warehouse.duckdb"):
        return kept, f"kept ({table.config} has no warehouse here)"
    workspace = Workspace(config, home)
    is_fresh = cache(lambda encoder, method: _is_of_current_code(workspace, encoder, method))
    data = cache(lambda encoders: _data(workspace, encoders))

    def metrics_behind(row: Row) -> set[tuple[str, str]]:
        """Return the encoders and methods whose metrics a row shows."""
        methods = methods_of(row)
        return {
            (encoder, method.name)
            for encoder in table.row_encoders(config, row)
            for method in config.methods_of(encoder)
            if method.name in methods or not methods
        }

    def stamped(row: Row) -> Row:
        code = table.code(config, row)
        if code == EARLIER or not all(is_fresh(*metrics) for metrics in metrics_behind(row)):
            return row | _stamp()
        return row | _stamp(data(table.row_encoders(config, row)), code)

    rows = table.answer(project, config, workspace.warehouse)
    if not all(map(methods_of, rows)) and not all(is_fresh(*metrics) for metrics in metrics_behind({})):
        return kept, f"kept (its rows are about all methods, and {home} lacks some)"
    return with_missing(map(stamped, rows), kept, _lacks(workspace, metrics_behind)), f"from {home}"


def _lacks(workspace: Workspace, metrics_behind: Callable[[Row], set[tuple[str, str]]]) -> Callable[[Row], bool]:
    measured = query(workspace.warehouse, "select distinct encoder, method from metrics").to_pylist()
    pairs = {(row["encoder"], row["method"]) for row in measured}
    return lambda row: bool(metrics_behind(row) - pairs)


def with_missing(rows: Iterable[Row], before: Iterable[Row], is_missing: Callable[[Row], bool]) -> list[Row]:
    """Return the rows, followed by those of `before` about methods missing from a run (`is_missing`)."""
    return [*rows, *(row for row in before if methods_of(row) and is_missing(row))]


def _stamp(data: str = "", code: str = EARLIER) -> Row:
    return {"data": data, "code": code}


def _data(workspace: Workspace, encoders: Sequence[str]) -> str:
    """Fingerprint (eight digits) all tables of texts and the encoders' vectors."""
    stored = stored_tables(workspace)
    texts = [content_of(path) for key in (*OF_LANGUAGES, *OF_PAIRS) for path in stored[key[1]]]
    return fingerprint(texts, [lazy_encoder(workspace, encoder).fingerprint for encoder in encoders])[:8]


def _is_of_current_code(workspace: Workspace, encoder: str, method: str) -> bool:
    """Return whether the current code would make the same metrics of a method from the inputs in the home.

    Training sets without metrics do not count, as their figures are in no row.
    """
    sql = f"select distinct fingerprint from metrics where encoder = '{encoder}' and method = '{method}'"
    recorded = set(query(workspace.warehouse, sql)["fingerprint"].to_pylist())
    configured = workspace.config.methods[method]
    current = set()
    for training_set in workspace.config.training_sets_of(configured):
        with suppress(DisentError, OSError):  # a head from other code or a missing file: not current
            require_trained(workspace, head_run(workspace, encoder, configured, training_set))
            current.add(provenance(workspace, encoder, configured, training_set).inputs)
    return bool(recorded) and recorded <= current


# --- pages ------------------------------------------------------------------------------------------------


def write_pages(project: Path) -> None:
    """Write the tables of all pages from docs/results, and the count of rows from earlier code."""
    for page, text in pages(project).items():
        if text != page.read_text(encoding="utf-8"):
            write_text(page, text)


def pages(project: Path) -> dict[Path, str]:
    """Return README and the pages of docs, with tables made from docs/results."""
    count, files = earlier_rows(project), _listed_files(project)
    with open_results(project) as connection:

        def block(match: re.Match[str]) -> str:
            table = render(connection.sql(match["sql"]).to_arrow_table(), "markdown")
            return f"<!-- table: {match['sql']} -->\n\n{table}<!-- end -->"

        return {
            path: _EARLIER.sub(count, _FILES.sub(files, _BLOCK.sub(block, path.read_text(encoding="utf-8"))))
            for path in sorted(path for pattern in PAGES for path in project.glob(pattern))
        }


def _listed_files(project: Path) -> str:
    """Return a Markdown list of all files, each with the run and the command behind its figures."""
    listed: dict[str, list[Table]] = {}
    for table in tables(project):
        listed.setdefault(table.file, []).append(table)
    lines = [
        f"- [{file}]({file}): {len(read_rows(project, file)):,} rows of {runs}\n\n      {of_file[0].command}\n"
        for file, of_file in listed.items()
        for runs in [", ".join(dict.fromkeys(f"`{table.config}`" for table in of_file))]
    ]
    return "\n".join(["<!-- files -->", *lines, "<!-- end -->"])


def open_results(project: Path) -> duckdb.DuckDBPyConnection:
    """Open a database with views of docs/results and of `settings_tried`, all text, and `figure(value, low, high)`."""
    connection = duckdb.connect()
    connection.execute("create macro figure(v, low, high) as v || coalesce(' [' || low || ', ' || high || ']', '')")
    for path in [*sorted((project / RESULTS).glob("*.csv")), ROOT / "sql" / "published" / "settings_tried.csv"]:
        quoted = str(path).replace("'", "''")
        connection.execute(f"create view {path.stem} as from read_csv('{quoted}', all_varchar = true, header = true)")
    return connection


@click.command()
@click.argument("configs", metavar="[CONFIG]...", nargs=-1)
@click.option("--home", "homes", multiple=True, metavar="CONFIG=FOLDER", help="The folder with the results of CONFIG.")
@click.option("--run", "is_run", is_flag=True, help="First materialise what is stale or missing in each CONFIG.")
@click.option("--plan", "is_plan", is_flag=True, help="Print what --run would make, its time, and missing corpora.")
@click.pass_context
def main(context: click.Context, configs: tuple[str, ...], homes: tuple[str, ...], is_run: bool, is_plan: bool) -> None:
    """Rewrite docs/results and the tables of README and docs from warehouses, docs/sql.md from the demo's.

    CONFIG is a path such as configs/massive_headline.toml; --run takes all of tools/results.toml if none is named.
    The results of configs/NAME.toml are expected in data/NAME, those of disent.toml in data. Without a warehouse a
    table keeps its rows, and so do methods that a warehouse lacks; rows of earlier code are marked. A run that was
    stopped is continued by the same command.
    """
    with errors(context):
        given = default_homes(ROOT) | dict(map(_of_configuration, homes))
        folders = {config: folder.resolve() for config, folder in given.items()}
        if unknown := sorted(set(configs) - folders.keys()):
            raise ValueError(f"{', '.join(unknown)}: no such configuration. There are {', '.join(sorted(folders))}")
        listed = dict.fromkeys(table.config for table in tables(ROOT))
        if is_run or is_plan:
            run(ROOT, {name: folders[name] for name in configs or listed}, is_plan=is_plan)
        if is_plan:
            return
        for line in write_results(ROOT, folders):
            click.echo(line)
        ship_seconds(ROOT, {config: folders[config] for config in listed})
        demo = folders["disent.toml"] / "warehouse.duckdb"
        if demo.is_file():
            click.echo(f"sql.md: {write_answers(ROOT / 'docs' / 'sql.md', demo)} answers from {demo.parent}")


def run(project: Path, homes: Mapping[str, Path], *, is_plan: bool) -> None:
    """Print what is stale in each configuration and how long it takes, then materialise it unless `is_plan`."""
    from disent_assets.run.progress import duration

    plans = [outlook(project, config, home) for config, home in homes.items()]
    for plan in plans:
        click.echo(plan)
    known = [plan.seconds for plan in plans if plan.seconds is not None]
    if len(plans) == len(known) > 1:
        click.echo(f"in all about {duration(sum(known))}")
    if is_plan:
        return
    if lacking := [plan.config for plan in plans if plan.absent]:
        raise ValueError(f"{', '.join(lacking)}: put the missing corpora there first. Nothing was run")
    for plan in plans:
        materialize(project, plan.config, plan.home)


def _of_configuration(home: str) -> tuple[str, Path]:
    """Split CONFIG=FOLDER."""
    config, _, folder = home.partition("=")
    if not config or not folder:
        raise ValueError(f"--home {home}: must be CONFIG=FOLDER, such as configs/massive.toml=data/massive")
    return config, Path(folder).expanduser()


if __name__ == "__main__":
    main()
