"""The share of a step is that of the products of a part of it that runs again, times the rest of the step."""

from types import SimpleNamespace

import pytest
import torch

from bench import costs
from bench.products import Recorded
from disent_core.matmul import use_onednn

ROWS = torch.ones(2, 3)
WORKSPACE = SimpleNamespace(
    config=SimpleNamespace(methods_of=lambda encoder: [SimpleNamespace(name="toy", method="toy")])
)


def multiply(times: int) -> None:
    for _ in range(times):
        ROWS @ ROWS.T


def step(stage, **columns):
    row = {"asset": f"{stage}/toy", "encoder": "tiny", "method": "toy", "partition": "en", "texts": None, "steps": None}
    return {**row, "stage": stage, "processor_seconds": 8.0, "peak_memory": 2_000_000, **columns}


@pytest.fixture
def counted(monkeypatch):
    """A product takes a second."""
    monkeypatch.setattr(Recorded, "seconds_alone", lambda self: float(self.counts.total()))


class Plan:
    """Ten texts, which are their places."""

    def __len__(self):
        return 10

    def of(self, places):
        return places


@pytest.mark.usefixtures("counted")
def test_the_cost_of_an_encoding_extrapolates_a_sample_of_texts(monkeypatch):
    def encode(texts, *, states):
        yield multiply(3 * len(texts))

    encoder = SimpleNamespace(load=lambda language: SimpleNamespace(encode=encode))
    monkeypatch.setattr(costs, "TEXTS", 4)
    monkeypatch.setattr(costs, "text_plan", lambda *of: Plan())
    monkeypatch.setattr(costs, "lazy_encoder", lambda *of: encoder)
    monkeypatch.setattr(costs, "tables_of", lambda *of: ())
    assert costs.products(WORKSPACE, step("embeddings", texts=20)) == 3 * 20


@pytest.mark.usefixtures("counted")
def test_the_cost_of_a_training_extrapolates_its_first_epoch(monkeypatch):
    def fit(data, settings, fit):
        for epoch in (1, 2):
            multiply(5)
            yield SimpleNamespace(steps=2 * epoch)

    run = SimpleNamespace(method="toy", settings=None, seeds=[0])
    monkeypatch.setattr(costs.heads, "head_and_data", lambda *of: (run, lambda: None))
    monkeypatch.setattr(costs, "trainer", lambda method: SimpleNamespace(fit=fit))
    assert costs.products(WORKSPACE, step("heads", steps=8)) == 5 / 2 * 8


@pytest.mark.parametrize(
    "row",
    [step("corpora", encoder=None), step("embeddings"), step("heads"), step("evaluation", method=None)],
    ids=["no encoder", "no texts", "no training", "no method"],
)
def test_a_step_without_products_has_no_share(row):
    assert costs.products(WORKSPACE, row) is None


def test_products_are_counted_and_timed_even_with_packed_weights():
    with Recorded() as recorded:
        multiply(7)
    assert recorded.counts.total() == 7
    assert recorded.seconds_alone() > 0
    layer = torch.nn.Linear(32, 32).bfloat16().requires_grad_(requires_grad=False)
    use_onednn(layer, 8, torch.bfloat16)
    with torch.inference_mode(), Recorded() as recorded:
        layer(torch.randn(8, 32).bfloat16())
    assert recorded.counts.total() == 1
    assert recorded.seconds_alone() > 0
