"""Export a head as a folder, and check a folder against what it was when it was written."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.encoders.files import PACKAGE_PREFIX
from disent_core.errors import DamagedError, TrainingError, located
from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.card import Measured, card
from disent_core.export.encoder import ExportedEncoder, exact_encoder, exported_encoder
from disent_core.export.onnx_graph import GRAPH, graph_vectors, write_graph
from disent_core.export.probes import PROBES
from disent_core.export.record import CARD, checked_record, write_record
from disent_core.export.routes import Routes, refusal, routes_of
from disent_core.export.saved_folder import index_weights
from disent_core.export.transformers_folder import Vectors, folder_vectors, load_folder, write_folder
from disent_core.heads.identity import ENCODER_CONFIG
from disent_core.storage.atomic import atomic_path
from disent_core.training.features import features_of
from disent_core.training.needs import Need

TOLERANCE = 2e-6
"""Largest difference to the head's own vectors, as a share of their largest value."""
ELSEWHERE = 1e-4
"""The same for a folder on another machine, whose processor may round in another order."""


@dataclass(frozen=True)
class Exported:
    """A folder that was written.

    Attributes:
        folder: the folder.
        routes: what is in it.
        difference: largest difference to the head's own vectors, as a share of their largest value.
        graph_difference: the same of its ONNX graph; None if it has none.
    """

    folder: Path
    routes: Routes
    difference: float
    graph_difference: float | None = None


def export_head(
    head: SavedHead,
    folder: Path,
    *,
    seed: int | None,
    embeddings: Sequence[str] | None = None,
    measured: Sequence[Measured] = (),
    onnx: bool = False,
) -> Exported:
    """Write a head and its encoder as a folder that `SentenceTransformer(folder)` loads.

    Embeddings that its own modules do not compute need a module in the folder, and `trust_remote_code=True`.

    It appears whole or not at all: before it gets its name it is loaded once, and its vectors have to be the head's.

    Args:
        head: the head.
        folder: a folder that does not exist yet.
        seed: which of the head's seeds; None if its method is deterministic.
        embeddings: which of its routes; None: all that need no module in the folder or, if there are none, all.
        measured: what is known of the head's quality, for its card.
        onnx: whether the folder gets an ONNX graph too.

    Raises:
        TrainingError: if the head can't be exported, or has no ONNX graph, or the folder exists.
        ValueError: if it has no such route.
        EncoderError: if its encoder can't be loaded.
    """
    if folder.exists():
        raise TrainingError(located(folder, None, "this exists already", "Name a new folder"))
    head = _exact(head)
    encoder = exported_encoder(head, seed)
    routes = routes_of(head, seed, encoder.pooled).chosen(embeddings)
    own = _own_vectors(head, seed, routes)
    with atomic_path(folder.resolve()) as temporary:
        write_folder(temporary, encoder, routes)
        difference = _difference(own, folder_vectors(temporary, PROBES, list(routes.steps)))
        if not difference <= TOLERANCE:
            raise refusal(head, f"its vectors would differ by {difference:.1e} of their largest value")
        graph_difference = _write_graph(temporary, head, own, encoder) if onnx else None
        record = _record(head, seed, encoder, routes, own, measured)
        write_record(temporary, {**record, "weights": index_weights(temporary, head, seed)})
        (temporary / CARD).write_text(card(head, seed, routes, measured, onnx=onnx), encoding="utf-8")
    return Exported(folder, routes, difference, graph_difference)


@dataclass(frozen=True)
class Checked:
    """A folder that is as it was written.

    Attributes:
        routes: names of its routes.
        graph: whether its ONNX graph was run; None if it has none.
    """

    routes: tuple[str, ...]
    graph: bool | None


def check_folder(folder: Path) -> Checked:
    """Check an exported folder: its files, and that it gives the vectors that it gave when it was written.

    An ONNX graph is run where onnxruntime is installed.

    Raises:
        TrainingError: if it is no exported folder.
        DamagedError: if a file has changed or is missing, or the vectors are others.
    """
    record = checked_record(folder)
    own = {name: np.asarray(rows, dtype=np.float32) for name, rows in record["probes"]["vectors"].items()}
    texts = record["probes"]["texts"]
    difference = _difference(own, folder_vectors(folder, texts, list(own)))
    _require_equal(folder, difference, "torch and sentence-transformers")
    graph = find_spec("onnxruntime") is not None if (folder / GRAPH).is_file() else None
    if graph:
        difference = _graph_difference(folder, own, texts, record["encoder"]["max_length"])
        _require_equal(folder / GRAPH, difference, "onnxruntime")
    return Checked(tuple(own), graph)


