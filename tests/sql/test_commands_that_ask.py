"""Commands that only ask load none of the libraries that encode, train and orchestrate, which take seconds."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "dagster", "polars", "transformers", "pydantic", "matplotlib", "sklearn", "scipy")


def loaded_by(home, *arguments):
    code = (
        "import sys; from disent_assets.cli import main; main(sys.argv[1:], standalone_mode=False); "
        f"print('loaded:', sorted(set({HEAVY}) & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "DISENT_HOME": str(home)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [("sql", "from metrics"), ("leaderboard",), ("leaderboard", "crosslingual_retrieval")]
)
def test_a_question_to_the_warehouse_loads_no_library_of_training(warehouse, arguments):
    warehouse.build(metrics=[{}])
    assert loaded_by(warehouse.path.parent, *arguments) == "loaded: []"
