"""Each table and view of the warehouse is an asset with columns, lineage and checks; one step reports all of them."""

from types import SimpleNamespace

import dagster as dg
import pytest
from worlds import corpus, encoder, experiment

from disent_assets.definitions import build
from disent_assets.lineage import relations
from disent_assets.lineage.relations import relation_key, shown_relations
from disent_assets.run.plan import STAGES, plan, steps_of
from disent_assets.run.step import compute, log_news
from disent_assets.run.steps import find_states, steps_in
from disent_assets.warehouse.refresh import refresh_warehouse
from disent_core.config.load import load_config
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.workspace import Workspace

NAMES = [relation.name for relation in shown_relations()]
CONFIG = corpus("sample", path="corpus", languages=["en-US", "de-DE"]) + encoder("own") + experiment("raw")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Workspace:
    folder = tmp_path_factory.mktemp("relations")
    (folder / "disent.toml").write_text(CONFIG, encoding="utf-8")
    return Workspace(load_config(folder / "disent.toml"), folder / "home")


@pytest.fixture(scope="module")
def graph(workspace):
    return build(workspace).resolve_asset_graph()


@pytest.fixture(scope="module")
def events(workspace) -> list[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """What the step of the warehouse reports beside its own result, of a run without results."""
    (step,) = [step for step in steps_of(workspace, build(workspace)) if step.key == DATABASE]
    return [event for event in compute(workspace, step, None).events if event.asset_key != dg.AssetKey(DATABASE)]


def made(events) -> dict[str, dg.AssetMaterialization]:
    listed = [event for event in events if isinstance(event, dg.AssetMaterialization)]
    return {".".join(event.asset_key.path[1:]): event for event in listed}


def test_every_relation_is_an_asset_with_an_owner_a_description_and_a_check(graph):
    for name in NAMES:
        node = graph.get(dg.AssetKey(relation_key(name)))
        assert all((node.owners, node.description, node.check_keys)), name
        assert not node.is_materializable, name
    checks = {key.name for key in graph.get(dg.AssetKey(relation_key("main.regressions"))).check_keys}
    assert checks == {"key_is_unique", "no_regressions"}


def test_a_view_depends_on_what_it_reads_and_a_loaded_table_on_the_database_and_its_stage(graph):
    def parents(name):
        return {key.to_user_string() for key in graph.get(dg.AssetKey(relation_key(name))).parent_keys}

    assert parents("main.best") == {"warehouse/main/headline", "warehouse/parts/paired_tests"}
    assert parents("corpora.utterances") == {"warehouse/database", "corpora/utterances"}
    assert parents("parts.claims") == {"warehouse/database"}


def test_relations_add_no_step_and_no_line_of_status(workspace):
    steps = steps_of(workspace, build(workspace))
    assert [run.key for run in plan(steps, ["warehouse"])] == [DATABASE]
    assert {state.asset.split("/")[0] for state in find_states(workspace, {})} <= set(STAGES)
    assert [state.asset for state in find_states(workspace, {}) if state.asset.startswith("warehouse")] == [
        "warehouse/database"
    ]
    assert steps_in(workspace)[-1].outputs == (DATABASE,)


def test_the_step_of_the_warehouse_reports_rows_columns_and_checks_of_every_relation(graph, events):
    shown = made(events)
    assert list(shown) == NAMES
    columns = shown["main.best"].metadata["dagster/column_schema"].schema.columns
    assert {column.name for column in columns} > {"task", "problem_id"}
    assert all(column.type and column.description for column in columns)
    assert shown["parts.claims"].metadata["dagster/row_count"].value == 77
    evaluated = {event.asset_check_key for event in events if isinstance(event, dg.AssetCheckEvaluation)}
    declared = {key for name in NAMES for key in graph.get(dg.AssetKey(relation_key(name))).check_keys}
    assert evaluated == declared
    assert [
        event.check_name for event in events if isinstance(event, dg.AssetCheckEvaluation) and not event.passed
    ] == []


def test_columns_name_the_columns_that_they_are_computed_from(events):
    def origins(name, column):
        deps = made(events)[name].metadata["dagster/column_lineage"].column_lineage.deps_by_column
        return {f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in deps.get(column, ())}

    assert origins("corpora.utterances", "text") == {"corpora/utterances.text"}
    assert origins("main.changes", "why") == {"warehouse/history/events.why"}
    assert origins("main.costs", "cores") == {
        "warehouse/main/step_costs.processor_seconds",
        "warehouse/main/step_costs.seconds",
    }
    assert origins("papers.fmda_table2", "en_de_measured") == {"warehouse/parts/paper_rows.measured"}
    assert origins("parts.claims", "says") == set(), "it stands in a file of sql/published"
    assert origins("main.coverage", "cells") == set(), "it counts rows"


def test_known_events_are_not_reported_again(events):
    with dg.DagsterInstance.ephemeral() as instance:
        logged = []
        for event in events:
            instance.report_runless_asset_event(event)
        log_news(SimpleNamespace(instance=instance, log_event=logged.append), events)
        assert logged == []
        others = [event for event in events if event.asset_key != events[0].asset_key]
        failed = dg.AssetCheckEvaluation(
            asset_key=events[1].asset_key,
            check_name=events[1].check_name,
            passed=False,
            metadata=events[1].metadata,
            severity=events[1].severity,
        )
        changed = events[0]._replace(tags={"dagster/data_version": "other"})
        log_news(SimpleNamespace(instance=instance, log_event=logged.append), [changed, failed, *others])
        assert logged == [changed, failed]


def test_a_relation_with_unchanged_rows_keeps_its_data_version(workspace, events):
    before = {name: event.tags for name, event in made(events).items()}
    (workspace.warehouse.with_suffix(".json")).unlink()
    refresh_warehouse(workspace)
    after = {name: event.tags for name, event in made(relations.relation_events(workspace)).items()}
    assert {name for name in NAMES if before[name] != after[name]} <= {
        "main.asset_state",
        "main.step_costs",
        "main.costs",
    }


def test_standalone_checks_repeat_the_outcomes_of_the_last_build(workspace, events):
    *_, check = build(workspace).asset_checks
    outcomes = list(check.node_def.compute_fn.decorated_fn())
    assert {(outcome.asset_key, outcome.check_name) for outcome in outcomes} == {
        (event.asset_key, event.check_name) for event in events if isinstance(event, dg.AssetCheckEvaluation)
    }
