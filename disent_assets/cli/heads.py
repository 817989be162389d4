"""The head that a command is given (a file, an exported folder, or its name in the configuration), and its index."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from disent import Index, Model
    from disent_core.encoders.contract import Device

HEAD_HELP = "A head's .safetensors file, an exported folder, or METHOD@ENCODER:PAIR of the configuration."
MOVED_HEAD = click.option("--head", metavar="HEAD", help=f"If the head is not where it was: {HEAD_HELP}")
ENCODER = click.option("--encoder", type=click.Path(path_type=Path), help="Folder of its encoder, if that has moved.")


def open_model(
    head: str, seed: int | None, encoder: Path | None = None, *, stored: bool = False, device: "Device" = "auto"
) -> "Model":
    """Load the head that a command was given.

    Args:
        head: as in `HEAD_HELP`.
        seed: of the training; None: the first.
        encoder: folder of its encoder, if that has moved.
        device: where a trained head is applied.
        stored: look up the texts that the run has encoded, so that vectors are those that it measures, to the bit.

    Raises:
        ValueError: if the configuration has no such head, or it no such seed.
        DisentError: if it can't be loaded.
    """
    from disent import load

    method, _, place = head.partition("@")
    if not place or Path(head).exists():
        return load(head, seed=seed, encoder=encoder, device=device)
    from disent.run import open as open_run
    from disent_assets.resources import configuration, home_folder

    name, _, pair = place.partition(":")
    found = open_run(configuration(), home=home_folder()).head(method, name, pair or None)
    if stored and found.path is not None and encoder is None:
        found.seed = found._seed(seed)
        return found
    if found.path is not None:
        return load(found.path, seed=seed, encoder=encoder, device=device)
    if seed is not None or encoder is not None:
        raise ValueError(f"{head} is untrained: it has no seed, and its encoder is that of the configuration")
    return found


def open_index(folder: Path, head: str | None, encoder: Path | None) -> "Index":
    """Open the index that a command was given.

    Args:
        folder: where it lies.
        head: its head, if that is not where it was.
        encoder: folder of the head's encoder, if that has moved.

    Raises:
        ValueError: as `open_model`.
        DisentError: if there is no index, or its head can't be loaded.
    """
    from disent import Index
    from disent_core.search.contents import read_contents

    contents = read_contents(folder) if head else None
    model = open_model(head, contents.head.seed, encoder) if head and contents else None
    return Index.open(folder, head=model, encoder=encoder)
