"""Bounds of numbers of the configuration, by key: what would take years, or all memory, is refused before it runs.

A settings class checks what its own keys mean. The default of a key is always accepted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

SEED = (0, 2**63 - 1)
_RATE, _WIDTH, _COUNT = (0, 100), (1, 1 << 16), (1, 10_000)
OTHER = (-1_000_000_000, 1_000_000_000)
"""Of a key that is not in `BOUNDS`."""

BOUNDS: Mapping[str, tuple[int, int]] = {
    "adversary_learning_rate": _RATE,
    "align_iterations": (1, 1_000),
    "bank": (0, 1_000_000),
    "batch_tokens": (1, 100_000_000),
    "bootstrap_samples": (1, 1_000_000),
    "bootstrap_seed": SEED,
    "checkpoint_seconds": (0, 1_000_000),
    "classifier_learning_rate": _RATE,
    "contrastive_learning_rate": _RATE,
    "copy_rows_below": (0, 1 << 50),
    "discriminator_learning_rate": _RATE,
    "filter_hidden": _WIDTH,
    "heads": (1, 1_000),
    "hidden_size": _WIDTH,
    "intermediate_size": _WIDTH,
    "layer": (-1_000, 1_000),
    "layers": (1, 1_000),
    "learning_rate": _RATE,
    "limit": (1, 1_000_000_000),
    "max_length": (3, 1_000_000),
    "max_steps": (1, 1_000_000_000),
    "mining_neighbours": _COUNT,
    "multi_targets": _COUNT,
    "n_mates": _COUNT,
    "n_targets": _COUNT,
    "negatives_per_positive": _COUNT,
    "npair_n": _COUNT,
    "order": (1, 100),
    "residual_units": _WIDTH,
    "row_learning_rate": _RATE,
    "seed": SEED,
    "seeds": SEED,
    "size": (1, 1 << 50),
    "split_seed": SEED,
    "template_units": _WIDTH,
    "top_k": _COUNT,
    "type_hidden": _WIDTH,
    "validate_steps": (1, 1_000_000_000),
    "vocab_size": (100, 10_000_000),
    "weight_decay": (0, 1_000_000),
}


def numbers_out_of_bounds(value: Any, key_path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield key and problem of each number, in settings or a value of a key, that is beyond the bounds of its key."""
    if is_dataclass(value):
        for field in fields(value):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            own = getattr(value, field.name)
            if own != default:
                yield from numbers_out_of_bounds(own, (*key_path, field.name))
    elif isinstance(value, Mapping):
        for name, own in value.items():
            yield from numbers_out_of_bounds(own, (*key_path, name))
    elif isinstance(value, tuple):
        for own in value:
            yield from numbers_out_of_bounds(own, key_path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        name = next((part for part in reversed(key_path) if part in BOUNDS), "")
        least, most = BOUNDS.get(str(name), OTHER)
        if not least <= value <= most:
            yield key_path, f"must be from {least:,} to {most:,}, not {value}"
