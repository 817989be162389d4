"""Run the tests of what a change touches, and those of the architecture: `make quick`.

    python -m tools.quick [--since COMMIT] [--list]

A file of tests is chosen if it has changed, or if it imports a module that has; after a change below sql/, so are those
that every relation must pass. Tests of the whole lineage (`tests/end_to_end`, `tests/scale`) are chosen only if they
have changed themselves: `make test` runs the first of them.
"""

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = Path("tests/test_architecture.py")
SLOW = (
    "tests/end_to_end", "tests/scale", "tests/bench", "tests/fuzz", "tests/test_wheel.py", "tests/test_installation.py",
)  # fmt: skip
OF_SQL = (
    "tests/sql/test_descriptions.py", "tests/sql/test_keys_and_catalogue.py", "tests/sql/test_published_metrics.py",
    "tests/sql/test_sql_files.py", "tests/sql/test_warehouse_views.py",
)  # fmt: skip
MOST_FILES = 12
"""Most test files to run; if more import what has changed, those that mirror its path below tests/ go first."""


def changed_files(since: str) -> list[Path]:
    """Return the files that differ from a commit, including untracked ones."""
    commands = (["git", "diff", "--name-only", since], ["git", "ls-files", "--others", "--exclude-standard"])
    outputs = [
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout for command in commands
    ]
    return [Path(line) for output in outputs for line in output.splitlines()]


def module_name(path: Path) -> str:
    """Return the dotted name of a Python file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported_modules(source: str) -> Iterator[str]:
    """Yield every module that a module's import statements could mean: `a.b` and `a.b.c` for `from a.b import c`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def selected(changed: Iterable[Path], tests: Iterable[Path]) -> list[Path]:
    """Return the test files to run for the changed files, nearest first; paths are relative to the repository."""
    changed = list(changed)
    modules = {module_name(path) for path in changed if path.suffix == ".py"}
    is_of_sql = any(path.parts[0] == "sql" for path in changed)
    chosen = []
    for test in tests:
        distance = None
        if test in changed:
            distance = -1
        elif is_of_sql and test.as_posix() in OF_SQL:
            distance = 0
        elif not test.as_posix().startswith(SLOW) and modules & set(imported_modules((ROOT / test).read_text("utf-8"))):
            distance = min(_distance(test, path) for path in changed)
        if distance is not None:
            chosen.append((distance, test.as_posix(), test))
    return [test for _, _, test in sorted(chosen)][:MOST_FILES]


def _distance(test: Path, changed: Path) -> int:
    """Return how many folders of a changed file the path of a test lacks; 0 at the mirrored path."""
    folders = [part.removeprefix("disent_") for part in changed.parent.parts]
    return sum(part not in test.parts for part in folders) + (changed.stem not in test.stem)


def main() -> int:
    """Select tests and run them; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.quick", description=__doc__)
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="compare with it (default: the last)")
    parser.add_argument("--list", action="store_true", help="only print the files of tests")
    arguments = parser.parse_args()
    tests = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    files = dict.fromkeys([ALWAYS, *selected(changed_files(arguments.since), tests)])
    print(*files, sep="\n", flush=True)
    if arguments.list:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", "--dist", "loadfile", *map(str, files)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
