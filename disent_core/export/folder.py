"""Export a head as a folder, and check a folder against what it was when it was written."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.errors import TrainingError, located
from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.card import Measured, card
from disent_core.export.comparing import (
    TOLERANCE,
    Vectors,
    described,
    difference_of,
    exact_head,
    require_equal,
    without_graph,
)
from disent_core.export.encoder import ExportedEncoder, exact_encoder, exported_encoder
from disent_core.export.onnx_graph import GRAPH, Graph, graph_vectors, write_graph
from disent_core.export.probes import PROBES
from disent_core.export.record import CARD, checked_record, write_record
from disent_core.export.routes import Routes, refusal, routes_of
from disent_core.export.saved_folder import index_weights
from disent_core.export.tagger_folder import check_tagger, write_tagger
from disent_core.export.transformers_folder import folder_vectors, load_folder, quiet, write_folder
from disent_core.storage.atomic import atomic_path
from disent_core.training.features import features_of
from disent_core.training.needs import Need


@dataclass(frozen=True)
class Exported:
    """A folder that was written.

    Attributes:
        folder: the folder.
        routes: what is in it.
        difference: largest difference to the head's own vectors, as a share of their largest value.
        graph_difference: the same of its ONNX graph; None if it has none.
        tags: the tags of a tagger, which has no routes.
    """

    folder: Path
    routes: Routes
    difference: float
    graph_difference: float | None = None
    tags: tuple[str, ...] = ()


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

    A tagger becomes a folder that transformers' `AutoModelForTokenClassification` loads.

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
    head = exact_head(head)
    if head.method.labels:
        if embeddings is not None:
            raise ValueError(f"{head.method.name} tags the slots of sentences and has no embeddings to choose from")
        tags, difference, graph_difference = write_tagger(head, folder, seed=seed, measured=measured, onnx=onnx)
        return Exported(folder, Routes({}), difference, graph_difference, tags)
    encoder = exported_encoder(head, seed)
    routes = routes_of(head, seed, encoder.pooled).chosen(embeddings)
    with quiet():
        own = _own_vectors(head, seed, routes)
    with atomic_path(folder.resolve()) as temporary:
        write_folder(temporary, encoder, routes)
        difference = difference_of(own, folder_vectors(temporary, PROBES, list(routes.steps)))
        if not difference <= TOLERANCE:
            raise refusal(head, f"its vectors would differ by {difference:.1e} of their largest value")
        graph_difference = _write_graph(temporary, head, own, encoder) if onnx else None
        record = described(head, seed, encoder, measured) | _record(routes, own)
        write_record(temporary, {**record, "weights": index_weights(temporary, head, seed)})
        (temporary / CARD).write_text(card(head, seed, routes, measured, onnx=onnx), encoding="utf-8")
    return Exported(folder, routes, difference, graph_difference)


@dataclass(frozen=True)
class Checked:
    """A folder that is as it was written.

    Attributes:
        routes: names of its routes.
        graph: whether its ONNX graph was run; None if it has none.
        tags: those of a tagger, which has no routes.
    """

    routes: tuple[str, ...]
    graph: bool | None
    tags: tuple[str, ...] = ()


def check_folder(folder: Path) -> Checked:
    """Check an exported folder: its files, and that it gives the vectors that it gave when it was written.

    An ONNX graph is run where onnxruntime is installed.

    Raises:
        TrainingError: if it is no exported folder.
        DamagedError: if a file has changed or is missing, or the vectors are others.
    """
    record = checked_record(folder)
    if record.get("tags"):
        return Checked((), check_tagger(folder, record), tuple(record["tags"]))
    own = {name: np.asarray(rows, dtype=np.float32) for name, rows in record["probes"]["vectors"].items()}
    texts = record["probes"]["texts"]
    difference = difference_of(own, folder_vectors(folder, texts, list(own)))
    require_equal(folder, difference, "torch and sentence-transformers")
    graph = find_spec("onnxruntime") is not None if (folder / GRAPH).is_file() else None
    if graph:
        difference = _graph_difference(folder, own, texts, record["encoder"]["max_length"])
        require_equal(folder / GRAPH, difference, "onnxruntime")
    return Checked(tuple(own), graph)


def _write_graph(folder: Path, head: SavedHead, own: Vectors, encoder: ExportedEncoder) -> float:
    """Write the graph of a folder, and return its difference to the head's own vectors."""
    from torch.onnx import OnnxExporterError

    try:
        write_graph(Graph(load_folder(folder)), folder / GRAPH)
        difference = _graph_difference(folder, own, PROBES, encoder.config.max_length)
    except (OnnxExporterError, ValueError, RuntimeError) as error:
        raise without_graph(head, str(error).partition("\n")[0]) from error
    if not difference <= TOLERANCE:
        raise without_graph(head, f"its vectors would differ by {difference:.1e} of their largest value")
    return difference


def _graph_difference(folder: Path, own: Vectors, texts: Sequence[str], max_length: int) -> float:
    """Largest difference of an ONNX graph, of inputs of several shapes."""
    found = graph_vectors(folder, texts, max_length)
    return max(difference_of({name: own[name][some] for name in own}, vectors) for some, vectors in found)


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


def _record(routes: Routes, own: Vectors) -> dict[str, Any]:
    return {
        "routes": list(routes.steps),
        "by_language": routes.by_language,
        "default": routes.default,
        "left_out": routes.left_out,
        "needs_code": routes.needs_code,
        "probes": {"texts": PROBES, "vectors": {name: matrix.tolist() for name, matrix in own.items()}},
    }
