"""The command that shows an index as a web page."""

from pathlib import Path

import click

from disent_assets.cli.group import errors, main, short
from disent_assets.cli.heads import ENCODER, MOVED_HEAD, open_index

_SHARED = """\
Whoever reaches {host} can search {index} and read its texts: there is no login.
Leave out --host, and only this machine can."""
_HOST = "Another address lets other machines search too, without a login."


@main.command()
@click.argument("index", type=click.Path(path_type=Path, file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=8900, show_default=True, help="0: any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help=_HOST)
@MOVED_HEAD
@ENCODER
@click.pass_context
def serve(context: click.Context, index: Path, port: int, host: str, head: str | None, encoder: Path | None) -> None:
    """Show an index as a web page: what has the shape, the values or the meaning of a sentence, side by side.

    INDEX is a folder that disent index has made. Ctrl-C ends it.
    """
    with errors(context):
        from disent_assets.search_page.server import is_shared, run, warm

        opened = open_index(index, head, encoder)
        warm(opened)
        if is_shared(host):
            click.echo(_SHARED.format(host=host, index=short(index.resolve())), err=True)
        about = {"head": opened.head_title, "sentences": f"{len(opened):,}", "index": str(short(index.resolve()))}
        run(opened, about, host, port, lambda address: click.echo(f"{address} shows it. Ctrl-C ends it."))
