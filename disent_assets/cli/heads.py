"""The head that a command is given: a file, an exported folder, or its name in the configuration."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disent import Model

HEAD_HELP = "A head's .safetensors file, an exported folder, or METHOD@ENCODER:PAIR of the configuration."


def open_model(head: str, seed: int | None, encoder: Path | None = None) -> "Model":
    """Load the head that a command was given.

    Raises:
        ValueError: if the configuration has no such head, or it no such seed.
        DisentError: if it can't be loaded.
    """
    from disent import load

    method, _, place = head.partition("@")
    if not place or Path(head).exists():
        return load(head, seed=seed, encoder=encoder)
    from disent.run import open as open_run
    from disent_assets.resources import configuration, home_folder

    name, _, pair = place.partition(":")
    found = open_run(configuration(), home=home_folder()).head(method, name, pair or None)
    if found.path is not None:
        return load(found.path, seed=seed, encoder=encoder)
    if seed is not None or encoder is not None:
        raise ValueError(f"{head} is untrained: it has no seed, and its encoder is that of the configuration")
    return found
