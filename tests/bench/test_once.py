"""Of the published trainings, the dearest name of each method on the first encoder stands for it."""

import csv

from bench.once import ROOT, once, trained

ROWS = [
    dict(zip(("encoder", "method", "trained_on", "seeds", "processor_seconds"), line.split(), strict=True))
    for line in (
        "minilm_multi dream en-de 3 80",
        "minilm_mean dream en-de 3 8",
        "minilm_mean dream en-es 3 7",
        "minilm_mean dream-half en-de 3 1",
        "minilm_multi emu en-de+en-es+en-ja 1 5",
    )
]
METHODS = {"dream": "dream", "dream-half": "dream", "emu": "emu"}


def test_the_dearest_name_on_the_first_encoder_stands_for_a_method():
    found = {row.name: row for row in once(trained(ROWS), METHODS)}
    assert found.keys() == {"emu", "dream"}
    assert found["dream"][0] == "minilm_mean"
    assert found["dream"][2:] == (2, 3, 2, 15.0)
    assert found["emu"][2:] == (3, 1, 1, 5.0)


def test_the_results_have_the_trainings():
    with (ROOT / "docs/results/trainings.csv").open(encoding="utf-8", newline="") as file:
        assert {"facet", "fine_tuned", "emu"} <= {row.name for row in trained(csv.DictReader(file))}
