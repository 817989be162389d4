"""A frozen Hugging Face model as an encoder: from a folder, an installed Python package, or the hub."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import check_length, load_model, load_tokeniser, round_weights
from disent_core.encoders.contract import Device, EncodedBatch, FloatName, Pooling, StatesName, missing_layers
from disent_core.encoders.kinds.huggingface import (
    HuggingFaceConfig,
    encoder_fingerprint,
    files_fingerprint,
    model_folder,
)
from disent_core.encoders.layers import States, Visible, run_model, states_width, use_attention
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts, equal_runs, one_ahead, padded_widths
from disent_core.errors import EncoderError, located
from disent_core.matmul import use_int8, use_onednn
from disent_core.text import text_key

log = logging.getLogger(__name__)


_WINDOW_TEXTS = 65_536
BATCH_TOKENS = {"cpu": 256, "cuda": 16_384}
_CALIBRATION = (32, 16)  # texts, and tokens per text, for the calibration of int8


_Shape = tuple[int, int, bool]
"""Rows and width of a batch, and whether all its positions are visible, which selects another kernel."""
_Rows = Int[np.ndarray, " rows"]
_Computed = tuple[Float[Tensor, "rows dim"], Float[Tensor, "tokens dim"] | None, _Rows]
"""Vectors, token states and visible lengths of a batch."""
_Launched = tuple[_Computed, torch.cuda.Event | None]
"""A batch on its way to the CPU; from a GPU, it has arrived once the event has completed."""


def load(config: HuggingFaceConfig, device: Device = "auto") -> "HuggingFaceEncoder":
    """Load a model; int8 runs on the CPU, and a request for a GPU is rejected."""
    folder = model_folder(config.path, config.id, config.revision)
    on_cpu = config.precision == "int8" and device == "auto"
    return HuggingFaceEncoder(config, folder, "cpu" if on_cpu else resolve_device(device))


def resolve_device(device: Device) -> str:
    """Return `cpu` or `cuda`; `auto` is the GPU if there is one."""
    if device not in get_args(Device):
        raise EncoderError(f"device is {device!r}. Set device to 'auto', 'cpu' or 'cuda'")
    if device == "cuda" and not torch.cuda.is_available():
        raise EncoderError("device is 'cuda', but there is no usable GPU. Set device to 'auto' or 'cpu'")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


class _Run(NamedTuple):
    """Output of a model for a batch."""

    hidden: States
    vectors: Float[Tensor, "rows dim"]
    seen: Bool[np.ndarray, "rows length"]  # what is visible


class HuggingFaceEncoder:
    """An `Encoder` over a transformers model; make one with `load`.

    The rounding of a matrix product depends on its shape. So the shape of a text's batch depends only on the text
    (`batch_shapes`): its vector and states are the same to the bit, whatever is encoded with it, on the same device
    with the same number of threads. On a CPU, few texts get a smaller batch, of a shape whose first results equalled
    those of the full shape to the bit, as on most processors: a single text takes a sixth of the time. Only if a GPU
    runs out of memory are later batches smaller, and last bits may differ; set `batch_tokens` to the value in the
    warning to make them equal again.
    """

    def __init__(self, config: HuggingFaceConfig, folder: Path, device: str) -> None:
        self._config, self._device = config, device
        tokeniser = load_tokeniser(folder)
        model = load_model(folder, pooling=config.pooling)
        check_length(model, tokeniser, config.max_length, folder)
        if missing := missing_layers(config.layer, model.config.num_hidden_layers):
            remedy = f"Choose 0 (embeddings) to {model.config.num_hidden_layers}, or -1 for the last"
            raise EncoderError(located(folder, None, f"there is no layer {missing[0]}", remedy))
        self._model = model.to(device)
        if config.precision == "bfloat16":
            round_weights(self._model, device)
            use_onednn(self._model, BATCH_TOKENS["cpu"], torch.bfloat16)
            use_attention(self._model, batched=True)
        if config.precision == "int8":
            _round_to_int8(self._model, config, device, len(tokeniser))
        elif config.products == "onednn":
            use_onednn(self._model, BATCH_TOKENS["cpu"], torch.float32)
        self._tokenise = TextTokeniser(tokeniser.backend_tokenizer, tokeniser.mask_token, config.max_length)
        self._pad = tokeniser.pad_token_id or 0
        self._vocabulary: int | None = getattr(model.config, "vocab_size", None)  # number of known tokens
        self._budget = config.batch_tokens or BATCH_TOKENS[device]
        self._has_equal_bits: dict[_Shape, bool] = {}  # smaller shapes compared with the full one
        self.name, self.dim = config.name, states_width(model, config.layer)
        self.vector_dtype: FloatName = config.vector_dtype
        self.states_dtype: StatesName = config.states_dtype
        self.fingerprint = encoder_fingerprint(config, files_fingerprint(folder, config.pooling))

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        """See `Encoder.encode`. Longest texts come first, so that a batch too large for the device fails at once."""
        starts = range(0, len(texts), _WINDOW_TEXTS)
        windows = [texts[start : start + _WINDOW_TEXTS] for start in starts]
        calls = (partial(self._tokenise, [self._config.prefix + text for text in window]) for window in windows)
        # The GPU computes one window while the otherwise idle CPU tokenises the next.
        tokenised = (call() for call in calls) if self._device == "cpu" else one_ahead(calls)
        for start, window, tokens in zip(starts, windows, tokenised, strict=True):
            for batch in self._encode_window(window, tokens, states=states):
                yield replace(batch, indices=batch.indices + start)

    def _encode_window(self, texts: Sequence[str], tokens: TokenisedTexts, *, states: bool) -> Iterator[EncodedBatch]:
        known, largest = self._vocabulary, int(tokens.ids.max(initial=0))
        if known is not None and largest >= known:
            problem = f"the tokeniser gives token {largest}, but the model has only tokens below {known:,}"
            raise EncoderError(f"{self.name}: {problem}; check its tokenizer.json")
        if cut := int(tokens.truncated.sum()):
            log.warning("%s: %d of %d texts are longer than %d tokens and were cut",
                           self.name, cut, len(texts), self._config.max_length)  # fmt: skip
        pending = None
        for width, group in batch_shapes(tokens, self._config.max_length):
            position = 0
            while position < len(group):
                rows = group[position : position + self._rows(width)]
                launched = self._launch(tokens, rows, width, states=states)
                if launched is None:
                    self._budget //= 2
                    torch.cuda.empty_cache()
                    log.warning("%s: out of GPU memory, continuing with %d tokens per batch", self.name, self._budget)
                    continue
                position += len(rows)
                if pending is not None:  # fetch a batch while the device computes the next one
                    yield pending()
                pending = partial(self._fetch, texts, rows, int(tokens.truncated[rows].sum()), launched)
        if pending is not None:
            yield pending()

    def _rows(self, width: int) -> int:
        return max(self._budget // width, 1)

    def _launch(self, tokens: TokenisedTexts, rows: _Rows, width: int, *, states: bool) -> _Launched | None:
        """Start a batch and its transfer to the CPU; None if the GPU has too little memory.

        The caller frees memory once the error is gone, which keeps alive all that the batch has computed.
        """
        try:
            computed = self._forward(tokens, rows, width, states=states)
        except torch.OutOfMemoryError as error:
            if self._rows(width) == 1:
                raise EncoderError(f"{self.name}: one text does not fit on the GPU. Lower max_length") from error
            return None
        event = None
        if self._device == "cuda":  # queued before the next batch, or it would wait for that one too
            vectors, kept, lengths = computed
            kept = None if kept is None else kept.to("cpu", non_blocking=True)
            computed = (vectors.to("cpu", non_blocking=True), kept, lengths)
            event = torch.cuda.Event()
            event.record()
        return computed, event

    @torch.inference_mode()
    def _forward(self, tokens: TokenisedTexts, rows: _Rows, width: int, *, states: bool) -> _Computed:
        run = self._run(tokens, rows, width)
        seen, kept = run.seen[: len(rows)], None
        if states:
            positions = to_device(np.flatnonzero(seen), self._device)
            kept = run.hidden.flatten(0, 1).index_select(0, positions)
            kept = kept.to(torch.float32 if self.states_dtype == "float32" else torch.float16)
        return run.vectors[: len(rows)], kept, seen.sum(1)

    def _run(self, tokens: TokenisedTexts, rows: _Rows, width: int) -> _Run:
        """Run the model on rows with the smallest shape whose results equal the full shape's to the bit."""
        full, count = self._rows(width), 1 << (len(rows) - 1).bit_length()
        is_full = bool(padded(tokens, rows, self._pad, width)[1].all())
        while self._device == "cpu" and count < full:
            shape = (count, width, is_full)
            if self._has_equal_bits.get(shape, True):
                few = self._run_filled(tokens, rows, width, count)
                if shape in self._has_equal_bits:
                    return few
                many = self._run_filled(tokens, rows, width, full)
                pairs = ((few.hidden, many.hidden), (few.vectors, many.vectors))
                self._has_equal_bits[shape] = all(torch.equal(left, right[:count]) for left, right in pairs)
                return many
            count *= 2
        return self._run_filled(tokens, rows, width, full)

    def _run_filled(self, tokens: TokenisedTexts, rows: _Rows, width: int, count: int) -> _Run:
        """Run the model on a batch of `count` rows: `rows`, repeated."""
        ids, seen = padded(tokens, np.resize(rows, count), self._pad, width)
        visible = to_device(seen, self._device)
        # transformers searches for a masked position, and the CPU would wait for the GPU's answer.
        is_full = self._device != "cpu" and bool(seen.all())
        ids_there = to_device(ids, self._device)
        hidden, pooled = run_model(self._model, ids_there, None if is_full else visible, layer=self._config.layer)
        return _Run(hidden, pool_states(hidden.float(), pooled, visible, pooling=self._config.pooling), seen)

    def _fetch(self, texts: Sequence[str], rows: _Rows, truncated: int, launched: _Launched) -> EncodedBatch:
        (on_cpu, states, lengths), event = launched
        if event is not None:
            event.synchronize()
        vectors = on_cpu.numpy()
        if not (finite := np.isfinite(vectors).all(axis=1)).all():
            text = texts[int(rows[np.flatnonzero(~finite)[0]])]
            raise EncoderError(
                f"encoder {self.name!r}: the vector of text {text[:80]!r} (key {text_key(text)}) is not finite. "
                "Set precision to 'float32', or correct the text"
            )
        return EncodedBatch(rows, vectors, None if states is None else states.numpy(), lengths, truncated)


