"""Loss functions: tensors in, one value per pair or batch out; no weights and no state."""

from typing import Literal

Form = Literal["sbert", "paper_eq"]
Hard = Literal["sbert", "margin", "none"]
LonePair = Literal["mean", "extreme"]
