"""`disent leaderboard`: which method is best at what."""

from typing import Any

import click

from disent_assets.cli.answers import (
    FORMATS,
    Style,
    answer,
    print_table,
    require_views,
    terminal_width,
    without_constants,
)
from disent_assets.cli.group import errors, main, short
from disent_core.text import printable

LONG = (
    "task, dataset, evaluated_on, metric, rank, method, encoder, trained_on, embedding, "
    "value, ci_low, ci_high, n, seeds, round(seed_std, 4) as seed_std, converged, hubness, reads_as"
)
BOARDS = """
from leaderboard
where task = '{task}' and rank is not null and value is not null
qualify row_number() over (
    partition by dataset, encoder, evaluated_on, metric, hubness, method
    order by
        coalesce(try_cast(settings as json) ->> 'gold' = 'mean', false),
        len(list_intersect(string_split_regex(trained_on, '[-+]'), string_split(evaluated_on, '-'))) desc,
        len(string_split(trained_on, '+')),
        trained_on
) = 1
order by all"""
"""Of several trainings of a method the one that knows most of the languages, then the first, as in `headline`."""
NEXT = """\
{report} UI: disent dev, then http://127.0.0.1:3000. Try next:
    disent leaderboard {task:<18}    # one of {tasks} tasks; --all: leaks of other embeddings too
    disent sql "select task, dataset, evaluated_on, method, runner_up, stands from best"
    disent status                            # what is fresh, stale or missing"""


@main.command()
@click.argument("task", required=False)
@click.option("--all", "show_all", is_flag=True, help="Every number in one table, those of no rank (leakage) too.")
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.pass_context
def leaderboard(context: click.Context, task: str | None, show_all: bool, style: Style) -> None:
    """Show the best methods on one screen, or all methods on TASK.

    The formats csv and json have every number and column, markdown the columns of a table.
    """
    with errors(context):
        _check(task)
        require_views()
        of_task = f"task = '{task}'" if task else "true"
        if style == "table" and not show_all:
            rows = answer(BOARDS.format(task=task) if task else "from headline where value is not null").to_pylist()
            click.echo(printable("\n".join(_screen(rows, task))))
            return
        columns = LONG if style in ("table", "markdown") else "*"
        is_shown = "true" if show_all or columns == "*" else "rank is not null"
        numbers = answer(f"select {columns} from leaderboard where {of_task} and {is_shown}")
        print_table(without_constants(numbers) if style == "table" else numbers, style)


def _check(task: str | None) -> None:
    """Refuse a name that is no task, as it would become part of a query."""
    from disent_core.errors import ConfigError
    from disent_core.evaluation.contract import TASKS
    from disent_core.registry import nearest

    if task is None or task in TASKS:
        return
    from disent_assets.settings.environment import open_workspace
    from disent_core.lineage.evaluation_inputs import task_names

    known = task_names(open_workspace().config)
    if task not in known:
        raise ConfigError(f"unknown task {task!r}{nearest(task, known)}; choose one of {', '.join(known)}")


def _screen(rows: list[dict[str, Any]], task: str | None) -> list[str]:
    from disent_assets.cli.output.leaderboards import boards, summary

    if not rows:
        raise _nothing(task)
    return boards(rows, terminal_width()) if task else [*summary(rows), "", *_next_steps(rows)]


def _next_steps(rows: list[dict[str, Any]]) -> list[str]:
    from disent.home import home_folder
    from disent_assets.cli.output.leaderboards import shown_tasks

    report, tasks = home_folder() / "report.html", shown_tasks(rows)
    written = f"Report: {short(report)}." if report.is_file() else "Report: disent report."
    return NEXT.format(report=written, task=_another(tasks), tasks=len(tasks)).splitlines()


def _another(tasks: list[str]) -> str:
    """A task that the summary does not show, with a short name if there is one."""
    return min(tasks[2:] or tasks, key=lambda name: len(name) > 16)


def _nothing(task: str | None) -> Exception:
    """Why the leaderboard has no row."""
    from disent_assets.settings.environment import open_workspace
    from disent_core.errors import DisentError
    from disent_core.lineage.evaluation_inputs import tasks_of

    measured = [row["task"] for row in answer("select distinct task from leaderboard order by all").to_pylist()]
    config = open_workspace().config
    if not measured:
        return DisentError("nothing is evaluated yet. Run disent materialize; disent status shows what is missing")
    among = f"measured are {', '.join(measured)}"
    if task not in {configured.name for configured in tasks_of(config)}:
        remedy = "Add it to tasks in [evaluation], or leave tasks out"
        return DisentError(f"{config.path}: {task} is not among the tasks of this configuration. {remedy}; {among}")
    reason = "no corpus of this configuration has what it measures, no method that is trained can do it, or it is stale"
    return DisentError(f"{config.path}: nothing is measured by {task}: {reason} (disent status); {among}")
