"""Keys hold and join, and the catalogue says how to use every column."""

import pytest
from made_warehouses import COMPARISON, Warehouse

from disent_core.errors import DisentError
from disent_core.storage.schemas import SUBJECT

RELATIONS = ("leaderboard", "significance", "best", "metric_catalogue", "dimensions", "catalogue")
FINE = [
    *({"seed": seed, "method": method, "embedding": embedding, "trained_on": pair}
    for seed in (None, 0, 1) for method, embedding, pair in (("facet", "meaning", "en-de"), ("raw", "sentence", ""))),
    {"method": "facet", "embedding": "language", "value": 0.55},
    {"method": "facet", "settings": '{"hubness": "csls"}', "value": 0.55},
]  # fmt: skip
TESTED = {name: COMPARISON[name] for name in ("method_a", "method_b")}
NINE = (*SUBJECT, "settings")


@pytest.fixture
def built(warehouse: Warehouse) -> Warehouse:
    warehouse.build(metrics=FINE, comparisons=[TESTED])
    return warehouse


def test_a_number_id_is_equivalent_to_nine_columns(built):
    by_id = "select count(*) as n from leaderboard inner join seed_variance using (number_id)"
    by_columns = f"select count(*) as n from leaderboard inner join seed_variance using ({', '.join(NINE)})"
    assert built.ask(by_id) == built.ask(by_columns) == [{"n": 2}]
    named = f"select count(distinct number_id) = count(distinct row({', '.join(NINE)})) as same from metrics"
    assert built.ask(named) == [{"same": True}]


def test_only_methods_of_the_same_problem_share_a_problem_id(built):
    rows = built.rows("select problem_id, settings, count(distinct method) from metrics group by all order by 2")
    assert [(settings, methods) for _, settings, methods in rows] == [('{"hubness": "csls"}', 1), ("{}", 2)]
    (same,) = built.rows("select problem_id, number_id_a, number_id_b from significance")
    assert same[0] == rows[1][0]
    assert built.rows("select number_id, runner_up_number_id from best") == [same[1:]]


def test_only_significant_differences_have_a_winner(warehouse):
    below = {"value_a": 0.5, "value_b": 0.8, "difference": -0.3, "ci_low": -0.4, "ci_high": -0.2}
    others = [{"evaluated_on": "de-en", "p_holm": 0.2}, {"evaluated_on": "en-ja", **below}]
    warehouse.build(metrics=FINE, comparisons=[{}, *others])
    assert warehouse.rows("select evaluated_on, winner from significance order by 1") == [
        ("de-en", None), ("en-de", "facet"), ("en-ja", "raw"),
    ]  # fmt: skip


def test_duplicate_keys_are_counted_and_single_column_keys_are_primary_keys(warehouse, built):
    assert {name: of.copies for name, of in built.report.contents.items() if of.copies} == {}
    curve = {"method": "dream", "encoder": "e", "trained_on": "en-de", "seed": 0, "epoch": 1, "split": "dev",
             "term": "total", "value": 1.0, "is_best": True}  # fmt: skip
    report = warehouse.build(metrics=FINE, training_curve=[curve, curve])
    assert {name: of.copies for name, of in report.contents.items() if of.copies} == {"heads.training_curve": 1}
    keys = warehouse.rows(
        "select table_name, constraint_column_names[1] from duckdb_constraints() "
        "where constraint_type = 'PRIMARY KEY' and database_name = 'warehouse' order by 1"
    )
    assert ("encoders", "encoder") in keys
    encoder = {"encoder": "e", "kind": "scratch", "settings": "{}", "encoder_saw": None}
    with pytest.raises(DisentError, match=r"table main\.encoders: .*duplicate"):
        warehouse.build(encoders=[encoder, encoder])


def test_the_version_of_a_relation_changes_with_its_rows_alone(warehouse):
    first = warehouse.build(metrics=FINE).contents
    again = warehouse.build(metrics=FINE[::-1]).contents
    assert {name: of.version for name, of in first.items()} == {name: of.version for name, of in again.items()}
    other = warehouse.build(metrics=[*FINE[:-1], {**FINE[-1], "value": 0.56}]).contents
    changed = {name for name in first if first[name].version != other[name].version}
    assert changed == {"evaluation.measurements", "main.metrics", "main.leaderboard"}


def test_the_catalogue_has_every_column_with_its_type_key_and_role(built):
    listed = built.ask(
        "select schema_name || '.' || table_name as relation, column_name, data_type, comment as description "
        "from duckdb_columns() where database_name = 'warehouse' and not internal order by all"
    )
    catalogue = built.ask("select relation, column_name, data_type, description from catalogue order by all")
    assert catalogue == listed
    roles = dict(built.rows("select column_name, role from catalogue where relation = 'main.metrics'"))
    assert [roles[name] for name in ("task", "seed", "value", "as_of", "settings", "number_id", "refresh")] == [
        "dimension", "dimension", "measure", "time", "attribute", "dimension", "dimension",
    ]  # fmt: skip
    keys = built.rows("select column_name from catalogue where relation = 'main.metrics' and is_key order by place")
    assert keys == [("seed",), ("number_id",)]


def test_the_metric_catalogue_has_direction_unit_and_bounds(built):
    rows = built.rows(
        "select embedding, reads_as, unit, lowest, highest, is_ranked, is_headline, numbers "
        "from metric_catalogue order by embedding"
    )
    assert rows == [
        ("language", "leakage, lower is better", "fraction", 0, 1, False, False, 1),
        ("meaning", "higher is better", "fraction", 0, 1, True, True, 4),
        ("sentence", "higher is better", "fraction", 0, 1, True, True, 3),
    ]


def test_the_members_of_a_dimension_are_counted(built):
    assert built.rows("select member, numbers from dimensions where dimension = 'method' order by member") == [
        ("facet", 5), ("raw", 3),
    ]  # fmt: skip
    assert built.rows("select count(distinct dimension) from dimensions") == [(len(SUBJECT) + 1,)]
