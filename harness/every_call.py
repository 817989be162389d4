"""Let one system call after another fail in a command, and compare what comes of it with an undisturbed run.

    python harness/every_call.py --each 2                        # every command, every kind, two calls of each place
    python harness/every_call.py --commands index --kinds write fsync

A first run of each command lists its calls of a kind: to open, write, flush, rename, remove or lock a file of the
project, to start a process or a thread, to allocate a large piece. Calls of one place (one function on files of one
name) are alike, so `--each` of them are drawn. Then the command runs once for every drawn call, which fails, and, every
second time, all later ones with it. It has to end well, or with one line and exit code 1; what the next run makes has
to be what an undisturbed one makes, to the bit. gcc compiles `failing_calls.c`, which is loaded before all else.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from failing_calls import KINDS, is_loaded, start_again

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="+", metavar="NAME", help="of failed_commands.py; default: all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--each", type=int, default=1, metavar="N", help="calls of each place")
    parser.add_argument("--places", type=int, metavar="N", help="only so many of a command and a kind")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if not is_loaded():
        start_again()  # before what takes seconds to load
    from failed_commands import run

    sys.exit(0 if run(chosen.commands, chosen.kinds, chosen.each, chosen.places, chosen.seed) else 1)
