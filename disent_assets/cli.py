"""The command line `disent`, for scripts; most users work in the UI.

The exit code is 0 on success, 1 on a failed run, 2 on a usage error.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import dagster as dg
    from tqdm import tqdm

    from disent_assets.table_text import Style

from disent_core.errors import ConfigError, DisentError
from disent_core.text import printable


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="disent")
@click.option("--debug", is_flag=True, help="Show tracebacks and every log line.")
@click.pass_context
def main(context: click.Context, debug: bool) -> None:
    """Disentangled sentence embeddings from raw multilingual corpora.

    DISENT_CONFIG names the configuration (default: disent.toml), DISENT_HOME the folder of results
    (default: data).
    """
    context.obj = debug
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


class _Printable(logging.Formatter):
    """Escapes control characters: log lines contain texts of corpora, which may have escape sequences for terminals."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def _errors(context: click.Context) -> Iterator[None]:
    """Print an error about data or configuration as one line; with --debug, show the traceback."""
    try:
        yield
    except (DisentError, ValueError) as error:
        if context.obj:
            raise
        click.echo(f"disent: {printable(str(error))}", err=True)
        raise SystemExit(2 if isinstance(error, ConfigError | ValueError) else 1) from error


@main.command()
@click.argument("selection", required=False)
@click.option("--partition", metavar="KEY", help="Only this language or pair, e.g. de or en-de.")
@click.pass_context
def materialize(context: click.Context, selection: str | None, partition: str | None) -> None:
    """Run assets in this process; assets that are up to date are not computed again.

    SELECTION is in Dagster's syntax: 'group:heads', 'key:evaluation/*', '+key:warehouse/database'. Default: everything.
    """
    with _errors(context):
        from disent_assets.definitions import build
        from disent_assets.instance import RunError, open_instance, plan
        from disent_assets.instance import materialize as run
        from disent_assets.resources import open_workspace
        from disent_assets.status import observe

        started = time.monotonic()
        workspace = open_workspace()
        definitions = build(workspace)
        steps = plan(definitions, selection, partition)
        with open_instance(workspace.home) as instance, _Progress(len(steps)) as progress:
            observe(definitions, instance)
            for step in steps:
                progress.begin(str(step))
                try:
                    progress.end(run(definitions, step, instance))
                except RunError as failure:
                    progress.close()
                    click.echo(f"disent: {printable(str(failure))}", err=True)
                    raise SystemExit(1) from failure
        click.echo(progress.summary(time.monotonic() - started))


