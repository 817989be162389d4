"""What needs no Unix works where its modules and functions do not exist, as under Windows (see `no_unix`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def without_unix(folder, code, *, fails=False):
    """Run code in a process without what only Unix has, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}", "OMP_NUM_THREADS": "1"}
    for name in ("DISENT_HOME", "DISENT_CONFIG", "DISENT_WORKERS"):
        environment.pop(name, None)
    command = [sys.executable, "-W", "ignore", "-c", f"import no_unix\n{code}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("requests") / "t.csv"
    verbs = {"alarm": ("wake me at", "weck mich um"), "music": ("play", "spiel"), "call": ("call", "ruf an")}
    rows = ["en,de,intent,split"]
    for intent, (english, german) in verbs.items():
        for number, word in enumerate(("six", "seven", "eight", "nine", "ten", "jazz", "rock", "blues", "bob", "ann")):
            split = ("train", "train", "train", "dev", "test")[number % 5]
            rows.append(f"{english} [what : {word}],{german} [what : {word}],{intent},{split}")
    path.write_text("\n".join(rows) + "\n")
    return path


MAIN = "from disent_assets.cli import main\nmain({}, standalone_mode=False)\n"


def test_a_lineage_is_made_and_a_model_is_trained_loaded_and_searched_and_classifies(tmp_path, table):
    code = (
        MAIN.format(["init", "project", "--from", str(table)])
        + "import os\nos.environ |= {'DISENT_CONFIG': 'project/disent.toml', 'DISENT_HOME': 'project/data'}\n"
        + MAIN.format(["materialize", "corpora"])
        + MAIN.format(["train", str(table), "mine"])
        + """
import disent
model = disent.load("mine")
assert model.encode(["wake me at six"]).shape[0] == 1
for _ in range(2):  # the second takes the place of the first, which may be open
    index = disent.Index.build("index", model, ["play jazz", "wake me at nine"], language="en")
again = disent.Index.open("index", head=model)
assert again.search("play rock", k=1)[0].text == "play jazz"
classifier = disent.Classifier(model).fit(["play jazz", "wake me", "play rock", "wake bob"], ["music", "alarm"] * 2)
classifier.save("labels")
assert list(disent.Classifier.load("labels", model).predict(["play blues"])) == ["music"]
"""
    )
    without_unix(tmp_path, code)


WRITES = """
from pathlib import Path
from disent_core.storage import files
from disent_core.storage.locks import is_shared, shared, take
path = Path("folder", "file")
"""


def test_files_are_written_whole_and_leftovers_of_killed_processes_are_removed(tmp_path):
    leftovers = [tmp_path / "folder" / f".file.{'0' * 32}.tmp", tmp_path / "folder" / f".file.{'1' * 32}.tmp"]
    leftovers[0].parent.mkdir()
    for file in leftovers:
        file.write_text("half")
    code = (
        WRITES
        + f"""
with take(Path("folder", "{leftovers[1].name}.lock")):  # its writer lives
    with files.recorded_path(path) as temporary:
        temporary.write_text("whole")
    assert path.read_text() == "whole" and len(files.read_manifest(path)) == 1
    with files.replacing_folder(Path("many")) as many:
        many.mkdir()
        (many / "a").write_text("a")
files.check_locks(Path())
"""
    )
    without_unix(tmp_path, code)
    assert [file.exists() for file in leftovers] == [False, True]
    assert not [*tmp_path.rglob("*.lock")]


def test_locks_keep_others_out_and_end_with_their_process(tmp_path):
    code = (
        WRITES
        + """
import multiprocessing, os, subprocess, sys
other = [sys.executable, "-W", "ignore", "-c", '''import no_unix, os
from pathlib import Path
from disent_core.storage.locks import is_shared, shared, take
try:
    with take(Path("lock"), wait=False):
        os._exit(0)  # as if it were killed
except BlockingIOError:
    print("locked", is_shared(Path("beside")))
''']
alone = []
with take(Path("lock")), shared(Path("beside"), lambda: alone.append(1)):
    with shared(Path("beside"), lambda: alone.append(2)):
        assert subprocess.check_output(other, text=True) == "locked True\\n"
assert alone == [1]
assert not is_shared(Path("beside"))
subprocess.check_call(other)
with take(Path("lock")):
    pass
"""
    )
    without_unix(tmp_path, code)


def test_writing_a_file_in_use_is_retried_briefly_and_then_fails(tmp_path):
    code = (
        WRITES
        + """
import os
from disent_core.errors import StorageError
real, tries = os.replace, []
def busy(a, b):
    tries.append(a)
    if len(tries) < 3 or len(tries) > 3:
        raise PermissionError(13, "in use", str(b))
    real(a, b)
os.replace = busy
files.write_text(path, "text")
assert path.read_text() == "text" and len(tries) == 3
try:
    files.write_text(path, "new")
except StorageError as error:
    assert "file: another program has it open" in str(error), error
else:
    raise AssertionError
assert path.read_text() == "text" and [*Path("folder").iterdir()] == [path]
"""
    )
    without_unix(tmp_path, code)


def test_unix_only_features_fail_with_one_clear_line(tmp_path):
    assert "`disent dev` needs Linux or macOS" in without_unix(tmp_path, MAIN.format(["dev"]), fails=True)
    code = "from disent_assets.run.workers import Processes\nProcesses(None, 2, None)"
    assert "several workers need Linux or macOS" in without_unix(tmp_path, code, fails=True)
