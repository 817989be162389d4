"""What is tuned: a Hugging Face encoder with gradients, or a small map over its frozen vectors."""

import logging
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.huggingface import padded, pool_states, run_model
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts
from disent_core.matmul import Precision, arithmetic
from disent_core.progress import Progress

log = logging.getLogger(__name__)


_GROUP = {"cpu": 32, "cuda": 512}
"""Texts of about equal length that are run together: padding to the longest of a large batch is wasted work."""
_BLOCK = 4_096


class VectorMap(nn.Module):
    """A map dim -> dim over frozen vectors that starts as the identity, so training starts at the raw encoder.

    `mlp` is x + W2 gelu(W1 x + b1) + b2 with W2 = 0 at first.
    """

    def __init__(self, dim: int, kind: Literal["linear", "mlp"]) -> None:
        super().__init__()
        self.dim, self.kind = dim, kind
        if kind == "linear":
            self.map: nn.Module = nn.Linear(dim, dim)
            nn.init.eye_(self.map.weight)
            nn.init.zeros_(self.map.bias)
            return
        last = nn.Linear(dim, dim)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.map = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), last)

    def forward(self, inputs: Float[Tensor, "texts dim"], rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Mapped vectors of some of the texts."""
        vectors = inputs[rows.to(inputs.device)]
        return self.map(vectors) if self.kind == "linear" else vectors + self.map(vectors)


class TunableEncoder(nn.Module):
    """A transformers model whose weights are free; its vectors are pooled as those of the frozen encoder.

    Args:
        files: the model, its pooling, layer and longest input.
        device: `cpu` or `cuda`.
        precision: of the arithmetic; weights and optimiser stay float32.
        train_embeddings: whether the token embeddings are trained too. They are most of a multilingual model's
            weights, and a step of Adam touches all of them.

    Raises:
        EncoderError: if the model can't be loaded.
    """

    def __init__(
        self, files: EncoderFiles, device: str, *, precision: Precision = "float32", train_embeddings: bool = True
    ) -> None:
        super().__init__()
        tokeniser = load_tokeniser(files.folder)
        self.model = load_model(files.folder, pooling=files.pooling).requires_grad_(True).to(device)
        self.model.get_input_embeddings().requires_grad_(train_embeddings)
        self.prepare = TextTokeniser(tokeniser.backend_tokenizer, tokeniser.mask_token, files.max_length)
        self.pad = tokeniser.pad_token_id or 0
        self.files, self.device = files, device
        self.precision: Precision = precision
        self.dim = int(self.model.config.hidden_size)

    def forward(self, inputs: TokenisedTexts, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Vectors of some of the texts; those of about equal length are run together."""
        rows = rows.cpu()
        order = torch.from_numpy(inputs.lengths)[rows].argsort(stable=True)
        with arithmetic(self.device, self.precision):  # casts each weight once
            groups = [self._run(inputs, group) for group in rows[order].split(_GROUP[self.device])]
        return torch.cat(groups)[order.argsort().to(self.device)]

    def _run(self, inputs: TokenisedTexts, rows: Tensor) -> Tensor:
        ids, visible = (torch.from_numpy(array).to(self.device) for array in padded(inputs, rows.numpy(), self.pad))
        hidden, pooled = run_model(self.model, ids, visible, layer=self.files.layer)
        with torch.autocast(self.device, enabled=False):
            return pool_states(hidden.float(), pooled, visible, pooling=self.files.pooling)


Source = VectorMap | TunableEncoder
"""Makes sentence vectors of texts, by their rows in its inputs: frozen vectors, or tokenised texts."""


@torch.no_grad()
def embed_all(source: Source, inputs: Any, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
    """Vectors of many texts, in order, without dropout; logs its progress where that takes long."""
    source.eval()
    progress = Progress(log, len(rows), "texts embedded")
    blocks, done = [torch.zeros(0, source.dim, device=next(source.parameters()).device)], 0
    for block in rows.split(_BLOCK):
        blocks.append(source(inputs, block))
        done += len(block)
        progress.advance(done)
    return torch.cat(blocks)
