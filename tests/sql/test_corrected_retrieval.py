"""Corrected retrieval is in the tables of every number, with a column that names it, and in no other relation."""

RAW = {"method": "raw", "trained_on": "", "embedding": "sentence", "value": 0.45}
FMDA = {"method": "fmda", "value": 0.58}
BACK = {"evaluated_on": "de-en"}
METRICS = [
    {**method, **where}
    for method in ({}, RAW, FMDA, {"embedding": "language", "value": 0.42})
    for where in ({}, BACK, {"task": "tatoeba_retrieval", "dataset": "tatoeba", **BACK}, {"seed": 0})
    if not (method is RAW and "seed" in where)
]
TEST = {"method_a": "fmda", "value_a": 0.58, "value_b": 0.45, "difference": 0.13, "ci_low": 0.1, "ci_high": 0.2}
EVERY_NUMBER = {
    *("metrics", "seed_variance", "leaderboard", "comparisons", "significance"),
    *("parts.readings", "parts.paired_tests", "evaluation.measurements"),
    *("dimensions", "metric_catalogue"),
}


def corrected(row, name="csls", value=0.55):
    return {**row, "value": value, "settings": f'{{"hubness": "{name}"}}'}


def versions(report):
    """Of every relation; each changes with the rows."""
    return {name.removeprefix("main."): of.version for name, of in report.contents.items()}


def test_corrected_retrieval_changes_only_relations_listing_every_number(warehouse):
    more = [corrected(row, name) for row in METRICS for name in ("csls", "train_bias")]
    tests = [{**TEST, "settings": '{"hubness": "csls"}'}]
    before = versions(warehouse.build(metrics=METRICS, comparisons=[TEST]))
    filled = ("headline", "best", "tatoeba_averages", "parts.measured_figures")
    assert [name for name in filled if not warehouse.ask(f"from {name}")] == []
    assert warehouse.ask("from papers.fmda_table2 where encoder is not null")
    after = versions(warehouse.build(metrics=[*METRICS, *more], comparisons=[TEST, *tests]))
    assert {name for name in before if before[name] != after[name]} == EVERY_NUMBER
