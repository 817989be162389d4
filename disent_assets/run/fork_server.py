"""Start the process that workers are forked from; it ends with the command, and so do its workers."""

import multiprocessing
import os
from typing import TYPE_CHECKING

from disent_assets.settings.environment import ONE_THREAD, environment
from disent_core.methods.spec import usable_cores

if TYPE_CHECKING:  # Windows has none
    from multiprocessing.context import ForkServerContext

PRELOADED = [
    "disent_assets.run.in_fork_server",
    "disent_assets.definitions", "disent_assets.warehouse.build", "disent_assets.run.workers",
    "disent_core.corpora.rows", "disent_core.lineage.history", "disent_core.lineage.evaluation",
    "disent_core.methods.families.frozen", "disent_core.negatives.nearest", "disent_core.targets.aligned_pairs",
    "matplotlib.figure", "scipy.special", "transformers",
]  # fmt: skip
"""Imported once, before workers are forked. Importing torch starts no threads, but calling it may."""
HAS_WORKERS = hasattr(os, "fork")


def most_workers() -> int:
    """Return the number of workers that can run at once: one for each core, or one where processes can't fork."""
    return usable_cores() if HAS_WORKERS else 1


def start_fork_server() -> "ForkServerContext":
    """Start the process, unless it runs. It imports for some seconds, so start it before it is needed."""
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with environment(ONE_THREAD):
        forkserver.ensure_running()
    return context
