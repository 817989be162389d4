"""Corrected retrieval is in the tables of every number, with a column that names it, and in no other relation."""

import duckdb

from disent.query import attach_warehouse

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
NAMES = """
select schema_name || '.' || {0}_name as name from duckdb_{0}s() where not internal and database_name = 'warehouse'
"""


def corrected(row, name="csls", value=0.55):
    return {**row, "value": value, "settings": f'{{"hubness": "{name}"}}'}


def contents(warehouse):
    with duckdb.connect() as connection:  # `ask` would open the warehouse for each of the hundred relations
        attach_warehouse(connection, warehouse.path)
        connection.execute("use warehouse")
        names = [name for kind in ("table", "view") for (name,) in connection.sql(NAMES.format(kind)).fetchall()]
        return {
            name.removeprefix("main."): connection.sql(f"from {name} order by all").to_arrow_table().to_pylist()
            for name in names
        }


def test_corrected_retrieval_changes_only_relations_listing_every_number(warehouse):
    more = [corrected(row, name) for row in METRICS for name in ("csls", "train_bias")]
    tests = [{**TEST, "settings": '{"hubness": "csls"}'}]
    warehouse.build(metrics=METRICS, comparisons=[TEST])
    before = contents(warehouse)
    assert all(before[name] for name in ("headline", "best", "tatoeba_averages", "parts.measured_figures"))
    assert any(row["encoder"] for row in before["papers.fmda_table2"])
    warehouse.build(metrics=[*METRICS, *more], comparisons=[TEST, *tests])
    after = contents(warehouse)
    assert {name for name in before if before[name] != after[name]} == EVERY_NUMBER
