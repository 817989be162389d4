"""Configure BLEU of two utterances and the threshold of the negative pool."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from disent_core.settings import Positive, PositiveFloat, Settings, Share
from disent_core.text import tokenize

DEFAULT_SMOOTHING_VALUES = {"floor": 0.1, "nltk-floor": 0.1, "add-k": 1.0}
"""Defaults of sacrebleu, after Chen and Cherry 2014, https://aclanthology.org/W14-3346."""


@dataclass(frozen=True, kw_only=True)
class BleuConfig(Settings):
    """Settings of the negative pool, the training utterances that resemble no other; the defaults are those of FMDA.

    Attributes:
        order: longest n-gram.
        smoothing: smoothing of orders without a match, as named by sacrebleu; "nltk-floor" is NLTK's method 1: "floor",
            but an order too long for the hypothesis counts as one n-gram without a match.
        smoothing_value: the floor (in (0, 1]) or the k of add-k; if omitted, sacrebleu's default.
        effective_order: leave out orders too long for the hypothesis. Otherwise a hypothesis of fewer than `order`
            tokens scores 0, even against itself (except with "add-k" and "nltk-floor").
        direction: score the utterance as `hypothesis`, as `reference`, or take the larger of both scores (`max`).
        tokenize: split into words, into characters, or whichever suits the language (`auto`).
        lowercase: ignore case.
        threshold: an utterance is in the pool if its largest BLEU is below this.
        block_pairs: candidate pairs held in memory at once; the result does not depend on it.
    """

    order: Annotated[int, Ge(1), Le(100)] = 4
    smoothing: Literal["none", "floor", "add-k", "exp", "nltk-floor"] = "none"
    smoothing_value: PositiveFloat | None = None
    effective_order: bool = False
    direction: Literal["hypothesis", "reference", "max"] = "max"
    tokenize: Literal["auto", "word", "char"] = "auto"
    lowercase: bool = True
    threshold: Share = 0.1
    block_pairs: Positive = 1 << 19

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.smoothing_value
        if value is None:
            return
        if self.smoothing not in DEFAULT_SMOOTHING_VALUES:
            raise ValueError(f"smoothing {self.smoothing!r} takes no smoothing_value, found {value}")
        # A floor above 1 would reward a missing match more than one match.
        if value > 1 and self.smoothing != "add-k":
            raise ValueError(f"smoothing_value {value} is out of range for smoothing {self.smoothing!r}")

    @property
    def smoothing_term(self) -> float:
        """The effective floor or k; 0 if the smoothing has none."""
        if self.smoothing_value is not None:
            return self.smoothing_value
        return DEFAULT_SMOOTHING_VALUES.get(self.smoothing, 0.0)

    def tokens(self, text: str, language: str) -> list[str]:
        """Tokenise a text for BLEU; it is lower-cased first if case is ignored."""
        text = text.lower() if self.lowercase else text
        if self.tokenize == "auto":
            return tokenize(text, language)
        return text.split() if self.tokenize == "word" else [char for char in text if not char.isspace()]
