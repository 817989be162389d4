"""Put an index of faiss beside the parts of an index, and say how much of the exact search it finds."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from disent_core.evaluation.contract import SearchBackend
from disent_core.evaluation.metrics import approximate_search
from disent_core.evaluation.metrics.approximate_search import FROM_ROWS, NEIGHBOURS, TUNED_ON
from disent_core.search.contents import Approximate, Contents, EngineChoice
from disent_core.search.parts import file_sha256
from disent_core.search.stored import Proposals, StoredIndex
from disent_core.storage.files import atomic_path

_TOLD_ON = 200
"""Texts of the index that are queries for the recall that is told; the effort is chosen on others."""
_SEED = 0


def wanted_engine(choice: EngineChoice, rows: int) -> SearchBackend:
    """Return the engine for so many texts: chosen, or with `auto` exact search until it takes long."""
    if choice != "auto":
        return choice
    return "ivf" if rows >= FROM_ROWS and find_spec("faiss") is not None else "exact"


def require_engine(choice: EngineChoice) -> None:
    """Check that an engine is installed, before anything is encoded."""
    if choice in ("hnsw", "ivf"):
        import faiss  # noqa: F401


def write_approximate(index: Path, contents: Contents, engine: SearchBackend, number: int) -> Approximate:
    """Make an index of faiss of every embedding, over all parts.

    Args:
        index: folder of the index.
        contents: has at least one text.
        engine: `hnsw` or `ivf`.
        number: of the folder; none has it yet.
    """
    import faiss

    stored = StoredIndex(index, contents)
    tuned_on, told_on = _samples(contents.rows)
    recalls, efforts = {}, {}
    with atomic_path(Approximate.folder(index, number)) as temporary:
        temporary.mkdir()
        for name, dim in contents.embeddings.items():
            made = approximate_search.build(*stored.distinct(name), dim, engine)
            efforts[name] = approximate_search.tune(made, _recall(stored, name, made, tuned_on))
            recalls[name] = _recall(stored, name, made, told_on)()
            faiss.write_index(made, str(temporary / f"{name}.faiss"))
        files = {file.name: file_sha256(file) for file in sorted(temporary.iterdir())}
    parts = tuple(part.number for part in contents.parts)
    return Approximate(
        number=number,
        engine=engine,
        parts=parts,
        recall_at_10=recalls,
        queries=len(told_on),
        effort=efforts,
        files=files,
    )


def _samples(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that are queries: those that the effort is chosen on, and those that the recall is told of."""
    drawn = np.random.default_rng(_SEED).permutation(rows)
    few = min(TUNED_ON, rows // 2)
    return drawn[:few] if few else drawn, drawn[few : few + _TOLD_ON]


def _recall(stored: StoredIndex, name: str, made: Any, rows: Int64[np.ndarray, " queries"]) -> Callable[[], float]:
    """Return the share of the ten nearest other texts that are found, with the effort that is set when it is asked."""
    queries, keys = stored.units(name, rows), [key.decode() for key in stored.keys[rows]]
    exact, _ = stored.nearest(queries, name, NEIGHBOURS, without=keys, is_exact=True)
    proposals = Proposals(made, frozenset(part.number for part in stored.contents.parts))

    def recall() -> float:
        found, _ = stored.nearest(queries, name, NEIGHBOURS, without=keys, proposals=proposals)
        kept = [theirs[np.isfinite(theirs)] for theirs in exact]
        pairs = [(ours, theirs) for ours, theirs in zip(found, kept, strict=True) if len(theirs)]
        return approximate_search.recall_of(*zip(*pairs, strict=True)) if pairs else 1.0

    return recall
