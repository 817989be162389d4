"""Any file is read or refused with an error of the project. `make fuzz` tries longer."""

import contextlib
import logging
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disent_core.errors import DisentError
from harness.fuzz.mutate import mutated
from harness.fuzz.run import inputs, try_inputs, write
from harness.fuzz.targets import MASSIVE, TARGETS

HEADS = ("exported_folder", "head", "index")
"""Records that name modules, settings and files: in most mutations they are signed as by their maker."""


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_original_files_are_valid_and_mutated_ones_are_read_or_refused(tmp_path, name):
    write(TARGETS[name].files, tmp_path / "as they are")
    TARGETS[name].read(tmp_path / "as they are")
    count = 100 if name in HEADS else 60
    assert try_inputs(TARGETS[name], tmp_path / "in", 1, range(1, 1 + count)).failures == {}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", TARGETS)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, name, content):
    target = TARGETS[name]
    write({**target.files, next(iter(target.files)): content}, tmp_path / "in")
    with contextlib.suppress(DisentError):
        target.read(tmp_path / "in")


FINDINGS: dict[str, tuple[str, int] | tuple[str, int, int]] = {
    # Failures that fuzzing found: target and input, of seed 0 or the one that follows
    "JSON nested without end": ("massive", 597),
    "half a character in JSON": ("massive", 1054),
    "half a character in a table": ("intents", 1198),
    "a number in a header of an archive": ("archive", 25),
    "a header that claims all memory": ("archive", 37),
    "the same of a packed archive": ("archive", 88),
    "a header of an archive that is no text": ("archive", 477),
    "a line of very many letters": ("sts", 39),
    "columns of one name": ("mlqe", 6162),
    "columns of one name, in a number": ("mlqe", 2104),
    "a header of an array that does not end": ("vectors_npy", 15),
    "a header of an array with odd keys": ("vectors_npy", 345),
    "a header of an array that is no Python": ("vectors_npy", 1764),
    "texts that are numbers": ("vectors_parquet", 2),
    "languages that are numbers": ("vectors_parquet", 4),
    "a folder named like a file": ("published", 7),
    "metadata of Parquet that end the process": ("intents_parquet", 815, 100),
    "a matrix of more rows than numbers can count": ("vectors_npy", 1590, 106),
    "a module in thousands of packages": ("config", 4211, 106),
}


@pytest.mark.parametrize("what", FINDINGS)
def test_earlier_findings_stay_fixed(tmp_path, what):
    name, number, *seeds = FINDINGS[what]
    seed = seeds[0] if seeds else 0
    assert try_inputs(TARGETS[name], tmp_path / "in", seed, range(number, number + 1)).failures == {}


def test_inputs_are_the_same_for_the_same_seed():
    first, same, of_other_seed = (
        [files for _, files in inputs(TARGETS["xsid"], seed, range(1, 20))] for seed in (3, 3, 4)
    )
    assert first == same != of_other_seed


def test_a_failure_is_reported_with_its_place(tmp_path):
    def broken(folder):
        raise KeyError(folder)

    target = TARGETS["massive"]
    result = try_inputs(type(target)(name="massive", files=MASSIVE, read=broken), tmp_path / "in", 0, range(3))
    assert result.failures == {"KeyError at ": "0"}


def test_mutations_change_files():
    rng = random.Random(0)
    assert sum(mutated(MASSIVE, rng) != MASSIVE for _ in range(100)) > 90
