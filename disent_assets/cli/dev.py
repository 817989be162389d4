"""The command that runs the UI and refreshes results."""

import click

from disent_assets.cli.group import errors, main


@main.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the UI on 127.0.0.1."
)
@click.pass_context
def dev(context: click.Context, port: int) -> None:
    """Start the UI, and refresh results whenever something has changed, until Ctrl-C."""
    with errors(context):
        from disent_assets.dev import serve
        from disent_assets.resources import home_folder, open_for_work

        open_for_work()  # a configuration with errors is told here: without definitions nothing could reload it
        raise SystemExit(serve(home_folder(), port))
