"""The message of a step for an error that a user can correct."""

import dagster as dg
import pytest
import torch
from toy_steps import toy_step

from disent_assets.lineage import factory
from disent_assets.lineage.factory import step_asset
from disent_assets.lineage.metadata import user_errors
from disent_core.errors import CorpusError, TransientError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CorpusError("de.jsonl:7: it is cut short. Correct it"), r"^de\.jsonl:7: it is cut short\. Correct it$"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
            r"^out of GPU memory \(CUDA out of memory\)\. Lower batch_size .*set device to 'cpu'$",
        ),
        (MemoryError(), r"^out of memory\. Lower batch_size"),
    ],
)
def test_an_error_is_one_line_with_a_remedy_and_is_not_retried(error, message):
    with pytest.raises(dg.Failure) as raised, user_errors():
        raise error
    assert raised.value.description is not None
    assert not raised.value.allow_retries
    raised.match(message)


@pytest.mark.parametrize("error", [KeyError("a bug"), RuntimeError("a bug"), CorpusError("bad data")])
def test_a_step_that_fails_is_not_tried_again(error):
    tries = []

    def run(_):
        tries.append(1)
        raise error

    asset = step_asset(toy_step(make=run))
    assert not dg.materialize([asset], raise_on_error=False).success
    assert tries == [1]


def test_a_step_whose_store_was_away_for_too_long_is_tried_again(monkeypatch):
    monkeypatch.setattr(factory, "LOST_PROCESS", factory.LOST_PROCESS._replace(delay=0.01))
    tries = []

    def run(_):
        tries.append(1)
        raise TransientError("s3://bucket/key: the store does not answer. Start it again")

    assert not dg.materialize([step_asset(toy_step(make=run))], raise_on_error=False).success
    assert len(tries) == 1 + factory.LOST_PROCESS.max_retries
