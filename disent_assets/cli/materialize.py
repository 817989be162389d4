"""`disent materialize`: run assets, with their progress."""

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disent_assets.run.plan import StepRun
    from disent_assets.run.progress import Shown
    from disent_assets.run.runner import Result
    from disent_core.lineage.state import State

from disent.home import home_folder
from disent_assets.cli.group import main
from disent_assets.counted import counted
from disent_assets.settings.environment import is_local, run_settings
from disent_core.text import printable

_NAMED = 6  # most steps named in a message
_WORKERS = "Number of steps to run at once. Default: the cores this process may use, or 1 if there is little to do."


@main.command()
@click.argument("selections", metavar="[SELECTION]...", nargs=-1)
@click.option(
    "--partition", metavar="KEY", help="Only this language or training set: de, or en-de, which includes en and de."
)
@click.option("--workers", metavar="N", type=click.IntRange(1), help=_WORKERS)
@click.pass_obj
def materialize(debug: bool, selections: tuple[str, ...], partition: str | None, workers: int | None) -> None:
    """Run assets; those that are up to date are skipped.

    A SELECTION is a stage (corpora, negatives, targets, embeddings, heads, evaluation, exports, warehouse), the name
    of an asset or the beginning of one (heads/minilm), or an expression in Dagster's syntax ('key:evaluation/*'). A
    leading + ('+heads') also selects what it is made from. Default: everything. DISENT_WORKERS sets --workers.
    """
    from disent_assets.run.stopping import stoppable

    workers = workers or run_settings().workers
    progress: Shown | None = None

    def farewell() -> None:
        if progress is not None:
            progress.close()
        click.echo("stopped; results made so far are kept; run the command again to go on", err=True)

    started = time.monotonic()
    with stoppable(farewell) as stop:
        from disent_assets.run.fork_server import most_workers, start_fork_server

        has_run = os.path.exists(home_folder() / "warehouse.duckdb")  # noqa: PTH110 - false for an invalid path
        is_first = not (selections or partition or has_run)
        if is_first and is_local() and workers != 1 and most_workers() > 1:
            start_fork_server()  # it loads what workers need while this process loads Dagster

        from disent_assets.definitions import build
        from disent_assets.lineage.refresh import run_command
        from disent_assets.run.progress import new_progress
        from disent_assets.settings.results_folder import open_for_work
        from disent_core.lineage.head_spec import without_mates

        workspace = open_for_work()
        progress = new_progress(stop.check, every_line=debug)
        name = " ".join(("disent materialize", *selections))
        with closing(progress):
            result = run_command(build, workspace, name, selections, partition, workers=workers, report=progress)
        outdated = _outdated(result.stale_inputs, selections, partition) if result.stale_inputs else None
        for warning in without_mates(workspace):
            click.echo(f"warning: {printable(warning)}", err=True)
        if outdated and result.failed:  # missing inputs are often the reason for the failure that is printed last
            click.echo(outdated, err=True)
        _show(result, time.monotonic() - started, with_tracebacks=debug)
        if outdated:
            click.echo(outdated, err=True)


def _named(steps: "Sequence[StepRun]") -> str:
    return ", ".join(map(str, steps[:_NAMED])) + (", ..." if len(steps) > _NAMED else "")


def _outdated(inputs: "Sequence[State]", selections: tuple[str, ...], partition: str | None) -> str:
    """Explain why the selected assets may be out of date, and name the command that updates them."""
    from disent_assets.lineage.refresh import with_upstream

    first = inputs[0]
    name = f"{first.asset} [{first.partition}]" if first.partition else first.asset
    others = f" and {len(inputs) - 1} more are" if len(inputs) > 1 else " is"
    command = with_upstream(selections, partition)
    return f"may be out of date: {name}{others} {first.status} and not selected; to refresh: {command}"


def _show(result: "Result", seconds: float, *, with_tracebacks: bool) -> None:
    """Print the counts, the checks that warn and, last, the failures, each reason once."""
    click.echo(result.summary(seconds))
    for text, steps in result.warnings.items():
        click.echo(f"warning: {_named(steps)}: {printable(text)}", err=True)
    if not result.failed:
        return
    if result.blocked:
        steps = f"{counted(len(result.blocked), 'step')} ({_named(result.blocked)})"
        click.echo(f"not made, because they need what failed: {steps}", err=True)
    if with_tracebacks:
        for outcome in result.outcomes.values():
            if outcome.traceback is not None:
                click.echo(printable(outcome.traceback), err=True)
    reasons: dict[str, list[str]] = {}
    for step, reason in result.failed.items():
        reasons.setdefault(reason, []).append(str(step))
    for reason, failed in reasons.items():
        click.echo(f"failed: {', '.join(failed)}", err=True)
        click.echo(f"disent: {printable(reason)}", err=True)
    raise SystemExit(1)
