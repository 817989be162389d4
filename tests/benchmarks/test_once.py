"""Of the published trainings, the dearest name of each method on the first encoder stands for it."""

from tests.benchmarks.once import ROOT, once, trained

PAGE = """
| minilm_mean | other table | en-de | 3 | 1 | | 1 | 1 |
## What ran where, and how long
| encoder | method | trained_on | seeds | epochs | converged | seconds | processor_seconds |
| --- | --- | --- | --- | --- | --- | --- | --- |
| minilm_multi | dream | en-de | 3 | 9 | True | 90 | 80 |
| minilm_mean | dream | en-de | 3 | 9 | True | 9 | 8 |
| minilm_mean | dream | en-es | 3 | 9 | True | 9 | 7 |
| minilm_mean | dream-half | en-de | 3 | 9 | True | 9 | 1 |
| minilm_multi | emu | en-de+en-es+en-ja | 1 | 9 | | 9 | 5 |
<!-- end -->
| minilm_mean | other table | en-de | 3 | 1 | | 1 | 1 |
"""
METHODS = {"dream": "dream", "dream-half": "dream", "emu": "emu"}


def test_the_dearest_name_on_the_first_encoder_stands_for_a_method():
    found = {row.name: row for row in once(trained(PAGE), METHODS)}
    assert found.keys() == {"emu", "dream"}
    assert found["dream"][0] == "minilm_mean"
    assert found["dream"][2:] == (2, 3, 2, 15.0)
    assert found["emu"][2:] == (3, 1, 1, 5.0)


def test_the_page_has_the_trainings():
    assert {"facet", "fine_tuned", "emu"} <= {row.name for row in trained((ROOT / "docs/results.md").read_text())}
