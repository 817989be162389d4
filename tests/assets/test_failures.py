"""The message of a run or a command that fails: an error that a user can correct, a bug, a check that blocks."""

import errno
import json
import os
import threading
from dataclasses import replace

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from toy_steps import RESULT, toy_step

from disent_assets.cli.group import Command
from disent_assets.lineage import factory
from disent_assets.lineage.factory import step_asset
from disent_assets.lineage.metadata import user_errors
from disent_assets.run.error_messages import with_asset
from disent_assets.run.plan import steps_of
from disent_assets.run.step import compute
from disent_assets.settings.environment import open_workspace
from disent_core.errors import CorpusError, TransientError
from disent_core.lineage.result import Check


def message_of(declared) -> str:
    workspace = open_workspace({"DISENT_HOME": "home"})
    (step,) = steps_of(workspace, dg.Definitions(assets=[step_asset(declared)]), [declared])
    failure = compute(workspace, step, None).failure
    assert failure is not None
    return failure


def test_an_unexpected_error_is_shown_with_the_place_of_the_user_s_code():
    def of_user(partition):
        return json.loads("no json")

    message = message_of(toy_step(make=of_user))
    assert message.startswith("json.decoder.JSONDecodeError: Expecting value")
    assert f"({__file__}:{of_user.__code__.co_firstlineno + 1}, in of_user)" in message
    assert message.endswith("For the traceback run disent --debug materialize")


def test_a_failed_check_is_described_with_its_asset_condition_and_figures():
    unique = Check("ids_are_unique", "No id occurs twice.", True)
    passing = Check("has_rows", "It has rows.", True)

    def refresh(partition):
        checks = (unique.result(False, repeated=3), passing.result(True))
        return replace(RESULT, checks=checks)

    assert message_of(toy_step(make=refresh, checks=(unique, passing))) == (
        "corpora/toy: check ids_are_unique of corpora/toy failed (repeated = 3); expected: No id occurs twice. "
        "Nothing downstream is made until the data is corrected"
    )


@pytest.mark.parametrize(
    ("path", "what", "expected"),
    [
        ("tables/targets/aligned_pairs/en-de.parquet", "table", "targets/aligned_pairs [en-de] has not been made. "
         "Run disent materialize +targets --partition en-de"),
        ("tables/corpora/utterances/sample/en.parquet", "table", "corpora/utterances [en] has not been made. "
         "Run disent materialize +corpora --partition en"),
        ("heads/own/dream/en-de.safetensors", "head", "heads/own/dream_head [en-de] has not been made. "
         "Run disent materialize +heads --partition en-de"),
    ],
)  # fmt: skip
def test_a_missing_input_error_names_the_asset_and_the_command_to_make_it(path, what, expected):
    message = f"/home/of user/tables/{path}: this {what} does not exist. Materialise its asset first"
    assert with_asset(message) == expected


def test_other_messages_are_unchanged():
    assert (
        with_asset("/data/tables/corpora/x.jsonl:7: this is not valid JSON")
        == "/data/tables/corpora/x.jsonl:7: this is not valid JSON"
    )


# --- errors that a user can correct ---


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CorpusError("de.jsonl:7: it is cut short. Correct it"), r"^de\.jsonl:7: it is cut short\. Correct it$"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
            r"^out of GPU memory \(CUDA out of memory\)\. Lower batch_size .*set device to 'cpu'$",
        ),
        (MemoryError(), r"^out of memory\. Lower batch_size"),
        (RuntimeError("can't start new thread"), r"^no process or thread can be started\. .*ulimit -u"),
    ],
)
def test_an_error_is_one_line_with_a_remedy_and_is_not_retried(error, message):
    with pytest.raises(dg.Failure) as raised, user_errors():
        raise error
    assert raised.value.description is not None
    assert not raised.value.allow_retries
    raised.match(message)


def _fail(number: int, file: str | None = None) -> None:
    raise OSError(number, os.strerror(number), *([file] if file else []))


RUN_OUT = {
    "memory of torch": (
        lambda: torch.empty(1 << 50),
        "out of memory. End other programs, or raise the limit (ulimit -v",
    ),
    "memory of numpy": (lambda: np.empty(1 << 50), "out of memory. "),
    "memory of pyarrow": (lambda: pa.allocate_buffer(1 << 50), "out of memory. "),
    "memory of the system": (lambda: _fail(errno.ENOMEM), "out of memory. "),
    "processes": (lambda: _fail(errno.EAGAIN), "no process or thread can be started. "),
    "threads": (lambda: threading.Thread().start(), "no process or thread can be started. "),
    "files": (lambda: _fail(errno.EMFILE, "a"), "a: too many files are open in this process. "),
    "locks": (lambda: _fail(errno.ENOLCK, "a"), "a: it can't be locked. Mount its folder with locks"),
    "a disk": (lambda: _fail(errno.ENOSPC, "a"), "a: no space left for this file ("),
    "permissions": (lambda: _fail(errno.EACCES, "a"), "a: permission denied. Change its permissions"),
}


@pytest.mark.parametrize("what", RUN_OUT)
def test_a_command_that_hits_a_machine_limit_ends_with_one_line(what, monkeypatch):
    fail, line = RUN_OUT[what]
    monkeypatch.setattr("threading.Thread.start", _fail_to_start)
    done = CliRunner().invoke(Command("fails", callback=fail))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"disent: {line}")
    assert done.stderr.count("\n") == 1


def test_a_library_in_rust_that_can_start_no_thread_is_one_line():
    class PanicException(BaseException):
        """As PyO3 has it."""

    def fail():
        raise PanicException('failed to spawn: Os { code: 11, message: "Resource temporarily unavailable" }')

    done = CliRunner().invoke(Command("fails", callback=fail))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("disent: no process or thread can be started. ")


def test_a_bug_is_shown_with_its_traceback():
    done = CliRunner().invoke(Command("fails", callback=lambda: _fail(errno.EBADF, "a")))
    assert isinstance(done.exception, OSError)


def _fail_to_start(*_: object) -> None:
    raise RuntimeError("can't start new thread")


AWAY = TransientError("s3://bucket/key: the store does not answer. Start it again")


@pytest.mark.parametrize("error", [KeyError("a bug"), RuntimeError("a bug"), CorpusError("bad data"), AWAY])
def test_a_failed_step_is_retried_only_after_a_store_outage(monkeypatch, error):
    monkeypatch.setattr(factory, "LOST_PROCESS", factory.LOST_PROCESS._replace(delay=0.01))
    tries = []

    def run(_):
        tries.append(1)
        raise error

    assert not dg.materialize([step_asset(toy_step(make=run))], raise_on_error=False).success
    assert len(tries) == 1 + (factory.LOST_PROCESS.max_retries if error is AWAY else 0)
