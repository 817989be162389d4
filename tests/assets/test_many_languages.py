"""The work of loading a configuration grows with the number of its partitions, not with its square."""

from collections.abc import Callable
from cProfile import Profile
from itertools import combinations
from pathlib import Path

import pytest
from worlds import corpus, encoder, experiment

from disent_assets.definitions import build
from disent_core.config.load import load_config
from disent_core.lineage.workspace import Workspace

CODES = [f"q{first}{second}" for first in "abcdefghij" for second in "abcdefghijklmnopqrstuvwxyz"]
"""ISO 639 leaves these to their users."""
MOST_CALLS = 9_000_000
"""All 276 pairs of 24 languages take 4 million with the checks of tests."""
METHODS = ["raw", "centered", "dream"]


def configuration(languages: list[str], pairs: list[str], methods: list[str], more: str = "") -> str:
    corpora = corpus("many", "xsid", languages=languages) + corpus("bitext", "moses", pairs=pairs)
    return corpora + encoder("tiny") + experiment(*methods, pairs=pairs) + more


def all_pairs(count: int, more: str = "") -> str:
    """Every language with every other one."""
    return configuration(CODES[:count], ["-".join(pair) for pair in combinations(CODES[:count], 2)], METHODS, more)


def with_english(count: int) -> str:
    return configuration(["en", *CODES[:count]], [f"en-{code}" for code in CODES[:count]], METHODS)


def methods(count: int) -> str:
    names = [f"dream_{number}" for number in range(count)]
    tables = "".join(f'\n[methods.{name}]\nmethod = "dream"\n' for name in names)
    return configuration(["en", "de", "fr"], ["en-de", "en-fr"], ["raw", *names], tables)


def calls_per_partition(folder: Path, text: str) -> float:
    """Calls of functions of Python and C until the definitions stand, for each partition."""
    path = folder / "disent.toml"
    path.write_text(text, encoding="utf-8")
    with Profile() as profile:
        graph = build(Workspace(load_config(path), folder / "home")).resolve_asset_graph()
    count = sum(entry.callcount for entry in profile.getstats())
    assert count < MOST_CALLS
    sizes = [node.partitions_def.get_num_partitions() if node.partitions_def else 1 for node in graph.asset_nodes]
    return count / sum(sizes)


@pytest.mark.parametrize(("of", "few", "many"), [
    (all_pairs, 12, 24), (lambda count: all_pairs(count, "[evaluation]\nunseen = true"), 8, 16),
    (with_english, 20, 80), (methods, 10, 40),
], ids=["all pairs", "all pairs, measured on all", "with English", "methods"])  # fmt: skip
def test_the_work_of_loading_grows_with_the_partitions_only(of: Callable[[int], str], few, many, tmp_path):
    calls_per_partition(tmp_path, of(3))  # imports
    more, fewer = calls_per_partition(tmp_path, of(many)), calls_per_partition(tmp_path, of(few))
    assert more < 1.5 * fewer  # quadratic work would be four times as much for a partition
