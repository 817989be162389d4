"""Commands that only ask: the warehouse in SQL, the leaderboard, the settings."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from disent_assets.table_text import Style

from disent_assets.cli.group import errors, main

_FORMATS = click.Choice(["table", "csv", "json", "markdown"])


@main.command()
@click.argument("query")
@click.option("--format", "style", type=_FORMATS, default="table", show_default=True)
@click.pass_context
def sql(context: click.Context, query: str, style: "Style") -> None:
    """Query the warehouse, read-only. QUERY is SQL, or the path of an SQL file."""
    with errors(context):
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
    with errors(context):
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
@click.argument("method", required=False)
@click.pass_context
def settings(context: click.Context, method: str | None) -> None:
    """List every key of the configuration, or the keys of METHOD and its presets, as Markdown."""
    with errors(context):
        from disent_core.config.reference import method_reference, reference

        click.echo(method_reference(method) if method else reference(), nl=False)


BRIEF_COLUMNS = (
    "task, dataset, evaluated_on, metric, rank, method, encoder, trained_on, embedding, "
    "value, ci_low, ci_high, n, seeds, round(seed_std, 4) as seed_std"
)


def _print_answer(sql: str, style: "Style") -> None:
    from disent_assets.duckdb_warehouse import query
    from disent_assets.resources import home_folder
    from disent_assets.table_text import render

    click.echo(render(query(home_folder() / "warehouse.duckdb", sql), style), nl=False)
