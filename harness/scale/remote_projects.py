"""Small projects with results in a bucket, and copies of the bucket as plain folders."""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from projects import Project

from disent.home import home_folder
from disent_core.storage.bucket import Bucket
from disent_core.storage.remote import MANIFEST, RemoteHome, attach, detach
from disent_core.storage.results import fetch


@dataclass(frozen=True)
class RemoteProject(Project):
    """A project with its results in a bucket; `machine` names the folder of their copies."""

    address: str
    machine: str = "machine"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DISENT_CONFIG": str(self.config),
            "DISENT_HOME": self.address,
            "DISENT_CACHE": str(self.folder / self.machine),
            "DISENT_WORKERS": "1",
        }

    @property
    def home(self) -> Path:
        return home_folder(self.environment)


@dataclass(frozen=True)
class Fetched(Project):
    """The contents of a project's bucket, in a separate folder."""

    address: str

    @property
    def home(self) -> Path:
        return self.folder / "fetched"

    def fetch(self) -> None:
        """Fetch the contents."""
        bucket = Bucket(self.address)
        attach(RemoteHome(bucket, self.home))
        for listed in bucket.listed():
            if listed.key.endswith(MANIFEST) and not listed.key.startswith("checkpoints/"):
                fetch(self.home / listed.key.removesuffix(MANIFEST))
        detach(self.home)
