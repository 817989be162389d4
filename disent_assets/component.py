"""A component for `dg`: the lineage as part of your own Dagster project, beside its other assets.

type: disent_assets.component.DisentLineage
attributes:
  config: disent.toml
  home: data
  prefix: [sentences]
"""

from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import Field


class DisentLineage(dg.Component, dg.Model, dg.Resolvable):
    """The assets of one configuration of disent.

    A project can have several, each with a configuration, a folder of results and a prefix of its own.
    """

    config: str = Field(description="The configuration; a relative path starts from the folder of this file.")
    home: str = Field(
        description="The folder of its results; a relative path starts from the folder of this file. Or "
        "s3://bucket/prefix."
    )
    prefix: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]] = Field(
        default=[], description="How the keys of its assets begin."
    )
    pool: str | None = Field(
        default=None,
        description="Pool of the steps that take the GPU. Default: one for each prefix; lineages that share a GPU "
        "should share a pool.",
    )

    workers: int = Field(default=1, ge=1, description="How many steps of a refresh run at once, each in a process.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets, the job that refreshes them, and its sensor and schedule, both initially off."""
        from disent.home import check_owner, open_home
        from disent_assets.embedded import hosted
        from disent_assets.settings.environment import shard_backend
        from disent_core.config.load import load_config
        from disent_core.lineage.workspace import Workspace

        config, home = (_path(context.path, value) for value in (self.config, self.home))
        home = open_home(self.home if "://" in self.home else home)
        workspace = Workspace(load_config(config), home, tuple(self.prefix), shard_backend())
        check_owner(workspace.config, workspace.home)
        return hosted(workspace, self.pool, self.workers)


def _path(folder: Path, value: str) -> Path:
    return folder / Path(value).expanduser()
