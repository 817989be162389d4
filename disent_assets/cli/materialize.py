"""`disent materialize`: run assets, with their progress."""

import time

import click

from disent_assets.cli.group import errors, main
from disent_core.text import printable

_WORKERS = "How many steps run at once. Default: the cores that this process may use."


@main.command()
@click.argument("selections", metavar="[SELECTION]...", nargs=-1)
@click.option("--partition", metavar="KEY", help="Only this language or pair, e.g. de, or en-de with en and de.")
@click.option("--workers", metavar="N", type=click.IntRange(1), envvar="DISENT_WORKERS", help=_WORKERS)
@click.pass_context
def materialize(
    context: click.Context, selections: tuple[str, ...], partition: str | None, workers: int | None
) -> None:
    """Run assets; those that are up to date are not computed again.

    A SELECTION is a stage ('heads'), or in Dagster's syntax ('key:evaluation/*', '+warehouse'). Default: everything.
    """
    with errors(context):
        from disent_assets.definitions import build
        from disent_assets.instance import open_instance
        from disent_assets.plan import plan
        from disent_assets.progress import Progress
        from disent_assets.published_files import observe
        from disent_assets.resources import open_for_work
        from disent_assets.run_step import COMMAND
        from disent_assets.runner import run_steps, usable_cores

        started = time.monotonic()
        workspace = open_for_work()
        definitions = build(workspace)
        steps = plan(definitions, selections, partition)
        with open_instance(workspace.home) as instance, Progress(len(steps)) as progress:
            observe(workspace, instance)
            result = run_steps(
                build,
                workspace,
                steps,
                instance,
                workers=workers or usable_cores(),
                report=progress,
                tags={COMMAND: " ".join(("materialize", *selections))},
            )
        for reason in dict.fromkeys(result.failed.values()):
            click.echo(f"disent: {printable(reason)}", err=True)
        if result.failed:
            raise SystemExit(1)
        click.echo(result.summary(time.monotonic() - started))
