"""The verdicts on claims follow from the metrics of the cells that count."""

import pytest

NO_INTERVAL = {"ci_low": None, "ci_high": None}
RAW = {"method": "raw", "trained_on": "", "embedding": "sentence"}
LEAK = {"embedding": "language"}


def build(warehouse, *rows):
    warehouse.build(metrics=[{**NO_INTERVAL, **row} for row in rows])


def verdicts(warehouse, claim):
    return warehouse.ask(f"select * from claim_verdicts where claim = '{claim}' order by encoder")


def test_a_claim_that_nothing_measured_says_so(published):
    found = published.ask("select distinct verdict from claim_verdicts")
    assert found == [{"verdict": "not measured"}]


def test_every_claim_has_a_verdict(published):
    assert published.ask("select count(*) as n from claims") == published.ask(
        "select count(distinct claim) as n from claim_verdicts"
    )


@pytest.mark.parametrize(("dream", "verdict"), [(0.6, "held"), (0.3, "not held")])
def test_a_difference_is_taken_against_the_untrained_method_of_the_same_encoder(warehouse, dream, verdict):
    build(warehouse, {"value": dream}, {**RAW, "value": 0.5}, {**RAW, "encoder": "other", "value": 0.9})
    (found,) = verdicts(warehouse, "dream_beats_raw")
    assert found["verdict"] == verdict
    assert found["found"] == pytest.approx(dream - 0.5)
    assert found["cells"] == 1


def test_a_verdict_is_of_the_mean_and_counts_the_cells_that_agree(warehouse):
    back = {"evaluated_on": "de-en"}
    build(warehouse, {"value": 0.9}, {**RAW, "value": 0.5}, {**back, "value": 0.4}, {**RAW, **back, "value": 0.5})
    (found,) = verdicts(warehouse, "dream_beats_raw")
    assert (found["verdict"], found["cells_held"], found["cells"]) == ("held", 1, 2)


@pytest.mark.parametrize(("leak", "verdict"), [(0.10, "held"), (0.15, "not held")])
def test_a_ratio_is_bounded_as_the_claim_says(warehouse, leak, verdict):
    build(warehouse, {**LEAK, "value": 0.2}, {**LEAK, "method": "dream_oracle", "value": leak})
    (found,) = verdicts(warehouse, "oracle_cleans_dream")
    assert found["verdict"] == verdict


def test_methods_trained_on_other_pairs_are_not_compared(warehouse):
    build(warehouse, {"method": "fmda", "value": 0.6}, {"trained_on": "en-de+en-es", "value": 0.5})
    assert verdicts(warehouse, "fmda_beats_dream")[0]["verdict"] == "not measured"


def test_a_range_has_two_ends(warehouse):
    build(warehouse, {"value": 0.5}, {"method": "dream_oracle", "value": 0.53})
    (found,) = verdicts(warehouse, "oracle_keeps_dream")
    assert found["verdict"] == "not held"
