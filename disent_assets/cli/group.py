"""The group of commands, and how they report errors."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

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
    handler.setFormatter(Printable("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


class Printable(logging.Formatter):
    """Escapes control characters: log lines contain texts of corpora, which may have escape sequences for terminals."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def errors(context: click.Context) -> Iterator[None]:
    """Print an error about data or configuration as one line; with --debug, show the traceback."""
    try:
        yield
    except (DisentError, ValueError) as error:
        if context.obj:
            raise
        click.echo(f"disent: {printable(str(error))}", err=True)
        raise SystemExit(2 if isinstance(error, ConfigError | ValueError) else 1) from error
