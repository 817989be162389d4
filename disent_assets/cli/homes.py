"""`disent doctor` and `disent gc`: whether a home can be relied on, and what killed processes have left in a bucket."""

import shutil
from datetime import timedelta

import click

from disent_assets.cli.group import errors, main

_UNITS = {"h": "hours", "d": "days"}


class _Age(click.ParamType):
    """`7d` or `12h`."""

    name = "age"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        number, unit = value[:-1], _UNITS.get(value[-1:])
        if unit is None or not number.isdecimal() or len(number) > 4:
            self.fail(f"{value!r} is no age such as 7d or 12h", param, ctx)
        return timedelta(**{unit: int(number)})


@main.command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check that DISENT_HOME can be relied on.

    Of a bucket: that of 16 writes at once one creates an object, and one replaces a version of it. Of a folder: that it
    can be written and has locks. Of the other settings: that there is such a profile, and that its database answers.
    """
    with errors(context):
        from disent_assets.homes import prepare
        from disent_assets.profiles.patience import wait_for_database
        from disent_assets.resources import database, home_folder, run_settings, shard_engine
        from disent_core.storage.probe import RACERS, check_bucket, check_locks
        from disent_core.storage.remote import bucket_of

        settings, shards = run_settings(), shard_engine()
        click.echo(f"profile: {settings.profile}, shards: {shards.name}")
        if database():
            wait_for_database()
            click.echo("database: it answers")
        home = home_folder()
        prepare(home)
        check_locks(home)
        bucket, free = bucket_of(home), f"{shutil.disk_usage(home).free / 1e9:.0f} GB free"
        if bucket is None:
            click.echo(f"home: {home}, {free}; its locks hold")
            return
        probed = check_bucket(bucket)
        click.echo(f"home: {bucket.address}")
        click.echo(
            f"of {RACERS} writes at once, {probed.created} created an object, {probed.replaced} replaced a version"
        )
        click.echo(f"copies on this machine: {home}, {free}; its locks hold")


@main.command()
@click.option("--older", type=_Age(), default="7d", help="Least age of what is deleted, e.g. 12h.", show_default=True)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@click.pass_context
def gc(context: click.Context, older: timedelta, dry_run: bool) -> None:
    """Delete what killed processes have left in the bucket of DISENT_HOME.

    That is bytes that no result names, checkpoints of unfinished work, and quarantined results. A folder needs none of
    this: every write to it removes what was left there.
    """
    with errors(context):
        from disent_assets.resources import home_folder
        from disent_core.storage.leftovers import delete, leftovers
        from disent_core.storage.remote import bucket_of

        home = home_folder()
        bucket = bucket_of(home)
        if bucket is None:
            click.echo(f"{home}: nothing to do, for this home is in no bucket")
            return
        found = leftovers(bucket, older)
        for one in found if dry_run else ():
            click.echo(f"{one.modified:%Y-%m-%d %H:%M} {one.bytes:>12,} {one.key}")
        size = sum(one.bytes for one in found) if dry_run else delete(bucket, found)
        done = "would be deleted" if dry_run else "deleted"
        click.echo(f"{bucket.address}: {len(found)} objects {done}, {size / 1e6:.1f} MB")
