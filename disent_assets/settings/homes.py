"""Check the folder of results before it is used: that it can be one, and that it belongs to this configuration."""

import json
import os
import re
from pathlib import Path

from disent.home import OWNER, check_owner, owner_identity, recorded_owner
from disent_core.config.model import Config
from disent_core.errors import StorageError, located
from disent_core.storage.bucket_check import check_bucket
from disent_core.storage.files import is_allowed, write_text
from disent_core.storage.remote import bucket_of
from disent_core.storage.results import write_text_result

_UNUSABLE = re.compile(r"\?|%[0-9A-Fa-f]{2}")
"""What Dagster's addresses of its SQLite files read as something else."""


_OTHER = "Set DISENT_HOME to another folder, or change its permissions"


def prepare(home: Path) -> None:
    """Make the folder of results, unless it is there."""
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
    """Check that Dagster can use the path."""
    if found := _UNUSABLE.search(str(home)):
        problem = f"a folder of results can't have {found[0]!r} in its path, because Dagster can't use it"
        raise StorageError(located(home, None, problem, "Set DISENT_HOME to another folder, or rename this one"))


def is_read_only(home: Path) -> bool:
    """Return whether this process may read the results but not add to them."""
    state = home / "dagster"
    if not is_allowed(state, os.R_OK | os.X_OK):
        return False
    written = [home, state, *state.rglob("*.db"), state / "processes.lock", home / ".dagster.lock"]
    return not all(is_allowed(path, os.W_OK) for path in written if path.exists())


# --- whose folder it is -----------------------------------------------------------------------------------


def claim(config: Config, home: Path) -> None:
    """Record that the results in a folder are of this configuration."""
    check_owner(config, home)
    identity = owner_identity(config, home)
    recorded = recorded_owner(home)
    if recorded == identity:
        return
    text = json.dumps(identity, indent=1) + "\n"
    bucket = bucket_of(home)
    if bucket is None:
        write_text(home / OWNER, text)
        return
    if not recorded:  # the first write to this bucket
        check_bucket(bucket)
    write_text_result(home / OWNER, text)
