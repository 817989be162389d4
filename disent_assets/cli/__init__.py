"""The command line `disent`, with one module per group of commands; commands register themselves with `group.main`.

The exit code is 0 on success, 1 on a failed run, 2 on a usage error.
"""

from disent_assets.cli import init, materialize, operations, queries, reports, search, shapes
from disent_assets.cli.group import main

__all__ = ["init", "main", "materialize", "operations", "queries", "reports", "search", "shapes"]
