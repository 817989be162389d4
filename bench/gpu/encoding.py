"""Compare encoding with sentence-transformers, and encode on a device too small for a batch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.measuring import Row, in_turns, recorded, seconds
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import HuggingFaceEncoder, batch_shapes, load

TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
"""Largest difference of a component of a unit vector from that on the CPU in float32."""
PEER_BATCH = {"cpu": 32, "cuda": 1_024}
MAX_LENGTH, COMPARED = 64, 512


def opened(folder: Path, device: str, precision: str, **settings: Any) -> HuggingFaceEncoder:
    """Return our encoder with mean pooling."""
    named = {"name": "benchmark", "pooling": "mean", "max_length": MAX_LENGTH, "precision": precision}
    return load(HuggingFaceConfig(path=str(folder), **{**named, **settings}), device)


def vectors(encoder: HuggingFaceEncoder, texts: Sequence[str], *, states: bool = False) -> np.ndarray:
    """Return vectors in the order of the texts."""
    matrix = np.zeros((len(texts), encoder.dim), np.float32)
    for batch in encoder.encode(texts, states=states):
        matrix[batch.indices] = batch.vectors
    return matrix


def unit(matrix: np.ndarray) -> np.ndarray:
    """Scale rows to norm 1."""
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def rows(folder: Path, name: str, texts: Sequence[str], device: str, repeats: int) -> Iterator[Row]:
    """Yield rows for vectors in float32 and bfloat16, and for vectors with token states."""
    from sentence_transformers import SentenceTransformer

    exact = unit(vectors(opened(folder, "cpu", "float32"), texts[:COMPARED]))
    for precision, tolerance in TOLERANCE.items():
        ours = opened(folder, device, precision)
        peer = SentenceTransformer(str(folder), device=device, model_kwargs={"dtype": getattr(torch, precision)})
        peer.max_seq_length = MAX_LENGTH
        tokens, shapes = shape_of(ours, texts)
        products = recorded(lambda: vectors(ours, texts))  # noqa: B023 - run at once
        alone = products.seconds_alone(device)
        tokenising = seconds(lambda: ours._tokenise(texts), "cpu")  # noqa: B023
        batch = PEER_BATCH[device]
        our_seconds, peer_seconds = in_turns(
            lambda: vectors(ours, texts),  # noqa: B023
            lambda: peer.encode(texts, batch_size=batch, show_progress_bar=False),  # noqa: B023
            device,
            repeats,
        )
        yield Row(
            f"encoding, {name}, {precision}",
            our_seconds,
            peer_seconds,
            f"{tokens / our_seconds:,.0f} tokens/s",
            alone / our_seconds,
            float(np.abs(unit(vectors(ours, texts[:COMPARED])) - exact).max()),
            tolerance,
            f"beside SentenceTransformer.encode, batches of {batch}; {len(texts):,} texts, {tokens:,} tokens, "
            f"{shapes / tokens - 1:.0%} of padding; products {products.operations / alone / 1e12:.3g} TFLOP/s alone; "
            f"tokeniser {tokenising:.3g} s of it",
        )
        with_states = seconds(lambda: vectors(ours, texts, states=True), device)  # noqa: B023
        yield Row(
            f"encoding with token states, {name}, {precision}",
            with_states,
            None,
            f"{tokens * ours.dim * 2 / with_states / 1e9:.3g} GB/s of states",
            alone / with_states,
            note=f"{with_states / our_seconds:.2f} times the vectors alone",
        )


def shape_of(encoder: HuggingFaceEncoder, texts: Sequence[str]) -> tuple[int, int]:
    """Return the number of tokens, and of the positions computed for them, including padding and fillers."""
    tokens, computed = encoder._tokenise(texts), 0
    for width, group in batch_shapes(tokens, MAX_LENGTH):
        size = encoder._rows(width)
        computed += -(-len(group) // size) * size * width
    return int(tokens.lengths.sum()), computed


# --- too little memory ------------------------------------------------------------------------------------


@contextmanager
def little_memory(device: str, spare: int) -> Iterator[None]:
    """Leave this process `spare` bytes of GPU memory; on the CPU, make batches of over 256 tokens fail."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + spare) / total)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    forward = HuggingFaceEncoder._forward

    def tight(self: HuggingFaceEncoder, tokens: Any, rows: Any, width: int, *, states: bool) -> Any:
        if self._rows(width) * width > 256:
            raise torch.OutOfMemoryError("made up")
        return forward(self, tokens, rows, width, states=states)

    HuggingFaceEncoder._forward = tight  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        HuggingFaceEncoder._forward = forward


def out_of_memory(folder: Path, texts: Sequence[str], device: str) -> Row:
    """Encode with batches that do not fit into memory and are halved until they do."""
    batch_tokens = 1 << 20 if device == "cuda" else 4_096
    roomy, tight = (opened(folder, device, "float32", batch_tokens=size) for size in (None, batch_tokens))
    expected = unit(vectors(roomy, texts))
    with little_memory(device, 256 << 20):
        ours_again = unit(vectors(tight, texts))
    if tight._budget == batch_tokens:
        raise SystemExit("the memory was never too small: nothing is shown")
    return Row(
        "a batch too large for the memory",
        apart=float(np.abs(ours_again - expected).max()),
        tolerance=TOLERANCE["float32"],
        note=f"{'256 MB are left' if device == 'cuda' else 'made up'}: batches went from {batch_tokens:,} to "
        f"{tight._budget:,} tokens; distance is from ordinary batches on the same device",
    )
