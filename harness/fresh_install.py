"""Do what a new user does, step by step, and tell how long each step takes; a step that goes wrong ends it.

    python harness/fresh_install.py [--python python3.11] [--folder FOLDER] [--output FILE.json] [--dist FOLDER]

First an environment with the wheel and no extra, from an index on this machine, which must stay small, run the Python
of README.md, and encode, search and classify by the model that disent comes with, within a minute in all. With `--dist`
that is all, for the wheels of a release, those of models too: `make release-test`. Else a new one with the extras and
what the locks pin (from the package index, so this needs the network), a site-packages that nobody may write, an empty
folder; then init, materialise, load, encode, export, the exported folder in a process that can't import disent, an
index, and a search. `make install-test` runs it. Processor time of the workers of `disent materialize` is not counted.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTION = "disent-embeddings"
PAIR = "en-de"
SELECTIONS = (['+key:"embeddings/scratch/scratch_states"'], ['+key:"heads/scratch/facet_head"', "--partition", PAIR])
HEAD = f"data/heads/scratch/facet/{PAIR}.safetensors"
TEXTS = ["wake me up at nine am on friday", "play some jazz on the kitchen speaker", "wake me up at ten", "call mum"]
QUERY, NEAREST = "wake me up at noon", "wake me up at ten"
ENCODE = """
import json, sys
import disent, numpy as np
head, texts, vectors = sys.argv[1:]
model = disent.load(head)
together = model.encode(json.loads(texts), "template")
alone = np.stack([model.encode(text, "template") for text in json.loads(texts)])
assert np.array_equal(alone, together), "a text has another vector alone"
np.save(vectors, together)
"""
ELSEWHERE = """
import json, sys
sys.modules |= dict.fromkeys(["disent", "disent_core", "disent_assets"])  # None: an import of them fails
import numpy as np
from sentence_transformers import SentenceTransformer
folder, texts, vectors = sys.argv[1:]
expected = np.load(vectors)
found = SentenceTransformer(folder, trust_remote_code=True, device="cpu").encode(json.loads(texts), task="template")
off = float(np.abs(found - expected).max() / np.abs(expected).max())
assert off < 1e-3, f"off by {off} of the largest value"  # disent reads token states as float16, as they are stored
"""
STATIC = """
import sys, time
began = time.process_time()
import disent
assert time.process_time() - began < 0.3, "the import takes too long"
model = disent.load()
request = "wake me up at nine am on friday"
texts = ["weck mich morgen um sieben", "pon un poco de jazz", "金曜の朝九時に起こして"]
assert model.encode(texts).shape == (3, model.dim)
(by_shape,), (by_values,) = (disent.search(request, texts, by=by, k=1) for by in ("shape", "values"))
assert by_shape.text != texts[1] and by_values.text == texts[2], (by_shape, by_values)
examples = {"alarm": ["wake me up at nine", "set an alarm for ten"], "music": ["play some jazz", "put on a song"]}
labels = [label for label, texts_of in examples.items() for _ in texts_of]
classifier = disent.Classifier(model).fit([text for of in examples.values() for text in of], labels)
assert list(classifier.predict(texts)) == ["alarm", "music", "alarm"]
assert not {"torch", "pyarrow", "pydantic"} & set(sys.modules)
"""
BASE_BYTES = 150e6
"""Most bytes that an installation without extras may take beside Python and pip."""
BASE_SECONDS = 60
"""Most wall-clock seconds for a new user to install the package, load its model, encode, search and classify."""
COMMAND_BYTES = 400e6
"""Most bytes that the commands and the search page may take, without torch."""
_PIN = re.compile(r"^[\w.-]+==[^\\\n]+", re.MULTILINE)


class Steps:
    """Runs commands and prints the wall-clock and processor seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}
        print(f"{'step':<46}{'seconds':>9}{'processor':>11}", flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began, used = time.monotonic(), _used()
        yield
        self.seconds[name] = {"seconds": time.monotonic() - began, "processor": _used() - used}
        print(f"{name:<46}{self.seconds[name]['seconds']:>9.1f}{self.seconds[name]['processor']:>11.1f}", flush=True)

    def total(self) -> None:
        whole = [sum(of_step[kind] for of_step in self.seconds.values()) for kind in ("seconds", "processor")]
        print(f"{'all':<46}{whole[0]:>9.1f}{whole[1]:>11.1f}")


def _used() -> float:
    """Return the processor time of the commands that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command as a user without any settings of this project; return its output.

    Raises:
        SystemExit: if it fails, with its output.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DISENT_", "DAGSTER_"))}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def pins() -> str:
    """Return the locked versions without their hashes, as the wheel has none."""
    locks = [(ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8") for name in ("test", "torch")]
    return "".join(f"{pin.strip()}\n" for lock in locks for pin in _PIN.findall(lock))


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def index(wheels: Path) -> Iterator[str]:
    """Serve a folder's wheels as a local package index for pip, and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        for wheel in wheels.glob("*.whl"):
            place = Path(folder, "simple", wheel.name.partition("-")[0].replace("_", "-"))
            place.mkdir(parents=True)
            shutil.copy(wheel, place)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple/"
        finally:
            server.shutdown()
            server.server_close()


def version() -> str:
    """Return the version of this checkout."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def install(folder: Path, python: str, steps: Steps) -> Path:
    """Install the wheel into a new environment; return its folder of programs."""
    with steps.step("wheel"):
        run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder / "dist"], ROOT)
    with steps.step("python -m venv"):
        run([python, "-m", "venv", folder / "venv"], folder)
    with index(folder / "dist") as address:
        pip = try_without_extras(folder, python, address, steps)
        with steps.step("pip install 'disent-embeddings[lineage,export]'"):
            wanted = f"{DISTRIBUTION}[lineage,export]=={version()}"
            run([folder / "venv" / "bin" / "pip", *pip, wanted], folder)
    return folder / "venv" / "bin"


def try_without_extras(folder: Path, python: str, address: str, steps: Steps) -> Sequence[str | Path]:
    """Use a static model with nothing installed but the wheel and its dependencies; return pip's arguments."""
    constraints = folder / "constraints.txt"
    constraints.write_text(pins(), encoding="utf-8")
    pip = ["install", "--constraint", constraints, "--extra-index-url", address]
    base = folder / "base"
    run([python, "-m", "venv", base], folder)
    (packages,) = (base / "lib").glob("python*/site-packages")
    before = _bytes(packages)
    with steps.step("pip install disent-embeddings, without extras"):
        run([base / "bin" / "pip", *pip, f"{DISTRIBUTION}=={version()}"], folder)
    if (size := _bytes(packages) - before) > BASE_BYTES:
        raise SystemExit(f"without extras {size / 1e6:.0f} MB are installed, more than {BASE_BYTES / 1e6:.0f}")
    with steps.step(f"load, encode, search, classify; {size / 1e6:.0f} MB"):
        run([base / "bin" / "python", "-c", STATIC], folder)
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
        run([base / "bin" / "python", "-c", "\n".join(blocks)], folder)
    clock, used = (sum(step[kind] for step in [*steps.seconds.values()][-2:]) for kind in ("seconds", "processor"))
    first = f"{clock:.0f} s of the clock, {used:.0f} s of the processor and {size / 1e6:.0f} MB"
    print(f"from pip to predictions: {first}", flush=True)
    if clock > BASE_SECONDS:
        cause = "the machine was busy or the network slow: try again" if used < BASE_SECONDS else "on this processor"
        raise SystemExit(f"from pip to predictions {first}, more than {BASE_SECONDS} s; {cause}")
    done = subprocess.run([base / "bin" / "disent"], capture_output=True, text=True, check=False)
    if done.returncode != 2 or "pip install 'disent-embeddings[cli]'" not in done.stderr:
        raise SystemExit(f"disent without extras: {done.stdout}{done.stderr}")
    with steps.step("pip install 'disent-embeddings[serve]'"):
        run([base / "bin" / "pip", *pip, f"{DISTRIBUTION}[serve]=={version()}"], folder)
    if (size := _bytes(packages) - before) > COMMAND_BYTES:
        raise SystemExit(f"with the extra serve {size / 1e6:.0f} MB are installed, over {COMMAND_BYTES / 1e6:.0f}")
    (folder / "log.txt").write_text("wake me up at nine\nspiel etwas jazz\nwake me up at ten\n", encoding="utf-8")
    with steps.step(f"disent models, index, search, shapes; {size / 1e6:.0f} MB"):
        for words in (["models"], ["index", "log.txt", "log"], ["search", "log", "play jazz"], ["shapes", "log.txt"]):
            run([base / "bin" / "disent", *words], folder)
        run([base / "bin" / "python", "-c", "import disent_assets.web.search_page.app"], folder)
    return pip


def try_release(folder: Path, python: str, wheels: Path, steps: Steps) -> None:
    """Use the wheels of a release, installed by name from an index."""
    with index(wheels) as address:
        pip = try_without_extras(folder, python, address, steps)
        for wheel in wheels.glob("disent_*.whl"):
            name = wheel.name.partition("-")[0]
            if name != DISTRIBUTION.replace("-", "_"):
                with steps.step(f"{name}, a model"):
                    run([folder / "base" / "bin" / "pip", *pip, f"{name}=={version()}"], folder)
                    load = f"import disent; disent.load('{name.removeprefix('disent_')}').encode('wake me up')"
                    run([folder / "base" / "bin" / "python", "-c", load], folder)


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def read_only(packages: Path) -> Iterator[None]:
    """Remove write permission, and check that nothing was written, as an administrator could still write."""
    before = _change_times(packages)
    run(["chmod", "-R", "a-w", packages], packages)
    try:
        yield
    finally:
        run(["chmod", "-R", "u+w", packages], packages)
    if _change_times(packages) != before:
        raise SystemExit("something was written into site-packages")


def _change_times(packages: Path) -> dict[Path, int]:
    paths = (path for name in ("disent", "disent_core", "disent_assets") for path in (packages / name).rglob("*"))
    return {path: path.stat().st_mtime_ns for path in paths}


def use(programs: Path, folder: Path, steps: Steps) -> None:
    """Run the steps from an empty folder to a search."""
    disent, python, project = programs / "disent", programs / "python", folder / "mine"
    vectors, texts = folder / "vectors.npy", json.dumps(TEXTS)
    with steps.step("disent init"):
        run([disent, "init", project], folder)
    with steps.step("disent materialize, one head and what it needs"):
        for selection in SELECTIONS:
            run([disent, "materialize", *selection], project)
    with steps.step("disent.load(HEAD).encode(TEXTS)"):
        run([python, "-c", ENCODE, HEAD, texts, vectors], project)
    with steps.step("disent export"):
        run([disent, "export", HEAD, "exported"], project)
    with steps.step("SentenceTransformer(FOLDER), without disent"):
        run([python, "-c", ELSEWHERE, project / "exported", texts, vectors], folder)
    (project / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    with steps.step("disent index"):
        run([disent, "index", "texts.txt", "index", "--head", HEAD], project)
    with steps.step("disent search"):
        answer = run([disent, "search", "index", QUERY, "--by", "template", "-k", "1", "--format", "json"], project)
    if NEAREST not in answer:
        raise SystemExit(f"{QUERY!r} found {answer}")


def main() -> None:
    """Run all steps in a temporary folder, or in a given one, which is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="makes the environment")
    parser.add_argument("--folder", type=Path, help="where; it is kept")
    parser.add_argument("--output", type=Path, help="seconds of each step as JSON")
    parser.add_argument("--dist", type=Path, help="wheels of a release to try, in place of building one")
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="disent-install-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    steps = Steps()
    try:
        if options.dist is not None:
            try_release(folder, options.python, options.dist, steps)
        else:
            programs = install(folder, options.python, steps)
            (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
            with read_only(packages):
                use(programs, folder, steps)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    steps.total()
    if options.output is not None:
        record = {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0)), "steps": steps.seconds}
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
