"""The head whose vectors are stored: what it has to give, and which one it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from disent.model import Model

if TYPE_CHECKING:
    from disent_core.search.contents import HeadRecord


def chosen_embeddings(model: Model, name: str | None) -> list[str]:
    """Names of the embeddings that a command was told: one, `all`, or none, which is the meaning or the first.

    Raises:
        ValueError: as `require_vectors`.
    """
    default = "meaning" if "meaning" in model.embeddings else next(iter(model.embeddings), "")
    names = [*model.embeddings] if name == "all" else [name or default]
    require_vectors(model, names)
    return names


def require_vectors(model: Model, embeddings: Sequence[str]) -> None:
    """Check that a model has embeddings, and gives a text a vector that does not depend on other texts.

    Raises:
        ValueError: if not.
    """
    name = model.description["name"]
    if not model.embeddings:
        raise ValueError(f"{name} tags the slots of sentences and does not embed")
    if not model.is_of_one_text:
        raise ValueError(f"{name} subtracts the mean of all texts that are encoded together; use a head that does not")
    if unknown := [one for one in embeddings if one not in model.embeddings]:
        raise ValueError(f"this head has no embedding {unknown[0]!r}; choose one of {', '.join(model.embeddings)}")


def head_record(model: Model, index: Path | None = None) -> "HeadRecord":
    """Say which head a model is and, for an index, where it lies."""
    import os

    from disent_core.search import contents

    path = None if model.path is None else model.path.resolve()
    places = () if path is None or index is None else (os.path.relpath(path, index.resolve()), str(path))
    return contents.head_record(model.description, model.fingerprint, model.seed, places)