class _Progress:
    """A progress bar over runs, with the log lines of the library beneath it."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        shape = "{desc}: {n_fmt}/{total_fmt} runs [{elapsed}]"  # no remaining time, because runs differ too much
        self.bar = tqdm(total=total, file=sys.stderr, bar_format=shape)
        self.recomputed = self.reused = self.encoded = self.steps = 0
        self.handler = _BarHandler(self.bar)

    def __enter__(self) -> "_Progress":
        core = logging.getLogger("disent_core")
        core.addHandler(self.handler)
        core.setLevel(logging.INFO)
        core.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("disent_core").removeHandler(self.handler)
        self.bar.close()

    def begin(self, name: str) -> None:
        """Show the name of the run that starts."""
        self.bar.set_description(name)

    def end(self, result: "dg.ExecuteInProcessResult") -> None:
        """Add the results of a run to the counts."""
        texts: dict[str, int] = {}
        for event in result.get_asset_materialization_events():
            metadata: dict[str, Any] = {key: value.value for key, value in event.materialization.metadata.items()}
            self.recomputed += bool(metadata.get("recomputed"))
            self.reused += not metadata.get("recomputed")
            texts[event.node_name] = metadata.get("encoded", 0)  # vectors and states come from one forward pass
            self.steps += metadata.get("steps", 0)
        self.encoded += sum(texts.values())
        self.bar.update()

    def close(self) -> None:
        """Close the bar."""
        self.bar.close()

    def summary(self, seconds: float) -> str:
        """The counts of all runs."""
        return (
            f"{self.recomputed} tables made, {self.reused} up to date; {self.encoded} texts encoded, "
            f"{self.steps} steps trained; {seconds:.1f} s"
        )


class _BarHandler(logging.Handler):
    def __init__(self, bar: "tqdm") -> None:
        super().__init__()
        self.bar = bar

    def emit(self, record: logging.LogRecord) -> None:
        self.bar.write(f"  {printable(record.getMessage())}", file=sys.stderr)


@main.command()
@click.option("--all", "show_all", is_flag=True, help="Show every partition, fresh ones included.")
@click.pass_context
def status(context: click.Context, show_all: bool) -> None:
    """Show what is fresh, stale or missing, and why."""
    with _errors(context):
        from disent_assets.definitions import build
        from disent_assets.instance import open_instance
        from disent_assets.resources import open_workspace
        from disent_assets.status import observe, states, summary

        workspace = open_workspace()
        definitions = build(workspace)
        with open_instance(workspace.home) as instance:
            observe(definitions, instance)
            click.echo(summary(states(workspace, definitions, instance), show_all=show_all))


_FORMATS = click.Choice(["table", "csv", "json", "markdown"])


@main.command()
@click.argument("query")
@click.option("--format", "style", type=_FORMATS, default="table", show_default=True)
@click.pass_context
def sql(context: click.Context, query: str, style: "Style") -> None:
    """Query the warehouse, read-only. QUERY is SQL, or the path of an SQL file."""
    with _errors(context):
        path = Path(query) if query.endswith(".sql") else None
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path}")
        _print_answer(path.read_text(encoding="utf-8") if path else query, style)


@main.command()
@click.argument("task", required=False)
@click.option("--all", "show_all", is_flag=True, help="Also show embeddings that a task is not scored on, as leakage.")
@click.option("--format", "style", type=_FORMATS, default="table", show_default=True)
@click.pass_context
def leaderboard(context: click.Context, task: str | None, show_all: bool, style: "Style") -> None:
    """Show the leaderboard of all tasks, or of TASK; csv and json have every column."""
    with _errors(context):
        from disent_assets.resources import open_workspace
        from disent_core.evaluation.contract import TASKS
        from disent_core.experiment.evaluation import task_names

        if task is not None and task not in TASKS and task not in (known := task_names(open_workspace().config)):
            raise ValueError(f"unknown task {task!r}; choose one of {', '.join(known)}")
        is_brief = style in ("table", "markdown")
        columns = f"{BRIEF_COLUMNS}{', reads_as' if show_all else ''}" if is_brief else "*"
        of_task = f"task = '{task}'" if task else "true"
        is_shown = "true" if show_all or not is_brief else "rank is not null"
        _print_answer(f"select {columns} from leaderboard where {of_task} and {is_shown}", style)


@main.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: DISENT_HOME/report.html.")
@click.option("--title", default="disent: report of a run", show_default=True)
@click.pass_context
def report(context: click.Context, output: Path | None, title: str) -> None:
    """Write tables, pictures and case studies of the run as one self-contained HTML file."""
    with _errors(context):
        from disent_assets.resources import open_workspace
        from disent_assets.run_report import write_report

        workspace = open_workspace()
        path = _new_file(output or workspace.home / "report.html")
        write_report(workspace, path, title)
        click.echo(path)


@main.command()
@click.option("--home", "homes", multiple=True, metavar="CONFIG=FOLDER", help="The folder with the results of CONFIG.")
@click.pass_context
def results(context: click.Context, homes: tuple[str, ...]) -> None:
    """Write the tables of results in README and docs from warehouses.

    The results of configs/NAME.toml are expected in data/NAME, those of disent.toml in data. Without a warehouse a
    table keeps its rows, and rows of earlier code are marked.
    """
    with _errors(context):
        from disent_assets.resources import PROJECT
        from disent_assets.results import default_homes, write_results

        given = {config: Path(folder).expanduser() for config, _, folder in (home.partition("=") for home in homes)}
        for line in write_results(PROJECT, default_homes(PROJECT) | given):
            click.echo(line)


@main.command()
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--encoder", required=True, metavar="NAME", help="The encoder's name in [[encoders]].")
@click.option("--missing", is_flag=True, help="Only texts that the files of imported vectors lack.")
@click.pass_context
def texts(context: click.Context, output: Path, encoder: str, missing: bool) -> None:
    """Write the texts that an encoder has to embed, so that another program can embed them.

    OUTPUT is a .parquet or .jsonl file with the columns text_key, language and text. Add a column `vector`, and an
    encoder of kind "vectors" can read it. `disent materialize '+group:targets'` makes the texts.
    """
    with _errors(context):
        from disent_assets.resources import open_workspace
        from disent_core.experiment.embeddings import texts_of, write_texts

        _new_file(output)
        listed = texts_of(open_workspace(), encoder, only_missing=missing)
        write_texts(listed, output)
        click.echo(f"{len(listed)} texts in {output}")


@main.command()
@click.argument("method", required=False)
@click.pass_context
def settings(context: click.Context, method: str | None) -> None:
    """List every key of the configuration, or the keys of METHOD and its presets, as Markdown."""
    with _errors(context):
        from disent_core.config.reference import method_reference, reference

        click.echo(method_reference(method) if method else reference(), nl=False)


def _new_file(path: Path) -> Path:
    """The path, unless it is a device, a pipe or a folder: the file there is replaced as a whole."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, so it can't be replaced")
    return path


BRIEF_COLUMNS = (
    "task, dataset, evaluated_on, metric, rank, method, encoder, trained_on, embedding, "
    "value, ci_low, ci_high, n, seeds, round(seed_std, 4) as seed_std"
)


def _print_answer(sql: str, style: "Style") -> None:
    from disent_assets.duckdb_warehouse import query
    from disent_assets.resources import home_folder
    from disent_assets.table_text import render

    click.echo(render(query(home_folder() / "warehouse.duckdb", sql), style), nl=False)


if __name__ == "__main__":
    main()