def _round_to_int8(model: nn.Module, config: HuggingFaceConfig, device: str, vocabulary: int) -> None:
    """Compute products in int8, calibrated with random tokens that show how large each column of the states gets."""
    if device != "cpu":
        remedy = "Set precision to 'bfloat16', or device to 'cpu'"
        raise EncoderError(f"encoder {config.name!r}: int8 needs a CPU. {remedy}")
    ids = torch.from_numpy(np.random.default_rng(0).integers(vocabulary, size=_CALIBRATION))
    try:
        with torch.inference_mode():
            use_int8(model, lambda: model(input_ids=ids, attention_mask=torch.ones_like(ids)))
    except ValueError as error:
        raise EncoderError(f"encoder {config.name!r}: {error}. Set precision to 'float32'") from error
    use_attention(model, batched=True)


def to_device(array: np.ndarray, device: str) -> Tensor:
    """Return an array as a tensor on the device; the CPU does not wait for a copy to a GPU, since memory is pinned."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device == "cuda" else tensor).to(device, non_blocking=True)


def pool_states(
    hidden: States, pooled: Tensor | None, visible: Visible, *, pooling: Pooling
) -> Float[Tensor, "rows dim"]:
    """Return one vector per text: the state at position 0, the mean over visible positions, or the pooler's output."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling != "mean":
        if pooled is None:
            raise ValueError(f"pooling is {pooling!r}, but the model was loaded without a pooler")
        return pooled.float()
    weights = visible.to(hidden.dtype)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.bmm(weights.unsqueeze(1), hidden).squeeze(1)


