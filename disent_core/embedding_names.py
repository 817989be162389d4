"""Words for embeddings: `shape` and `values` are other names of the template and the residual."""

from collections.abc import Iterable

MEANING = "meaning"
ALIASES = {"shape": "template", "values": "residual"}
"""Other names of embeddings, in plain words."""
_WORDS = {name: word for word, name in ALIASES.items()}


def embedding_of(name: str | None, names: Iterable[str], what: str) -> str:
    """Return the name among `names` that is meant; None means the meaning or, without it, the first."""
    known = tuple(names)
    if name is None and known:
        return MEANING if MEANING in known else known[0]
    chosen = name if name in known else ALIASES.get(str(name))
    if chosen not in known:
        aliases = [alias for alias, meant in ALIASES.items() if meant in known and alias not in known]
        raise ValueError(f"{what} has no embedding {name!r}; choose one of {', '.join([*known, *aliases])}")
    return chosen


def plain_word(name: str) -> str:
    """Return the plain word for an embedding, or its name if it has no other."""
    return _WORDS.get(name, name)
