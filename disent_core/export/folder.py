"""Export a head as a folder, and check a folder against what it was when it was written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.errors import DamagedError, TrainingError, located
from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.card import Measured, card
from disent_core.export.encoder import exact_encoder, exported_encoder
from disent_core.export.probes import PROBES
from disent_core.export.routes import Routes, refusal, routes_of
from disent_core.export.transformers_folder import Vectors, folder_vectors, write_folder, write_json
from disent_core.storage.atomic import atomic_path
from disent_core.storage.checksums import sha256_of
from disent_core.training.features import features_of
from disent_core.training.needs import Need

RECORD, CARD = "disent_head.json", "README.md"
"""Files of the folder: the head's description with its vectors of `PROBES`, and the model card."""
TOLERANCE = 2e-6
"""Largest difference to the head's own vectors, as a share of their largest value."""
ELSEWHERE = 1e-4
"""The same for a folder on another machine, whose processor may round in another order."""


@dataclass(frozen=True)
class Exported:
    """A folder that was written.

    Attributes:
        folder: the folder.
        routes: what is in it.
        difference: largest difference to the head's own vectors, as a share of their largest value.
    """

    folder: Path
    routes: Routes
    difference: float


def export_head(
    head: SavedHead,
    folder: Path,
    *,
    seed: int | None,
    embeddings: Sequence[str] | None = None,
    measured: Sequence[Measured] = (),
) -> Exported:
    """Write a head and its encoder as a folder that `SentenceTransformer(folder)` loads.

    Embeddings that its own modules do not compute need a module in the folder, and `trust_remote_code=True`.

    It appears whole or not at all: before it gets its name it is loaded once, and its vectors have to be the head's.

    Args:
        head: the head.
        folder: a folder that does not exist yet.
        seed: which of the head's seeds; None if its method is deterministic.
        embeddings: which of its routes; None: all that need no module in the folder or, if there are none, all.
        measured: what is known of the head's quality, for its card.

    Raises:
        TrainingError: if the head can't be exported, or the folder exists.
        ValueError: if it has no such route.
        EncoderError: if its encoder can't be loaded.
    """
    if folder.exists():
        raise TrainingError(located(folder, None, "this exists already", "Name a new folder"))
    head = _exact(head)
    encoder = exported_encoder(head, seed)
    routes = routes_of(head, seed, encoder.pooled).chosen(embeddings)
    own = _own_vectors(head, seed, routes)
    with atomic_path(folder.resolve()) as temporary:
        write_folder(temporary, encoder, routes)
        difference = _difference(own, folder_vectors(temporary, PROBES, list(routes.steps)))
        if not difference <= TOLERANCE:
            raise refusal(head, f"its vectors would differ by {difference:.1e} of their largest value")
        write_json(temporary / RECORD, _record(head, seed, routes, own, _hashes(temporary)))
        text = card(head, seed, routes, measured)
        (temporary / CARD).write_text(text, encoding="utf-8")
    return Exported(folder, routes, difference)


def check_folder(folder: Path) -> tuple[str, ...]:
    """Check an exported folder: its files, and that it gives the vectors that it gave when it was written.

    Returns:
        The names of its routes.

    Raises:
        TrainingError: if it is no exported folder.
        DamagedError: if a file has changed or is missing, or the vectors are others.
    """
    record = read_record(folder)
    for name, wanted in record["files"].items():
        file = folder / name
        if not file.is_file() or sha256_of(file) != wanted:
            problem = "it has changed since the export" if file.is_file() else "it is missing"
            raise DamagedError(located(file, None, problem, "Copy the folder again, or export the head again"))
    own = {name: np.asarray(rows, dtype=np.float32) for name, rows in record["probes"]["vectors"].items()}
    difference = _difference(own, folder_vectors(folder, record["probes"]["texts"], list(own)))
    if not difference <= ELSEWHERE:
        problem = f"its vectors differ by {difference:.1e} of their largest value from those at the export"
        raise DamagedError(located(folder, None, problem, "Check the versions of torch and sentence-transformers"))
    return tuple(own)


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of an exported folder.

    Raises:
        TrainingError: if it is no exported folder.
    """
    try:
        return json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"this is no folder of an exported head: it has no readable {RECORD}"
        raise TrainingError(located(folder, None, problem, "Make one with disent export HEAD FOLDER")) from error


def _exact(head: SavedHead) -> SavedHead:
    """The head on the CPU, with all products in float32."""
    settings: Any = head.settings
    if getattr(settings, "precision", "float32") != "float32":
        settings = replace(settings, precision="float32")
    return replace(head, device="cpu", source=replace(head.source, device="cpu"), settings=settings)


def _own_vectors(head: SavedHead, seed: int | None, routes: Routes) -> Vectors:
    """The head's vectors of the probes by route; the encoder's states are float32, however they are stored."""
    encoder, trained = exact_encoder(head), head.trained
    states = Need.TOKEN_STATES in head.method.needs_of(head.settings)

    def embed(language: str) -> Any:
        return trained.embed(features_of(encoder, PROBES, language, states=states), seed)  # pyright: ignore[reportAttributeAccessIssue]

    if routes.by_language:
        return {language: embed(language)["sentence"] for language in routes.steps}
    embedded = embed("")
    return {name: embedded[name] for name in routes.steps}


def _difference(own: Vectors, found: Vectors) -> float:
    """Largest difference of any route, as a share of its own largest value."""
    return max(float(np.abs(own[name] - found[name]).max() / max(np.abs(own[name]).max(), 1e-12)) for name in own)


def _record(
    head: SavedHead, seed: int | None, routes: Routes, own: Vectors, files: Mapping[str, str]
) -> dict[str, Any]:
    encoder = asdict(head.source.model_config)
    if not str(encoder["path"]).startswith("package:"):
        del encoder["path"]  # a place on the disk where the head was trained
    return {
        "description": {**head.description, "encoder_config": encoder},
        "fingerprint": head.content,
        "seed": seed,
        "routes": list(routes.steps),
        "by_language": routes.by_language,
        "default": routes.default,
        "left_out": routes.left_out,
        "needs_code": routes.needs_code,
        "files": files,
        "probes": {"texts": PROBES, "vectors": {name: matrix.tolist() for name, matrix in own.items()}},
    }


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}
