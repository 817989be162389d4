"""The program `disent`: run the command line or, if its libraries are not installed, say what to install."""

import sys

from disent.extras import remedy


def main() -> None:
    """Run the command line."""
    try:
        from disent_assets.cli import main as run
    except ModuleNotFoundError as error:
        message = remedy(error)
        if message is None:
            raise
        sys.stderr.write(f"disent: the command line {message}\n")
        raise SystemExit(2) from error
    run()
