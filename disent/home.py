"""Find the folder of results, and check that it belongs to the configuration."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from disent_core.errors import ConfigError, located

if TYPE_CHECKING:
    from disent_core.config.model import Config

CONFIG = "disent.toml"
_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which are never shown"
OWNER = "configuration.json"  # file in a folder of results that records the configuration that made them
_BUNDLED = Path(__file__).resolve().parents[1] / "disent_assets" / "project"
"""Copy, in an installed package, of the folders that lie beside the packages in a checkout."""
SHARED = _BUNDLED if _BUNDLED.is_dir() else _BUNDLED.parents[1]
"""Folder of the SQL, configurations and sample corpora shipped with disent; nothing is written here."""


def project_folder() -> Path:
    """Return the working folder, or the checkout if the working folder lies in it and has no configuration."""
    if os.path.isfile(CONFIG) or SHARED is _BUNDLED:  # noqa: PTH113 - a folder that is gone has none: no error
        return Path.cwd()
    try:
        here = Path.cwd()
    except OSError:  # the working folder is gone
        return SHARED
    return SHARED if here.is_relative_to(SHARED) else here


PROJECT = project_folder()  # the project when this process started


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of results; for results in a bucket (`s3://bucket/prefix`), the folder of local copies."""
    home = environment.get("DISENT_HOME") or PROJECT / "data"
    if ":" in str(home):
        from disent_core.storage.bucket import SCHEMES

        # `s3:/bucket`, with one slash, is meant as an address too.
        if "://" in str(home) or str(home).partition(":")[0] in SCHEMES:
            return _copies_of(str(home), environment)
    return path_of("DISENT_HOME", home).resolve()


def _copies_of(address: str, environment: Mapping[str, str]) -> Path:
    """Attach a bucket to its local folder, of at most DISENT_CACHE_SIZE gigabytes (0: no limit); return the folder."""
    from disent_core.storage.bucket import SCHEMES, Bucket
    from disent_core.storage.remote import LruCache, RemoteHome, attach
    from disent_core.storage.tables import fingerprint

    size = environment.get("DISENT_CACHE_SIZE") or "0"
    try:
        gigabytes = float(size)
    except ValueError:
        gigabytes = math.nan
    if not 0 <= gigabytes < math.inf:
        raise ConfigError(f"DISENT_CACHE_SIZE must be a number >= 0, got {size!r}")
    scheme, _, prefix = address.rstrip("/").partition("://")
    if "@" in prefix.split("/")[0]:
        raise ConfigError(f"DISENT_HOME must not contain keys: {_KEYS}")
    for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if "@" in environment.get(variable, ""):
            raise ConfigError(f"{variable} must not contain a name and a password: {_KEYS}")
    if scheme not in SCHEMES or not prefix:
        known = ", ".join(f"{name}://bucket/prefix" for name in SCHEMES)
        raise ConfigError(f"DISENT_HOME: {address!r} is neither a folder nor one of {known}")
    name = "".join(letter if letter.isalnum() else "-" for letter in prefix)[:80]
    folder = cache_folder(environment).resolve() / f"{name}-{fingerprint(scheme, prefix)[:8]}"
    limit = LruCache(folder, int(gigabytes * 1e9)) if gigabytes else None
    attach(RemoteHome(Bucket(f"{scheme}://{prefix}"), folder, cache=limit))
    return folder


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for downloads: copies of homes in buckets, and models."""
    return path_of("DISENT_CACHE", environment.get("DISENT_CACHE") or "~/.cache/disent")


def open_home(home: str | Path) -> Path:
    """Return the folder of a home, given as a folder or an address; see `home_folder`."""
    return home_folder({**os.environ, "DISENT_HOME": str(home)})


def path_of(name: str, value: str | Path) -> Path:
    """Return a path with `~` expanded."""
    try:
        return expanded(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {str(value)!r} names an unknown user") from error


def expanded(path: str | Path) -> Path:
    """Return a path with `~` expanded."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: there is no such user; write the whole path") from error


def check_owner(config: "Config", home: Path) -> None:
    """Check that a folder's results are of this configuration: its path, relative path or text was recorded."""
    recorded = recorded_owner(home)
    if recorded and not recorded.items() & owner_identity(config, home).items():
        problem = f"the results in {home} belong to the configuration {recorded.get('path')}"
        remedy = (
            f"Set DISENT_HOME to a folder of its own; if this is the same configuration, moved and edited, delete "
            f"{home / OWNER} and try again"
        )
        raise ConfigError(located(config.path, None, problem, remedy))


def owner_identity(config: "Config", home: Path) -> dict[str, str]:
    """Return what identifies a configuration: its path, the path relative to `home` (not for a bucket), its text."""
    from disent_core.storage.remote import bucket_of
    from disent_core.storage.results import sha256_of

    path = config.path.resolve()
    from_home = {"path_from_home": os.path.relpath(path, home)} if bucket_of(home) is None else {}
    return {"path": str(path), **from_home, "sha256": sha256_of(path)}


def recorded_owner(home: Path) -> dict[str, str]:
    """Read which configuration a folder belongs to; empty if the record is missing or damaged."""
    from disent_core.storage.results import fetch

    try:
        record = json.loads(fetch(home / OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_whole = isinstance(record, dict) and all(isinstance(value, str) for value in record.values())
    return record if is_whole else {}
