"""Export a head as a folder, and check a folder against what it was when it was written."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.errors import TrainingError, located
from disent_core.export.card import Measured, card
from disent_core.export.comparing import (
    PROBES,
    Outputs,
    Vectors,
    check_compared,
    described,
    difference_of,
    exact_head,
    write_compared,
)
from disent_core.export.encoder import exact_encoder, exported_encoder
from disent_core.export.onnx_graph import Graph, graph_vectors
from disent_core.export.record import checked_record
from disent_core.export.routes import Routes, routes_of
from disent_core.export.tagger_folder import check_tagger, write_tagger
from disent_core.export.transformers_folder import folder_vectors, load_folder, quiet, write_folder
from disent_core.lineage.saved_heads import SavedHead
from disent_core.training.data import features_of
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

    It appears whole or not at all: before it gets its name it is loaded once, and its vectors must be the head's.

    Args:
        head: the head.
        folder: a folder that does not exist yet.
        seed: which of the head's seeds; None if its method is deterministic.
        embeddings: which of its routes; None: all that need no module in the folder or, if there are none, all.
        measured: what is known of the head's quality, for its card.
        onnx: whether the folder gets an ONNX graph too.
    """
    if folder.exists():
        raise TrainingError(located(folder, None, "this exists already", "Name a new folder"))
    head = exact_head(head)
    if head.method.labels:
        if embeddings is not None:
            raise ValueError(f"{head.method.name} tags the slots of sentences and has no embeddings to choose from")
        tags, written = write_tagger(head, folder, seed=seed, measured=measured, onnx=onnx)
        return Exported(folder, Routes({}), written.difference, written.graph_difference, tags)
    encoder = exported_encoder(head, seed)
    routes = routes_of(head, seed, encoder.pooled).chosen(embeddings)
    with quiet():
        own = _own_vectors(head, seed, routes)
    written = write_compared(
        head,
        folder,
        _outputs(own, PROBES, encoder.config.max_length),
        partial(write_folder, encoder=encoder, routes=routes),
        described(head, seed, encoder, measured) | _record(routes, own),
        card(head, seed, routes, measured, onnx=onnx),
        onnx=onnx,
    )
    return Exported(folder, routes, written.difference, written.graph_difference)


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
    """
    record = checked_record(folder)
    if record.get("tags"):
        return Checked((), check_tagger(folder, record), tuple(record["tags"]))
    own = {name: np.asarray(rows, dtype=np.float32) for name, rows in record["probes"]["vectors"].items()}
    outputs = _outputs(own, record["probes"]["texts"], record["encoder"]["max_length"])
    return Checked(tuple(own), check_compared(folder, outputs))


def _outputs(own: Vectors, texts: Sequence[str], max_length: int) -> Outputs:
    return Outputs(
        what="vectors",
        library="torch and sentence-transformers",
        own=own,
        of_folder=lambda folder: folder_vectors(folder, texts, list(own)),
        graph=lambda folder: Graph(load_folder(folder)),
        graph_difference=lambda folder: _graph_difference(folder, own, texts, max_length),
    )


def _graph_difference(folder: Path, own: Vectors, texts: Sequence[str], max_length: int) -> float:
    """Return the largest difference of an ONNX graph, over batches of several shapes."""
    batches = graph_vectors(folder, texts, max_length)
    return max(difference_of({name: own[name][rows] for name in own}, vectors) for rows, vectors in batches)


def _own_vectors(head: SavedHead, seed: int | None, routes: Routes) -> Vectors:
    """Embed the probes by the head itself; the encoder's states are float32, however they are stored."""
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
