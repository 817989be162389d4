"""What every exported folder has: the head's own output of some texts, with which it is compared, and a description."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disent_core.encoders.files import PACKAGE_PREFIX
from disent_core.errors import DamagedError, TrainingError, located
from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.card import Measured
from disent_core.export.encoder import ExportedEncoder
from disent_core.heads.identity import ENCODER_CONFIG

Vectors = Mapping[str, Float[np.ndarray, "texts _"]]
"""Vectors of texts by route; of a tagger its `logits`, of words."""
TOLERANCE = 2e-6
"""Largest difference to the head's own vectors, as a share of their largest value."""
ELSEWHERE = 1e-4
"""The same for a folder on another machine, whose processor may round in another order."""


def difference_of(own: Vectors, found: Vectors) -> float:
    """Largest difference of any route, as a share of its own largest value."""
    return max(float(np.abs(own[name] - found[name]).max() / max(np.abs(own[name]).max(), 1e-12)) for name in own)


def require_equal(place: Path, difference: float, library: str) -> None:
    """Refuse a folder whose vectors are no longer those at the export.

    Raises:
        DamagedError: if they are not.
    """
    if not difference <= ELSEWHERE:
        problem = f"its vectors differ by {difference:.1e} of their largest value from those at the export"
        raise DamagedError(located(place, None, problem, f"Check the version of {library}"))


def without_graph(head: SavedHead, reason: str) -> TrainingError:
    """The error of a head that has no ONNX graph."""
    problem = f"{head.path}: {head.description['name']} can't be one ONNX graph: {reason}"
    return TrainingError(f"{problem}. Export it without the graph")


def exact_head(head: SavedHead) -> SavedHead:
    """The head on the CPU, with all products in float32."""
    settings: Any = head.settings
    if getattr(settings, "precision", "float32") != "float32":
        settings = replace(settings, precision="float32")
    return replace(head, device="cpu", source=replace(head.source, device="cpu"), settings=settings)


def described(
    head: SavedHead, seed: int | None, encoder: ExportedEncoder, measured: Sequence[Measured]
) -> dict[str, Any]:
    """The part of a record that says what head a folder has, and how disent reads its encoder."""
    return {
        "description": _of_seed(head.description, seed),
        "fingerprint": head.content,
        "seed": seed,
        "encoder": encoder.described(),
        "measured": [asdict(row) for row in measured],
    }


def _of_seed(description: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """The description of a head of one seed, without the place on the disk where its encoder was."""
    encoder = dict(description[ENCODER_CONFIG])
    if not str(encoder.get("path")).startswith(PACKAGE_PREFIX):
        encoder.pop("path", None)
    seeds = {} if seed is None else {"seeds": [seed]}
    of_seed = description.get("of_seed", {}).get(str(seed))
    return {**description, **seeds, ENCODER_CONFIG: encoder} | ({"of_seed": {str(seed): of_seed}} if of_seed else {})