def _require_equal(place: Path, difference: float, library: str) -> None:
    if not difference <= ELSEWHERE:
        problem = f"its vectors differ by {difference:.1e} of their largest value from those at the export"
        raise DamagedError(located(place, None, problem, f"Check the version of {library}"))


def _write_graph(folder: Path, head: SavedHead, own: Vectors, encoder: ExportedEncoder) -> float:
    """Write the graph of a folder, and return its difference to the head's own vectors."""
    from torch.onnx import OnnxExporterError

    try:
        write_graph(load_folder(folder), folder / GRAPH)
        difference = _graph_difference(folder, own, PROBES, encoder.config.max_length)
    except (OnnxExporterError, ValueError, RuntimeError) as error:
        raise _without_graph(head, str(error).partition("\n")[0]) from error
    if not difference <= TOLERANCE:
        raise _without_graph(head, f"its vectors would differ by {difference:.1e} of their largest value")
    return difference


def _without_graph(head: SavedHead, reason: str) -> TrainingError:
    problem = f"{head.path}: {head.description['name']} can't be one ONNX graph: {reason}"
    return TrainingError(f"{problem}. Export it without the graph")


def _graph_difference(folder: Path, own: Vectors, texts: Sequence[str], max_length: int) -> float:
    """Largest difference of an ONNX graph, of inputs of several shapes."""
    found = graph_vectors(folder, texts, max_length)
    return max(_difference({name: own[name][some] for name in own}, vectors) for some, vectors in found)


def _exact(head: SavedHead) -> SavedHead:
    """The head on the CPU, with all products in float32."""
    settings: Any = head.settings
    if getattr(settings, "precision", "float32") != "float32":
        settings = replace(settings, precision="float32")
    return replace(head, device="cpu", source=replace(head.source, device="cpu"), settings=settings)


def _own_vectors(head: SavedHead, seed: int | None, routes: Routes) -> Vectors:
    """The head's vectors of the probes by route; the encoder's states are float32, however they are stored."""
    encoder, trained = exact_encoder(head), head.trained
    states = Need.TOKEN_STATES in head.method.needs_of(head.settings)

    def embed(language: str) -> Any:
        return trained.embed(features_of(encoder, PROBES, language, states=states), seed)  # pyright: ignore[reportAttributeAccessIssue]

    if routes.by_language:
        return {language: embed(language)["sentence"] for language in routes.steps}
    embedded = embed("")
    return {name: embedded[name] for name in routes.steps}


def _difference(own: Vectors, found: Vectors) -> float:
    """Largest difference of any route, as a share of its own largest value."""
    return max(float(np.abs(own[name] - found[name]).max() / max(np.abs(own[name]).max(), 1e-12)) for name in own)


def _record(
    head: SavedHead,
    seed: int | None,
    encoder: ExportedEncoder,
    routes: Routes,
    own: Vectors,
    measured: Sequence[Measured],
) -> dict[str, Any]:
    return {
        "description": _of_seed(head.description, seed),
        "fingerprint": head.content,
        "seed": seed,
        "encoder": encoder.described(),
        "routes": list(routes.steps),
        "by_language": routes.by_language,
        "default": routes.default,
        "left_out": routes.left_out,
        "needs_code": routes.needs_code,
        "measured": [asdict(row) for row in measured],
        "probes": {"texts": PROBES, "vectors": {name: matrix.tolist() for name, matrix in own.items()}},
    }


def _of_seed(description: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """The description of a head of one seed, without the place on the disk where its encoder was."""
    encoder = dict(description[ENCODER_CONFIG])
    if not str(encoder.get("path")).startswith(PACKAGE_PREFIX):
        encoder.pop("path", None)
    seeds = {} if seed is None else {"seeds": [seed]}
    of_seed = description.get("of_seed", {}).get(str(seed))
    return {**description, **seeds, ENCODER_CONFIG: encoder} | ({"of_seed": {str(seed): of_seed}} if of_seed else {})
