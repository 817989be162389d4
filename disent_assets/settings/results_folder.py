"""Check, make and claim the folder of results."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from disent.home import OWNER, check_owner, owner_identity, recorded_owner
from disent_assets.settings.environment import open_to_look
from disent_core.config.model import Config
from disent_core.errors import StorageError, located
from disent_core.storage.bucket import check_bucket
from disent_core.storage.files import is_allowed, write_text
from disent_core.storage.remote import bucket_of
from disent_core.storage.results import write_text_result

if TYPE_CHECKING:
    from disent_core.lineage.workspace import Workspace

_UNUSABLE = re.compile(r"\?|%[0-9A-Fa-f]{2}")  # characters that Dagster's SQLite URLs would misread
_OTHER = "Set DISENT_HOME to another folder, or change its permissions"


def prepare(home: Path) -> None:
    """Create the folder of results unless it exists."""
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
    if unusable := _UNUSABLE.search(str(home)):
        problem = f"a folder of results can't have {unusable[0]!r} in its path, because Dagster can't use it"
        raise StorageError(located(home, None, problem, "Set DISENT_HOME to another folder, or rename this one"))


def is_read_only(home: Path) -> bool:
    """Return whether this process may read the results but not add to them."""
    state = home / "dagster"
    if not is_allowed(state, os.R_OK | os.X_OK):
        return False
    written = [home, state, *state.rglob("*.db"), state / "processes.lock", home / ".dagster.lock"]
    return not all(is_allowed(path, os.W_OK) for path in written if path.exists())


def claim(config: Config, home: Path) -> None:
    """Record that the results in a folder belong to this configuration."""
    check_owner(config, home)
    identity = owner_identity(config, home)
    recorded = recorded_owner(home)
    if recorded == identity:
        return
    text = json.dumps(identity, indent=1) + "\n"
    if (bucket := bucket_of(home)) is None:
        write_text(home / OWNER, text)
        return
    if not recorded:  # the first write to this bucket
        check_bucket(bucket)
    write_text_result(home / OWNER, text)


def open_for_work(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """Return the workspace for a run, with its corpora in place and its folder of results claimed."""
    workspace = open_to_look(environment)
    prepare(workspace.home)
    claim(workspace.config, workspace.home)
    return workspace
