"""Commands that operate a home: the UI, checks, clean-up, shell completion."""

import os
import shutil
from datetime import timedelta

import click

from disent.home import home_folder
from disent_assets.cli.group import main
from disent_assets.settings.environment import database, run_settings, shard_backend
from disent_core.errors import DisentError


@main.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the UI on 127.0.0.1."
)
def dev(port: int) -> None:
    """Start the UI, and refresh results after each change, until Ctrl-C."""
    if not hasattr(os, "killpg"):
        raise DisentError("`disent dev` needs Linux or macOS; `disent materialize --workers 1` works here")
    from disent_assets.settings.results_folder import open_for_work
    from disent_assets.web.dev import serve

    open_for_work()  # report configuration errors now: without definitions, nothing could reload it
    raise SystemExit(serve(home_folder(), port))


_UNITS = {"h": "hours", "d": "days"}


def _age(_context: click.Context, _option: click.Parameter, value: str) -> timedelta:
    number, unit = value[:-1], _UNITS.get(value[-1:])
    if unit is None or not number.isdecimal() or len(number) > 4:
        raise click.BadParameter(f"{value!r} must be an age such as 7d or 12h")
    return timedelta(**{unit: int(number)})


@main.command()
def doctor() -> None:
    """Check locking and conditional writes of DISENT_HOME.

    In a bucket, of 16 simultaneous writes exactly one must create an object, and exactly one must replace it. A folder
    must be writable and support locks. The profile must exist and its database must answer.
    """
    from disent_assets.settings.profiles import check_database, wait_for_database
    from disent_assets.settings.results_folder import prepare
    from disent_core.storage.bucket import RACERS, check_bucket
    from disent_core.storage.files import check_locks
    from disent_core.storage.remote import bucket_of

    settings, shards = run_settings(), shard_backend()
    click.echo(f"profile: {settings.profile}, shards: {shards.name}")
    if (address := database()) is not None:
        wait_for_database()
        check_database(address)
        click.echo("database: it answers")
    home = home_folder()
    prepare(home)
    check_locks(home)
    bucket, free = bucket_of(home), f"{shutil.disk_usage(home).free / 1e9:.0f} GB free"
    if bucket is None:
        click.echo(f"home: {home}, {free}; locks work")
        return
    check_bucket(bucket)
    click.echo(f"home: {bucket.address}")
    click.echo(f"of {RACERS} writes at once, 1 created an object, 1 replaced a version")
    click.echo(f"copies on this machine: {home}, {free}; locks work")


@main.command()
@click.option(
    "--older", metavar="AGE", default="7d", show_default=True, callback=_age,
    help="Minimum age of what is deleted, e.g. 12h.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
def gc(older: timedelta, dry_run: bool) -> None:
    """Delete orphaned files in the bucket of DISENT_HOME.

    These are bytes that no result refers to, checkpoints of unfinished work, and quarantined results. A folder needs no
    clean-up: every write to it removes orphans.
    """
    from disent_core.storage.remote import bucket_of, delete_orphans, find_orphans

    home = home_folder()
    if (bucket := bucket_of(home)) is None:
        click.echo(f"{home}: nothing to do: this home is not in a bucket")
        return
    orphans = find_orphans(bucket, older)
    for orphan in orphans if dry_run else ():
        click.echo(f"{orphan.modified:%Y-%m-%d %H:%M} {orphan.bytes:>12,} {orphan.key}")
    size = sum(orphan.bytes for orphan in orphans) if dry_run else delete_orphans(bucket, orphans)
    done = "would be deleted" if dry_run else "deleted"
    click.echo(f"{bucket.address}: {len(orphans)} objects {done}, {size / 1e6:.1f} MB")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell completion script.

    bash: add `eval "$(disent completion bash)"` to ~/.bashrc; zsh: `eval "$(disent completion zsh)"` to ~/.zshrc, after
    compinit; fish: `disent completion fish > ~/.config/fish/completions/disent.fish`.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(main, {}, "disent", "_DISENT_COMPLETE").source())
