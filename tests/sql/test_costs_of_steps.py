"""The view `costs` and `disent costs`: shares, order and sums, and what is not known."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from made_warehouses import Warehouse, sql_of, write_rows

from disent_assets.cli import main
from disent_core.storage.schemas import STEP_COSTS
from disent_core.storage.tables import table_path

RELATIONS = ("costs", "asset_state")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEP = {
    "partition": "en-de", "encoder": None, "method": None, "made_at": NOW, "peak_memory": None, "rows": None,
    "texts": None, "steps": None, "machine": "any",
}  # fmt: skip


def cost(asset: str, processor_seconds: float, **other) -> dict:
    stage, *rest = asset.split("/")
    encoder = {"encoder": rest[0]} if len(rest) > 1 else {}
    times = {"processor_seconds": processor_seconds, "seconds": 2 * processor_seconds}
    return STEP | {"asset": asset, "stage": stage, **encoder, **times, **other}


COSTS = [
    cost("corpora/utterances", 1.0, partition="de", peak_memory=100_000_000),
    cost("embeddings/minilm/minilm_vectors", 5.0, partition="de", texts=700, peak_memory=900_000_000),
    cost("heads/minilm/dream_head", 3.0, method="dream", steps=20),
    cost("evaluation/minilm/dream_metrics", 1.0, method="dream", peak_memory=200_000_000),
    cost("heads/minilm/emu_head", 90.0, method="emu"),  # no longer in the configuration
    cost("embeddings/xlmr/xlmr_vectors", 90.0, partition="de"),
]
STATE = {"partition": "en-de", "encoder": "minilm", "why": None, "waits": False, "since": NOW, "recorded_at": NOW}


def state(asset: str, method: str | None, status: str = "fresh") -> dict:
    return STATE | {"asset": asset, "stage": asset.partition("/")[0], "method": method, "state": status}


STATES = [
    state("heads/minilm/dream_head", "dream"),
    state("heads/minilm/facet_head", "facet"),
    state("evaluation/minilm/facet_metrics", "facet", "stale"),
    state("evaluation/minilm/oracle_metrics", "oracle", "missing"),
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("measured"), sql_of(*RELATIONS))
    warehouse.build(
        step_costs=COSTS,
        asset_state=STATES,
        configured_methods=[{"method": "dream"}, {"method": "facet"}],
        encoders=[{"encoder": "minilm", "kind": "huggingface", "settings": "{}"}],
    )
    return warehouse


def asked(warehouse: Warehouse, *options: str) -> str:
    shown = CliRunner().invoke(main, ["costs", *options], env={"DISENT_HOME": str(warehouse.path.parent)})
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_costs_are_sorted_by_share_and_groups_have_the_maximum_peak(measured):
    rows = json.loads(asked(measured, "--format", "json"))
    shares = {"minilm_vectors": 0.5, "dream_head": 0.3, "utterances": 0.1, "dream_metrics": 0.1}
    assert [(row["asset"].split("/")[-1], row["share"]) for row in rows] == [*shares.items()]
    rows = json.loads(asked(measured, "--by", "encoder", "--format", "json"))
    assert [row["peak_megabytes"] for row in rows] == [900, 100]


@pytest.mark.parametrize(
    ("by", "sums"),
    [
        ("stage", {("embeddings",): 5, ("heads",): 3, ("corpora",): 1, ("evaluation",): 1}),
        ("encoder", {("minilm",): 9, ("",): 1}),
        ("method", {("", "embeddings"): 5, ("dream", "heads"): 3, ("", "corpora"): 1, ("dream", "evaluation"): 1}),
    ],
)
def test_a_group_has_the_sum_of_its_steps(measured, by, sums):
    rows = list(csv.reader(io.StringIO(asked(measured, "--by", by, "--format", "csv"))))
    place, width = rows[0].index("processor_seconds"), len(next(iter(sums)))
    assert {tuple(row[:width]): float(row[place]) for row in rows[1:]} == sums


def test_the_costs_table_ends_with_totals_and_omitted_rows(measured, monkeypatch):
    *_, total, unknown = asked(measured).splitlines()
    assert total == "4 steps: 10.0 processor seconds, 20.0 s of wall-clock time"
    assert unknown.startswith("2 heads and metrics were made by a version that did not measure costs")
    monkeypatch.setattr("disent_assets.cli.queries.SHOWN", 1)
    lines = asked(measured).splitlines()
    assert "not shown: 3 smaller rows (--format csv)" in lines
    assert [line for line in lines if "dream_head" in line] == []


def test_a_home_without_recorded_costs_is_explained(warehouse):
    warehouse.build(asset_state=STATES)
    lines = asked(warehouse).splitlines()
    assert "0 steps: 0.0 processor seconds, 0.0 s of wall-clock time" in lines
    assert lines[-1].startswith("3 heads and metrics were made by a version")


def test_costs_recorded_after_the_build_are_included(warehouse):
    warehouse.build()
    write_rows(table_path(warehouse.path.parent, *STEP_COSTS), "step_costs", [cost("corpora/utterances", 4.0)])
    assert [row["processor_seconds"] for row in json.loads(asked(warehouse, "--format", "json"))] == [4.0]
    assert warehouse.ask("select cores from main.costs") == [{"cores": 0.5}]
