"""Check the folder of results before it is used: that it can be one, and that it belongs to this configuration."""

import json
import os
import re
from pathlib import Path

from disent_core.config.model import Config
from disent_core.errors import ConfigError, StorageError, located
from disent_core.storage.atomic import is_allowed, write_text
from disent_core.storage.checksums import brought, sha256_of, write_checksummed_text
from disent_core.storage.probe import check_bucket
from disent_core.storage.remote import bucket_of

_UNUSABLE = re.compile(r"\?|%[0-9A-Fa-f]{2}")
"""What Dagster's addresses of its SQLite files read as something else."""
_RECORD = "configuration.json"


_OTHER = "Set DISENT_HOME to another folder, or change its permissions"


def prepare(home: Path) -> None:
    """Make the folder of results, unless it is there.

    Raises:
        StorageError: if the path can't be a folder that this process may write.
    """
    check_name(home)
    if is_read_only(home):
        works = "status, sql, leaderboard and report --output can"
        problem = f"this folder may be read but not written, so this command can't use it ({works})"
        raise StorageError(located(home, None, problem, _OTHER))
    try:
        (home / "dagster").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(located(home, None, f"this can't be the folder of results ({error})", _OTHER)) from error


def check_name(home: Path) -> None:
    """Check that Dagster can use the path.

    Raises:
        StorageError: if not.
    """
    if found := _UNUSABLE.search(str(home)):
        problem = f"a folder of results can't have {found[0]!r} in its path, because Dagster can't use it"
        raise StorageError(located(home, None, problem, "Set DISENT_HOME to another folder, or rename this one"))


def is_read_only(home: Path) -> bool:
    """Whether there are results that this process may read, but not add to."""
    state = home / "dagster"
    if not is_allowed(state, os.R_OK | os.X_OK):
        return False
    written = [home, state, *state.rglob("*.db"), state / "processes.lock", home / ".dagster.lock"]
    return not all(is_allowed(path, os.W_OK) for path in written if path.exists())


# --- whose folder it is -----------------------------------------------------------------------------------


def check_owner(config: Config, home: Path) -> None:
    """Check that the results in a folder are of this configuration, edited or not.

    It is the same if its path, its path from the folder, or its text is that of the record.

    Raises:
        ConfigError: if they are of another.
    """
    recorded = _recorded(home)
    if recorded and not recorded.items() & _identity(config, home).items():
        problem = f"the results in {home} are of the configuration {recorded.get('path')}"
        remedy = (
            f"Set DISENT_HOME to a folder of its own; if it is the same configuration, moved and edited, delete "
            f"{home / _RECORD} and go on"
        )
        raise ConfigError(located(config.path, None, problem, remedy))


def claim(config: Config, home: Path) -> None:
    """Record that the results in a folder are of this configuration.

    Raises:
        ConfigError: if they are of another.
        StorageError: if the folder can't be written, or its bucket does not refuse racing writes.
    """
    check_owner(config, home)
    identity = _identity(config, home)
    recorded = _recorded(home)
    if recorded == identity:
        return
    text = json.dumps(identity, indent=1) + "\n"
    bucket = bucket_of(home)
    if bucket is None:
        write_text(home / _RECORD, text)
        return
    if not recorded:  # the first write to this bucket
        check_bucket(bucket)
    write_checksummed_text(home / _RECORD, text)


def _identity(config: Config, home: Path) -> dict[str, str]:
    path = config.path.resolve()
    from_home = {"path_from_home": os.path.relpath(path, home)} if bucket_of(home) is None else {}
    return {"path": str(path), **from_home, "sha256": sha256_of(path)}


def _recorded(home: Path) -> dict[str, str]:
    """The record; empty if there is none, or it is damaged."""
    try:
        record = json.loads(brought(home / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_whole = isinstance(record, dict) and all(isinstance(value, str) for value in record.values())
    return record if is_whole else {}
