"""Write and check folders of every kind: their output on the probes has to be that of the head itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disent_core.encoders.kinds.huggingface import PACKAGE_PREFIX
from disent_core.errors import DamagedError, TrainingError, located
from disent_core.export.card import Measured
from disent_core.export.encoder import ExportedEncoder
from disent_core.export.onnx_graph import GRAPH, Graph, TaggerGraph, write_graph
from disent_core.export.record import CARD, write_record
from disent_core.export.routes import refusal
from disent_core.export.saved_folder import index_weights
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.spec import ENCODER_CONFIG
from disent_core.storage.files import atomic_path

PROBES = (
    "",
    "a",
    "wake me up at nine on friday",
    "weck mich am freitag um neun auf",
    "despiértame el viernes a las nueve",
    "金曜日の九時に起こして",
    "Play 'So What' (live), please!",
    " ".join(["what is the weather in rome"] * 40),
)
"""Texts whose vectors a folder has to reproduce: empty, short, in several scripts, longer than an encoder reads."""
SENTENCES = (*(tuple(text.split()) for text in PROBES if text), tuple("金曜日の九時"))
"""Sentences whose tags a folder has to reproduce: the words of the probes, and the characters of one."""

Vectors = Mapping[str, Float[np.ndarray, "texts _"]]
"""Vectors of texts by route; of a tagger its `logits`, of words."""
TOLERANCE = 2e-6
"""Largest difference to the head's own vectors, as a share of their largest value."""
ELSEWHERE = 1e-4
"""The same for a folder on another machine, whose processor may round in another order."""


def difference_of(own: Vectors, other: Vectors) -> float:
    """Return the largest difference of any route, as a share of its own largest value."""
    return max(float(np.abs(own[name] - other[name]).max() / max(np.abs(own[name]).max(), 1e-12)) for name in own)


@dataclass(frozen=True)
class Outputs:
    """How the folders of one kind compute their output on the probes.

    Attributes:
        what: name of the output in messages, `vectors` or `logits`.
        library: libraries that compute it.
        own: the head's own output.
        of_folder: the output of a folder.
        graph: the module of a folder that becomes its ONNX graph.
        graph_difference: largest difference of the graph's output to the head's own.
    """

    what: str
    library: str
    own: Vectors
    of_folder: Callable[[Path], Vectors]
    graph: Callable[[Path], Graph | TaggerGraph]
    graph_difference: Callable[[Path], float]


@dataclass(frozen=True)
class Written:
    """Largest differences of a written folder and of its ONNX graph, if it has one, to the head's own output."""

    difference: float
    graph_difference: float | None


def write_compared(
    head: SavedHead,
    folder: Path,
    outputs: Outputs,
    write: Callable[[Path], None],
    record: Mapping[str, Any],
    card: str,
    *,
    onnx: bool,
) -> Written:
    """Write a folder; it appears whole, and only if its output is that of the head.

    Args:
        head: the head.
        folder: a folder that does not exist yet.
        outputs: of this kind of folder.
        write: writes the model.
        record: of the folder; it gets the places of the weights and the checksums of all files.
        card: text of the model card.
        onnx: whether the folder gets an ONNX graph too.
    """
    with atomic_path(folder.resolve()) as temporary:
        write(temporary)
        difference = difference_of(outputs.own, outputs.of_folder(temporary))
        if not difference <= TOLERANCE:
            raise refusal(head, f"its {outputs.what} would differ by {difference:.1e} of their largest value")
        graph_difference = _write_graph(temporary, head, outputs) if onnx else None
        write_record(temporary, {**record, "weights": index_weights(temporary, head, record["seed"])})
        (temporary / CARD).write_text(card, encoding="utf-8")
    return Written(difference, graph_difference)


def _write_graph(folder: Path, head: SavedHead, outputs: Outputs) -> float:
    from torch.onnx import OnnxExporterError

    try:
        write_graph(outputs.graph(folder), folder / GRAPH)
        difference = outputs.graph_difference(folder)
    except (OnnxExporterError, ValueError, RuntimeError) as error:
        raise _without_graph(head, str(error).partition("\n")[0]) from error
    if not difference <= TOLERANCE:
        raise _without_graph(head, f"its {outputs.what} would differ by {difference:.1e} of their largest value")
    return difference


def _without_graph(head: SavedHead, reason: str) -> TrainingError:
    problem = f"{head.path}: {head.description['name']} can't be one ONNX graph: {reason}"
    return TrainingError(f"{problem}. Export it without the graph")


def check_compared(folder: Path, outputs: Outputs) -> bool | None:
    """Compare the output of a folder, whose files have been checked, with that at the export.

    Returns:
        Whether its ONNX graph was run, which needs onnxruntime; None if it has none.
    """
    _require_equal(folder, difference_of(outputs.own, outputs.of_folder(folder)), outputs)
    if not (folder / GRAPH).is_file():
        return None
    has_runtime = find_spec("onnxruntime") is not None
    if has_runtime:
        _require_equal(folder / GRAPH, outputs.graph_difference(folder), replace(outputs, library="onnxruntime"))
    return has_runtime


def _require_equal(path: Path, difference: float, outputs: Outputs) -> None:
    if not difference <= ELSEWHERE:
        problem = f"its {outputs.what} differ by {difference:.1e} of their largest value from those at the export"
        raise DamagedError(located(path, None, problem, f"Check the version of {outputs.library}"))


def exact_head(head: SavedHead) -> SavedHead:
    """Return the head on the CPU, with all products in float32."""
    settings: Any = head.settings
    if getattr(settings, "precision", "float32") != "float32":
        settings = replace(settings, precision="float32")
    return replace(head, device="cpu", source=replace(head.source, device="cpu"), settings=settings)


def described(
    head: SavedHead, seed: int | None, encoder: ExportedEncoder, measured: Sequence[Measured]
) -> dict[str, Any]:
    """Return the part of a record that names the head of a folder, and the settings of its encoder."""
    return {
        "description": _of_seed(head.description, seed),
        "fingerprint": head.content,
        "seed": seed,
        "encoder": encoder.described(),
        "measured": [asdict(row) for row in measured],
    }


def _of_seed(description: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Return the description of a head of one seed, without the path of its encoder."""
    encoder = dict(description[ENCODER_CONFIG])
    if not str(encoder.get("path")).startswith(PACKAGE_PREFIX):
        encoder.pop("path", None)
    seeds = {} if seed is None else {"seeds": [seed]}
    of_seed = description.get("of_seed", {}).get(str(seed))
    return {**description, **seeds, ENCODER_CONFIG: encoder} | ({"of_seed": {str(seed): of_seed}} if of_seed else {})
