"""Open an exported folder as the head that it was made from; no code of the folder is run.

The folder has the head's weights where sentence-transformers reads them, or in `REST`, and its record says where. So
the head itself is put together again, and gives its own vectors to the bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from disent_core.encoders.configured import LazyEncoder, described_config
from disent_core.encoders.contract import Device
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.export.record import RECORD, checked_record
from disent_core.lineage.saved_heads import SavedHead, saved_head
from disent_core.methods.families.seed_by_seed import FineTuned
from disent_core.methods.families.tagger import TrainedTaggers
from disent_core.storage.weights import read_weights

REST = "disent_head.safetensors"
"""Weights of the head that no module of sentence-transformers has as they are."""


@dataclass(frozen=True)
class CopiedEncoder(LazyEncoder):
    """The encoder in an exported folder, whose files have been checked: it is known by the original's fingerprint."""

    original: str = ""

    @property
    def fingerprint(self) -> str:
        """That of the encoder that the head was trained on."""
        return self.original


def open_folder(folder: Path, *, device: Device = "auto") -> SavedHead:
    """Open the head in an exported folder."""
    record = checked_record(folder)
    description = record["description"]
    config = described_config(record["encoder"], folder.resolve())
    source = CopiedEncoder(config, folder, device, description["encoder_fingerprint"])
    return saved_head(folder / RECORD, description, record["fingerprint"], source)


def index_weights(folder: Path, head: SavedHead, seed: int | None) -> dict[str, dict[str, str]]:
    """Say for every weight of a head in which file of a folder it lies; write those that lie in none to `REST`."""
    stored: dict[torch.Size, list[tuple[str, str, Tensor]]] = {}
    for file in sorted(folder.rglob("*.safetensors")):
        for name, value in load_file(file).items():
            stored.setdefault(value.shape, []).append((file.relative_to(folder).as_posix(), name, value))
    places, rest = {}, {}
    prefix = "" if seed is None else f"{seed}."
    for name, value in _weights(head, seed).items():
        kind = str(value.dtype).removeprefix("torch.")
        same = (place for *place, other in stored.get(value.shape, ()) if torch.equal(other.to(value.dtype), value))
        file, inside = next(same, (REST, name))
        if file == REST:
            rest[name] = value
        places[f"{prefix}{name}"] = {"file": file, "name": inside, "dtype": kind}
    if rest:
        save_file(rest, folder / REST)
    return places


def _weights(head: SavedHead, seed: int | None) -> Mapping[str, Tensor]:
    """Return weights of a seed, without those of the blocks of a tuned encoder that the export has cut off."""
    weights, trained = read_weights(head.path, seed)[0], head.trained
    if isinstance(trained, TrainedTaggers):
        read = trained.tagger(seed).state_dict()
    elif isinstance(trained, FineTuned) and isinstance(trained.source, TunableEncoder):
        read = dict(trained.source.named_parameters())
    else:
        return weights
    return {name: value for name, value in weights.items() if name in read}
