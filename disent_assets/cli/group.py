"""The group of commands, and how they report errors."""

import logging
import string
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from disent.extras import remedy
from disent.home import home_folder
from disent_assets.settings.environment import configuration, use_utf8
from disent_core.errors import ConfigError, DisentError, Notice, shortage
from disent_core.text import printable

START = """\
disent trains and compares disentangled sentence embeddings.

    disent train DATA MODEL a model from a table of translations, in a minute
    disent init FOLDER      write a project that runs
    disent materialize      run what is missing or stale
    disent status           what is fresh, stale or missing, and why
    disent leaderboard      which method is best, on one screen
    disent costs            what each step took
    disent diff             what the last refresh changed
    disent sql "from best"  query the warehouse
    disent models           the models at hand
    disent check MODEL      whether a model is intact, and who signed it
    disent export           a trained head as a folder for sentence-transformers
    disent embed            a file of texts as vectors
    disent index            an index of texts to search
    disent search           the texts of the same shape, values or meaning
    disent serve            the same as a web page, the three side by side
    disent shapes LOG       the shapes of a log of texts, as patterns with slots
    disent report           tables, pictures and case studies as one HTML file
    disent dev              the UI, which also refreshes results

Configuration: {configuration} (DISENT_CONFIG). Results: {home} (DISENT_HOME).
disent --help lists all commands, disent COMMAND --help explains one."""


class Command(click.Command):
    """A command that reports errors as one line and is listed with the whole first sentence of its help."""

    def invoke(self, ctx: click.Context) -> Any:
        with errors(ctx), warnings.catch_warnings():
            if not ctx.obj:
                warnings.showwarning = _show
            return super().invoke(ctx)

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(limit=1000)


class _Group(click.Group):
    command_class = Command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if args is None:
            use_utf8()
        return super().main(args, *rest, **named)


@click.group(cls=_Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="disent-embeddings")
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
    logging.getLogger("alembic").setLevel(logging.WARNING)  # Dagster's storage logs a line for each of its plugins
    if context.invoked_subcommand is None:
        click.echo(START.format(configuration=short(configuration()), home=short(home_folder())))


def short(path: Path) -> Path:
    """Return the path relative to the working folder if it lies below it, else the path itself."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


class Printable(logging.Formatter):
    """Log formatter that escapes control characters: lines quote corpora, which may hold terminal escape sequences."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _show(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> None:
    """Print a warning as one line without its source location; show the category if another library issued it."""
    kind = "" if issubclass(category, Notice) else f"{category.__name__}: "
    click.echo(f"disent: {printable(kind + ' '.join(str(message).split()))}", err=True)


_NO_DIGITS = str.maketrans("", "", string.digits)


@contextmanager
def after_the_bar() -> Iterator[None]:
    """Hold back warnings until a progress bar has ended; print those that differ only in digits once."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    shown: set[str] = set()
    for warning in caught:
        words = str(warning.message).translate(_NO_DIGITS)  # each block of a file reports its own share of known words
        if words in shown:
            continue
        shown.add(words)
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


_OPTIONS = {
    "disent.load(..., sha256=)": "--sha256 DIGEST,",
    "sha256=": "--sha256",
    "other_language=": "--other-language",
    " language=": " --language CODE",
    " head=": " --head HEAD",
    " encoder=": " --encoder FOLDER",
    " methods=": " --method MODULE:ATTRIBUTE",
    "name it: disent.open(..., home=FOLDER)": "name it as DISENT_HOME",
    "Open it with disent.Index.open": "Search it with disent search",
    "Open it with disent.Classifier.load": "Use it with disent serve --classifier",
    "disent.models() lists": "disent models lists",
}
"""Arguments and functions named in messages of `disent` -> their options and commands."""


@contextmanager
def errors(context: click.Context) -> Iterator[None]:
    """Print an error about data or configuration as one line; with --debug, show the traceback."""
    try:
        yield
    except (DisentError, ValueError) as error:
        if context.obj:
            raise
        message = str(error)
        for argument, option in _OPTIONS.items():
            message = message.replace(argument, option)
        click.echo(f"disent: {printable(message)}", err=True)
        raise SystemExit(2 if isinstance(error, ConfigError | ValueError) else 1) from error
    except ModuleNotFoundError as error:
        message = str(error) if "pip install" in str(error) else remedy(error)
        if context.obj or message is None:
            raise
        click.echo(f"disent: {message}" if message == str(error) else f"disent: this command {message}", err=True)
        raise SystemExit(2) from error
    except BaseException as error:  # reaching a limit raises many kinds of errors; Rust's are no subclass of Exception
        message = None if context.obj else _of_system(error)
        if message is None:
            raise
        click.echo(f"disent: {printable(message)}", err=True)
        raise SystemExit(1) from error


def _of_system(error: BaseException) -> str | None:
    """Describe a disk error, or a limit that this process has reached, in one line; None for other errors."""
    if (line := shortage(error)) is not None:
        return line
    from disent_core.storage.files import failure_of_disk

    path = Path(getattr(error, "filename", None) or ".")
    if (line := failure_of_disk(error, path)) is not None:
        return line
    if isinstance(error, FileNotFoundError | FileExistsError) and error.filename is not None:
        return f"{path}: {(error.strerror or 'it can not be used').lower()}. Check the path and its links"
    return None
