"""Write and find the folders of encoders that are distilled here: plain Hugging Face folders with a record."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from disent_core.encoders.checkpoint import quiet_transformers
from disent_core.encoders.kinds.huggingface import RECORD, record_of
from disent_core.storage.results import fetch, open_result, write_folder


def publish(model: Any, tokeniser: Any, folder: Path, record: Mapping[str, Any]) -> None:
    """Write an encoder, completely or not at all, in place of one that is there.

    Args:
        model: a transformers model.
        tokeniser: a fast tokeniser of transformers.
        folder: of the encoder.
        record: what it is made from: `made_from`, a fingerprint of all of that, and whatever else is to be told.
    """

    with quiet_transformers(), write_folder(folder) as beside:
        model.save_pretrained(beside)
        tokeniser.save_pretrained(beside)
        (beside / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def copy_encoder(source: Path, folder: Path) -> None:
    """Copy an encoder, completely or not at all, in place of one that is there."""
    with write_folder(folder) as beside:
        shutil.copytree(fetch(source), beside)


def is_made(folder: Path, made_from: str) -> bool:
    """Whether the encoder is there, undamaged and made from the same."""
    record = record_of(folder)
    return record is not None and record.get("made_from") == made_from and open_result(folder) is not None
