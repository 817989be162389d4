"""Modules trained by fine-tuning: a transformers model with gradients, or a small map over its frozen vectors."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from disent_core.encoders.checkpoint import check_length, load_model, load_tokeniser
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.layers import States, Visible, run_model, states_width
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts
from disent_core.encoders.transformer import BATCH_TOKENS, batch_shapes, padded, pool_states, to_device
from disent_core.errors import TrainingError, located
from disent_core.matmul import arithmetic
from disent_core.progress import Progress
from disent_core.settings import Precision

log = logging.getLogger(__name__)

_GROUP = {"cpu": 32, "cuda": 512}
"""Texts of similar length that run together; larger groups would waste work on padding."""
_BLOCK = 4_096


class VectorMap(nn.Module):
    """A map dim -> dim over frozen vectors that starts as the identity, so training starts at the raw encoder.

    `mlp` is x + W2 gelu(W1 x + b1) + b2 with W2 = 0 at first.
    """

    def __init__(self, dim: int, kind: Literal["linear", "mlp"]) -> None:
        super().__init__()
        self.dim, self.kind = dim, kind
        last = nn.Linear(dim, dim)
        (nn.init.eye_ if kind == "linear" else nn.init.zeros_)(last.weight)
        nn.init.zeros_(last.bias)
        self.map = last if kind == "linear" else nn.Sequential(nn.Linear(dim, dim), nn.GELU(), last)

    def forward(self, inputs: Float[Tensor, "texts dim"], rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        vectors = inputs[rows.to(inputs.device)]
        return self.map(vectors) if self.kind == "linear" else vectors + self.map(vectors)


class TunableEncoder(nn.Module):
    """A transformers model with trainable weights; vectors are pooled as in the frozen encoder.

    Args:
        files: the model, its pooling, layer and longest input.
        device: `cpu` or `cuda`.
        precision: number format of the model's products; weights and optimiser stay float32.
        train_embeddings: whether the token embeddings are trained too. They are most of a multilingual model's
            weights, and a step of Adam updates all of them.
        dropout: whether the model's dropout is on in training mode.
        recompute: keep the texts' vectors but not the states behind them; the backward pass recomputes these, a group
            of texts at a time. Memory then holds one group, however large the batch.
    """

    def __init__(
        self,
        files: EncoderFiles,
        device: str,
        *,
        precision: Precision = "float32",
        train_embeddings: bool = True,
        dropout: bool = True,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        tokeniser = load_tokeniser(files.folder)
        self.model = load_model(files.folder, pooling=files.pooling).requires_grad_(True).to(device)
        self.model.get_input_embeddings().requires_grad_(train_embeddings)
        check_length(self.model, tokeniser, files.max_length, files.folder)
        self.tokeniser = tokeniser.backend_tokenizer
        self._tokenise = TextTokeniser(self.tokeniser, tokeniser.mask_token, files.max_length)
        self.pad = tokeniser.pad_token_id or 0
        self.files, self.device, self.dropout, self.recompute = files, device, dropout, recompute
        self.precision: Precision = precision
        self.dim = states_width(self.model, files.layer)

    def train(self, mode: bool = True) -> "TunableEncoder":
        """Set training mode; the model's dropout may stay off."""
        super().train(mode)
        self.model.train(mode and self.dropout)
        return self

    def prepare(self, texts: Sequence[str]) -> TokenisedTexts:
        """Return the texts as `forward` reads them, and log a warning about truncated texts."""
        tokens = self._tokenise([self.files.prefix + text for text in texts])
        if cut := int(tokens.truncated.sum()):
            log.warning("%d of %d texts are longer than %d tokens and were cut", cut, len(texts), self.files.max_length)
        return tokens

    def forward(self, inputs: TokenisedTexts, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return the vectors of some of the texts; texts of similar length run together."""
        rows, run = rows.cpu(), self._run
        order = torch.from_numpy(inputs.lengths)[rows].argsort(stable=True)
        with arithmetic(self.device, self.precision):  # one context, so each weight is cast once
            if self.recompute and torch.is_grad_enabled():
                # Gradient caching (Gao et al. 2021, https://arxiv.org/abs/2101.06983).
                # The second pass repeats the dropout of the first, so that the gradient is that of the whole batch.
                run = partial(checkpoint, self._run, use_reentrant=False)
            groups = [run(inputs, group) for group in rows[order].split(_GROUP[self.device])]
        return torch.cat(groups)[order.argsort().to(self.device)]

    def _run(self, inputs: TokenisedTexts, rows: Tensor, width: int | None = None) -> Tensor:
        arrays = padded(inputs, rows.numpy(), self.pad, width)
        ids, visible = (to_device(array, self.device) for array in arrays)
        hidden, pooled = run_model(self.model, ids, visible, layer=self.files.layer)
        with torch.autocast(self.device, enabled=False):
            return pool_states(hidden.float(), pooled, visible, pooling=self.files.pooling)

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Float[Tensor, "texts dim"]:
        """Return the vectors of texts without dropout; each is the same to the bit whatever the other texts."""
        self.eval()
        tokens, vectors = self.prepare(texts), torch.empty(len(texts), self.dim)
        progress, done = Progress(log, len(texts), "texts embedded"), 0
        with arithmetic(self.device, self.precision):
            for width, group in batch_shapes(tokens, self.files.max_length):
                size = max(BATCH_TOKENS[self.device] // width, 1)
                for rows in torch.from_numpy(group).split(size):
                    filled = rows[torch.arange(size) % len(rows)]
                    vectors[rows] = self._run(tokens, filled, width)[: len(rows)].cpu()
                    done += len(rows)
                    progress.advance(done)
        return vectors

    def states(self, ids: Int[Tensor, "rows length"], visible: Visible) -> States:
        with arithmetic(self.device, self.precision):
            hidden, _ = run_model(self.model, ids, visible, layer=self.files.layer)
        return hidden.float()

    def vectors(self, texts: Sequence[str]) -> Float[Tensor, "texts dim"]:
        """Return the vectors of all texts, without dropout."""
        return embed_all(self, self.prepare(texts), torch.arange(len(texts)))


Source = VectorMap | TunableEncoder
"""Returns sentence vectors of texts by their rows in its inputs: frozen vectors, or tokenised texts."""


@torch.no_grad()
def embed_all(source: Source, inputs: Any, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
    """Return the vectors of many texts, in order, without dropout; log progress if it takes long."""
    source.eval()
    progress = Progress(log, len(rows), "texts embedded")
    blocks, done = [torch.zeros(0, source.dim, device=next(source.parameters()).device)], 0
    for block in rows.split(_BLOCK):
        blocks.append(source(inputs, block))
        done += len(block)
        progress.advance(done)
    return torch.cat(blocks)


def check_origin(path: Path, description: Mapping[str, Any], files: EncoderFiles) -> None:
    """Reject an encoder other than the one the weights were fine-tuned from: they would fit but be meaningless."""
    stored = description.get("encoder_fingerprint", files.fingerprint)
    if stored != files.fingerprint:
        problem = f"these weights were tuned from another encoder, {stored[:12]}, not {files.fingerprint[:12]}"
        raise TrainingError(located(path, None, problem, "Give the encoder that they were trained with"))
