"""The message of a run that fails unexpectedly, or for a check that blocks."""

import json

import dagster as dg
import pytest

from disent_assets.factory import spec, step_asset, table_asset
from disent_assets.failures import place_of, told_by_key
from disent_assets.plan import plan
from disent_assets.resources import open_workspace
from disent_assets.run_step import run_step
from disent_assets.status import states
from disent_core.experiment.result import Check, StepResult

KEY = ("corpora", "toy")
LIBRARY = '  File "/env/lib/python3.11/site-packages/numpy/core.py", line 9, in dot\n    x\n'
OF_USER = '  File "/home/user/package/reader.py", line 7, in read_utterances\n    y\n'
OF_DISENT = '  File "/env/lib/python3.11/site-packages/disent_core/experiment/corpora.py", line 5, in make\n    z\n'
FROZEN = '  File "<frozen importlib._bootstrap>", line 241, in _call\n'


def message_of(asset) -> str:
    definitions = dg.Definitions(assets=[asset])
    (step,) = plan(definitions)
    with dg.DagsterInstance.ephemeral() as instance:
        failure = run_step(definitions, step, instance).failure
    assert failure is not None
    return failure


def test_an_unexpected_error_is_shown_with_the_place_of_the_user_s_code():
    def of_user(partition):
        return json.loads("no json")

    message = message_of(step_asset([spec(KEY, "Toy.", code_version="1")], of_user))
    assert message.startswith("json.decoder.JSONDecodeError: Expecting value")
    assert f"({__file__}:{of_user.__code__.co_firstlineno + 1}, in of_user)" in message
    assert message.endswith("For the traceback run disent --debug materialize")


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        ([OF_DISENT, OF_USER, LIBRARY, FROZEN], "/home/user/package/reader.py:7, in read_utterances"),
        ([LIBRARY, OF_DISENT, LIBRARY], "site-packages/disent_core/experiment/corpora.py:5, in make"),
        ([LIBRARY], "site-packages/numpy/core.py:9, in dot"),
    ],
)
def test_the_place_is_the_innermost_that_is_not_of_a_library(stack, place):
    shown = place_of(stack)
    assert shown is not None
    assert shown.endswith(place)


def test_an_error_without_frames_has_no_place():
    assert place_of([]) is None


def test_a_failed_check_is_described_with_its_asset_condition_and_figures():
    unique = Check("ids_are_unique", "No id occurs twice.", True)
    passing = Check("has_rows", "It has rows.", True)

    def refresh(partition):
        checks = (unique.result(False, repeated=3), passing.result(True))
        return StepResult(rows=1, content="0", is_reused=False, checks=checks)

    asset = table_asset(spec(KEY, "Toy.", code_version="1"), refresh, checks=[unique, passing])
    assert message_of(asset) == (
        "corpora: check ids_are_unique of corpora/toy failed (repeated = 3); expected: No id occurs twice. "
        "Nothing downstream is made until the data is corrected"
    )


def test_status_calls_a_failed_check_by_its_condition_and_figures(tmp_path):
    unique = Check("ids_are_unique", "No id occurs twice.", True)

    def refresh(partition):
        return StepResult(rows=1, content="0", is_reused=False, checks=(unique.result(False, repeated=3),))

    definitions = dg.Definitions(assets=[table_asset(spec(KEY, "Toy.", code_version="1"), refresh, checks=[unique])])
    workspace = open_workspace({"DISENT_HOME": str(tmp_path)})
    with dg.DagsterInstance.ephemeral() as instance:
        run_step(definitions, plan(definitions)[0], instance)
        (state,) = states(workspace, definitions, instance)
    assert (state.status, state.is_settled) == ("failed", False)
    assert state.causes == ("check ids_are_unique of corpora/toy failed (repeated = 3); expected: No id occurs twice",)


@pytest.mark.parametrize(
    ("path", "what", "told"),
    [
        ("tables/targets/aligned_pairs/en-de.parquet", "table", "targets/aligned_pairs [en-de] has not been made. "
         "Run disent materialize +targets --partition en-de"),
        ("tables/corpora/utterances/sample/en.parquet", "table", "corpora/utterances [en] has not been made. "
         "Run disent materialize +corpora --partition en"),
        ("heads/own/dream/en-de.safetensors", "head", "heads/own/dream_head [en-de] has not been made. "
         "Run disent materialize +heads --partition en-de"),
    ],
)  # fmt: skip
def test_an_input_that_is_missing_is_told_by_its_key_and_the_command_that_makes_it(path, what, told):
    message = f"/home/of user/tables/{path}: this {what} does not exist. Materialise its asset first"
    assert told_by_key(message) == told


def test_other_messages_stay_as_they_are():
    assert (
        told_by_key("/data/tables/corpora/x.jsonl:7: this is no JSON")
        == "/data/tables/corpora/x.jsonl:7: this is no JSON"
    )
