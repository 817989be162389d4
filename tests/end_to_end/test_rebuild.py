"""After any edits, a refresh gives exactly the results of a clean rebuild of the same inputs, to the bit."""

import random
import shutil
import time
from itertools import islice
from pathlib import Path

import pytest
from edits import SETTINGS, rounds_of_edits, some_inputs, write
from projects import Project
from rebuilds import differences
from tiny_encoder import tiny_encoder

pytestmark = pytest.mark.end_to_end


FEW_TASKS = """tasks = [
    "crosslingual_retrieval", "code_switched_retrieval", "template_retrieval", "heldout_retrieval", "tatoeba_retrieval",
]
"""
"""Of each kind of corpus; the slow test has all tasks."""


class Rebuilt(Project):
    """The same inputs, in a home of its own."""

    @property
    def home(self) -> Path:
        return self.folder / "rebuilt"


def compare_rounds(
    folder: Path, methods: list[str], seeds: list[int], *, rounds: int, edits: int, seed: int, evaluation: str = ""
) -> None:
    """Edit, refresh, rebuild, compare, as often as asked."""
    encoder = tiny_encoder(folder / "encoder").folder
    project, rebuilt = Project(folder), Rebuilt(folder)
    chance = random.Random(seed)
    first = some_inputs(chance)
    write(first, project, encoder, methods, seeds, evaluation)
    project.materialize()
    for number, (inputs, done) in enumerate(islice(rounds_of_edits(chance, first, edits), rounds)):
        write(inputs, project, encoder, methods, seeds, evaluation)
        project.materialize()
        shutil.rmtree(rebuilt.home, ignore_errors=True)
        rebuilt.materialize()
        different = differences(project, rebuilt)
        line = f"seed {seed}, round {number}, {', '.join(done)}: {len(different)} differences"
        print(line)
        assert not different, "\n".join([line, *different[:20]])


@pytest.mark.timeout(1_800)
def test_a_refresh_after_random_edits_equals_a_rebuild(tmp_path):
    methods = ["raw", "dream", "facet"]
    compare_rounds(tmp_path, methods, [0], rounds=1, edits=10, seed=1, evaluation=FEW_TASKS)  # edits of every kind


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_fifteen_refreshes_after_random_edits_equal_rebuilds(tmp_path):
    seed = int(time.time())
    methods = random.Random(seed).sample(["raw", "centered", "projection", "bertscore", *SETTINGS], 8)
    print(*methods)
    compare_rounds(tmp_path, methods, [0, 1], rounds=15, edits=3, seed=seed)
