"""Show that a change of the code changes no result.

    python -m tools.same_results record HOME FILE.json     # before: the fingerprints of all results of a home
    python -m tools.same_results compare HOME FILE.json    # after: list what differs; exit code 1 if anything does
    python -m tools.same_results run FILE.json             # both: materialise the demo in a new home, then compare

Compared are, by path: of every table the hash of its rows, the hash of its inputs and the number of rows, as its
manifest states them; the tensors of weights; the SHA-256 of encoders and pictures; and every row of `metrics` without
the time at which it was measured. Run times, logs, caches and Dagster's state are left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
from safetensors.numpy import load_file

LEFT_OUT = ("cache/", "dagster/", "checkpoints/", "shards/", "warehouse.", "tables/warehouse/")
"""Parts of a home that hold no results, or only times."""
FACTS = ("content", "inputs", "rows")
"""Fields of a table's manifest to compare; its `notes` contain seconds."""


def fingerprints(home: Path) -> dict[str, object]:
    """Return the fingerprint of every result of a home, by its path."""
    return dict(sorted([*_files(home), *_metrics(home)]))


def _files(home: Path) -> Iterator[tuple[str, object]]:
    for path in (path for path in home.rglob("*.manifest") if "records" not in path.parts):
        name = path.relative_to(home).as_posix()
        if name.startswith(LEFT_OUT):
            continue
        if name.endswith(".safetensors.manifest"):
            yield name, _tensors(path.with_suffix(""))
            continue
        read = json.loads(path.read_text(encoding="utf-8"))
        files = enumerate(read["files"]) if "files" in read else read.items()  # for a table, or a folder's by name
        for number, file in files:
            facts = {fact: file["facts"][fact] for fact in FACTS if fact in file["facts"]}
            yield f"{name}#{number}", facts or file["sha256"]


def _tensors(path: Path) -> str:
    """Return the hash of a file's tensors without its metadata, whose order differs from file to file."""
    digest = sha256()
    for name, tensor in sorted(load_file(path).items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
    return digest.hexdigest()


def _metrics(home: Path) -> Iterator[tuple[str, object]]:
    for path in (home / "tables/evaluation/metrics").rglob("*.parquet"):
        rows = pq.read_table(path).drop_columns(["created_at"]).to_pylist()
        yield f"{path.relative_to(home)}: rows", sha256(repr(rows).encode()).hexdigest()


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return a line for every result that was added, removed or changed."""
    lines = [f"gone: {name}" for name in before.keys() - after.keys()]
    lines += [f"new: {name}" for name in after.keys() - before.keys()]
    changed = (name for name in before.keys() & after.keys() if before[name] != after[name])
    lines += [f"changed: {name}: {before[name]} -> {after[name]}" for name in changed]
    return sorted(lines)


def _demo(home: Path) -> None:
    environment = {**os.environ, "DISENT_HOME": str(home)}
    subprocess.run([sys.executable, "-m", "disent_assets.cli", "materialize"], check=True, env=environment)


def main() -> int:
    """Record or compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_results", description=__doc__)
    parser.add_argument("what", choices=["record", "compare", "run"])
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "run":
        with tempfile.TemporaryDirectory() as folder:
            _demo(Path(folder))
            results = fingerprints(Path(folder))
    else:
        results = fingerprints(arguments.paths[0])
    file: Path = arguments.paths[-1]
    if arguments.what == "record" or not file.exists():
        file.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"{len(results)} results recorded in {file}")
        return 0
    lines = differences(json.loads(file.read_text(encoding="utf-8")), results)
    print("\n".join(lines) or f"all {len(results)} results are equal")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
