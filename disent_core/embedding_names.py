"""Name embeddings in plain words: `shape` is the template, `values` are the residual."""

from collections.abc import Iterable
from typing import TypeVar

MEANING = "meaning"
ALIASES = {"shape": "template", "values": "residual"}
"""Other names of embeddings, in plain words."""
_WORDS = {name: word for word, name in ALIASES.items()}
Value = TypeVar("Value")


class ByEmbedding(dict[str, Value]):
    """A value for each embedding, also found under `shape` and `values`."""

    def __missing__(self, name: str) -> Value:
        if name not in ALIASES:
            raise KeyError(name)
        return self[ALIASES[name]]


def embedding_of(name: str | None, names: Iterable[str], what: str, *, had_slots: bool = True) -> str:
    """Return which of `names` is meant; None means the meaning or, without it, the first.

    `had_slots` is false if the model's method has shape and values, but its training texts had no slots for them.
    """
    known = tuple(names)
    if name is None and known:
        return MEANING if MEANING in known else known[0]
    chosen = name if name in known else ALIASES.get(str(name), name)
    if chosen in known:
        return str(chosen)
    if not had_slots and chosen in _WORDS:
        raise ValueError(without_slots(what, plain_word(chosen)))
    words = dict.fromkeys(map(plain_word, known))
    raise ValueError(f"{what} has no embedding {name!r}; choose one of {', '.join(words)}")


def asked_name(name: str | None, embedding: str | None) -> str | None:
    """Return the name of an embedding, which callers pass by either of these two arguments."""
    if name is not None and embedding is not None:
        raise ValueError(f"name={name!r} and embedding={embedding!r} mean the same; give only one")
    return embedding if name is None else name


def require_no_name(name: str | None, *sides: object) -> None:
    """Reject the name of an embedding if both sides are vectors, which leave nothing to choose."""
    if name is not None and all(map(is_vectors, sides)):
        raise ValueError(f"both sides are already vectors of one embedding; leave {name!r} out, or give texts")


def is_vectors(side: object) -> bool:
    """Return whether something is an array of floats."""
    return getattr(getattr(side, "dtype", None), "kind", None) == "f"


def without_slots(what: str, absent: str = "shape and no values") -> str:
    """Return why a model has no shape or values, and the remedy."""
    cause = f"{what} has no {absent}: the texts that it was trained on have no slots in which they differ"
    return f"{cause}. Train it on a table with slots, [time : nine] for nine (disent train --help), or use its meaning"


def plain_word(name: str) -> str:
    """Return the plain word for an embedding, or its name if it has no other."""
    return _WORDS.get(name, name)
