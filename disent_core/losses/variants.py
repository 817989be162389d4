"""Name the variants of losses that settings choose from."""

from typing import Literal

Form = Literal["sbert", "paper_eq"]
Hard = Literal["sbert", "margin", "none"]
LonePair = Literal["mean", "extreme"]
