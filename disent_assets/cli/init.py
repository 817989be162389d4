"""The command that writes a new project."""

from pathlib import Path

import click

from disent_assets.cli.group import errors, main, short

_NEXT = """\
{folder} has a project{what}. Next:

    cd {folder}
    disent materialize      run it{needs}
    disent leaderboard      which method is best
    disent dev              the UI on http://127.0.0.1:3000"""

_DOWNLOADS = "; first it downloads MASSIVE (40 MB) and an encoder (90 MB)"


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--real",
    is_flag=True,
    help="Read MASSIVE instead of the sample corpora. It is downloaded (40 MB), as is an encoder (90 MB).",
)
@click.pass_context
def init(context: click.Context, folder: Path, real: bool) -> None:
    """Write a project that runs into a new folder: a configuration, its corpora, and what Dagster needs."""
    with errors(context):
        from disent_assets.new_project import write_project

        write_project(folder, real=real)
        what, needs = (" on MASSIVE", _DOWNLOADS) if real else (" on the sample corpora", "")
        click.echo(_NEXT.format(folder=short(folder.resolve()), what=what, needs=needs))
