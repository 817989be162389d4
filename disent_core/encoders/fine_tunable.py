"""An encoder that is tuned: a transformers model with gradients, its tokeniser and its pooling."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import load_model, load_tokeniser, longest_input
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.huggingface import padded, pool_states, run_model
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts
from disent_core.errors import EncoderError, located
from disent_core.matmul import Precision, arithmetic
from disent_core.progress import Progress

log = logging.getLogger(__name__)

_BATCH_TOKENS = {"cpu": 1_536, "cuda": 65_536}


class TunableEncoder(nn.Module):
    """Texts in, vectors out, weights free: dropout is on in training mode.

    Args:
        files: the model, its pooling, layer and longest input.
        device: `cpu` or `cuda`.
        precision: of the model's products.

    Raises:
        EncoderError: if the model can't be loaded, or reads fewer than `files.max_length` tokens.
    """

    def __init__(self, files: EncoderFiles, device: str, precision: Precision = "float32") -> None:
        super().__init__()
        tokeniser = load_tokeniser(files.folder)
        self.model = load_model(files.folder, pooling=files.pooling).requires_grad_(True).to(device)
        check_length(self.model, tokeniser, files.max_length, files.folder)
        self.tokenise = TextTokeniser(tokeniser.backend_tokenizer, tokeniser.mask_token, files.max_length)
        self.pad = tokeniser.pad_token_id or 0
        self.files, self.device = files, device
        self.precision: Precision = precision
        self.dim = int(self.model.config.hidden_size)

    def forward(self, tokens: TokenisedTexts, rows: Int[np.ndarray, " rows"]) -> Float[Tensor, "rows dim"]:
        """Vectors of some of the texts, one padded batch."""
        ids, visible = (torch.from_numpy(array).to(self.device) for array in padded(tokens, rows, self.pad))
        with arithmetic(self.device, self.precision):
            hidden, pooled = run_model(self.model, ids, visible, layer=self.files.layer)
        return pool_states(hidden.float(), pooled, visible, pooling=self.files.pooling).float()

    @torch.no_grad()
    def vectors(self, texts: Sequence[str]) -> Float[Tensor, "texts dim"]:
        """Vectors of all texts, without dropout, in batches of about equal length under a budget of tokens."""
        self.eval()
        tokens = self.tokenise(texts)
        if cut := int(tokens.truncated.sum()):
            log.warning("%d of %d texts are longer than %d tokens and were cut", cut, len(texts), self.files.max_length)
        order = np.argsort(-tokens.lengths, kind="stable")
        vectors = torch.empty(len(texts), self.dim, device=self.device)
        position, progress = 0, Progress(log, len(order), "texts", what="spans")
        while position < len(order):
            longest = max(int(tokens.lengths[order[position]]), 1)
            rows = order[position : position + max(_BATCH_TOKENS[self.device] // longest, 1)]
            vectors[torch.from_numpy(rows).to(self.device)] = self(tokens, rows)
            position += len(rows)
            progress.advance(position)
        return vectors


def check_length(model: nn.Module, tokeniser: object, max_length: int, folder: Path) -> None:
    """Refuse more tokens than the model has positions for.

    Raises:
        EncoderError: if `max_length` is beyond that.
    """
    if (longest := longest_input(model, tokeniser)) < max_length:
        found = f"max_length is {max_length} and the model reads {longest} tokens"
        raise EncoderError(located(folder, None, found, "Lower max_length"))