def batch_shapes(tokens: TokenisedTexts, longest: int) -> Iterator[tuple[int, _Rows]]:
    """Yield groups of texts that may share a batch, and the width they are padded to, widest first.

    Widths are `padded_widths`, at most `longest`. Texts that fill the width are kept apart from those with masked
    positions: transformers runs another kernel if nothing in a batch is masked.
    """
    widths = np.minimum(padded_widths(tokens.lengths), np.maximum(longest, tokens.lengths).clip(1))
    seen = np.concatenate([[0], np.cumsum(~tokens.hidden)])
    is_full = np.diff(seen[tokens.offsets]) == widths
    for group in equal_runs(np.lexsort((is_full, -widths)), widths, is_full):
        yield int(widths[group[0]]), group


def padded(
    tokens: TokenisedTexts, rows: _Rows, pad: int, width: int | None = None
) -> tuple[Int[np.ndarray, "rows length"], Bool[np.ndarray, "rows length"]]:
    """Return ids and a mask of the positions to attend to, padded to `width` or, without it, to the longest row."""
    steps = np.arange(tokens.lengths[rows].max() if width is None else width)
    is_token = steps < tokens.lengths[rows][:, None]
    positions = tokens.offsets[rows][:, None] + np.where(is_token, steps, 0)
    return np.where(is_token, tokens.ids[positions], pad), is_token & ~tokens.hidden[positions]
