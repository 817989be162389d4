"""Code-switched sentences: some words of a sentence replaced by their translations from a word list."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class CodeSwitchingConfig:
    """How words are replaced (METHODS: ORACLE's code-switched retrieval).

    Attributes:
        dictionaries: folder with a word list `<language>.txt` of lines `english foreign`; none: no such sentences.
        probability: with which a word that the list has is replaced.
        min_replacements: words that are replaced at least; a sentence with fewer known words is left out.
        max_pairs: sentences of a language pair and split, the first ones.
        seed: of the draws; each sentence has its own.
        replace: `foreign`: words of the foreign sentence become English and the original is its English
            translation; `english`: words of the English sentence become foreign and it is the original itself.
        candidates: which of several translations is taken.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    dictionaries: str | None = None
    probability: float = 0.3
    min_replacements: int = 1
    max_pairs: int = 1_000
    seed: int = 0
    replace: Literal["foreign", "english"] = "foreign"
    candidates: Literal["first", "random"] = "first"

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}; it must be from 0 to 1")
        for name in ("min_replacements", "max_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
