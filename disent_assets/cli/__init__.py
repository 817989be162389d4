"""The command line `disent`, for scripts; most users work in the UI.

The exit code is 0 on success, 1 on a failed run, 2 on a usage error.
"""

from disent_assets.cli import (
    completion,
    costs,
    dev,
    diff,
    export,
    homes,
    init,
    leaderboard,
    materialize,
    mteb,
    queries,
    reports,
    search,
    serve,
)
from disent_assets.cli.group import main

__all__ = [
    "completion", "costs", "dev", "diff", "export", "homes", "init", "leaderboard", "main", "materialize", "mteb",
    "queries", "reports", "search", "serve",
]  # fmt: skip
