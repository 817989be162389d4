"""Prepare texts for masked-language modelling: a tokeniser, batches of similar length, dynamic masks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32, Int64
from torch import Tensor

from disent_core.encoders.kinds.scratch import Algorithm
from disent_core.encoders.tokens import ids_of
from disent_core.storage.results import write_result
from disent_core.storage.text_columns import blocks

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Ids 0 to 4; XLM-R has the mask token last, which would move with the size of the vocabulary."""
PAD, MASK_ID, ORDINARY = 1, 4, 5
"""Ids of padding and of the mask, and the first id that is no special token."""


def train_tokeniser(texts: Iterable[str], algorithm: Algorithm, vocab_size: int, path: Path) -> None:
    """Train a tokeniser with XLM-R's special tokens and write it to `path`."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = [AddedToken(token, special=True, lstrip=token == "<mask>") for token in SPECIAL_TOKENS]
    shared = {"vocab_size": vocab_size, "special_tokens": special, "show_progress": False}
    if algorithm == "bpe":
        tokeniser = Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(min_frequency=2, **shared)
    else:
        tokeniser = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **shared)
    tokeniser.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokeniser.pre_tokenizer = pre_tokenizers.Metaspace()
    tokeniser.train_from_iterator(texts, trainer)
    tokeniser.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    with write_result(path) as beside:
        tokeniser.save(str(beside))


@dataclass(frozen=True)
class Sequences:
    """Token ids of texts one after another, special tokens included, and the size of the vocabulary."""

    ids: Int32[np.ndarray, " tokens"]
    lengths: Int[np.ndarray, " texts"]
    vocab_size: int

    @cached_property
    def _ends(self) -> Int[np.ndarray, " texts"]:
        return np.cumsum(self.lengths)

    def of(self, text: int) -> Int64[np.ndarray, " length"]:
        """Ids of a text."""
        end = self._ends[text]
        return self.ids[end - self.lengths[text] : end].astype(np.int64)


def read_sequences(
    texts: Sequence[str], pairs: Sequence[tuple[str, str]], max_length: int, tokeniser: Path
) -> Sequences:
    """Return the ids of the texts and, as one sequence each, of the translation pairs."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokeniser))
    loaded.enable_truncation(max_length)
    ids, lengths = ids_of(loaded, chain(blocks(texts), blocks(pairs)))
    return Sequences(ids, lengths, loaded.get_vocab_size())


def plan_epoch(
    lengths: Int[np.ndarray, " texts"], batch_tokens: int, seed: tuple[int, int]
) -> list[Int[np.ndarray, " rows"]]:
    """Return batches of texts of similar length within the token budget, as many in every epoch, shuffled."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(lengths))
    order = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    batches, start = [], 0
    while start < len(order):
        # The longest of a batch is its last: the largest n with n * length <= budget.
        ahead = lengths[order[start : start + batch_tokens]]
        size = max(int(np.searchsorted(ahead * np.arange(1, len(ahead) + 1), batch_tokens, side="right")), 1)
        batches.append(order[start : start + size])
        start += size
    return [batches[index] for index in random.permutation(len(batches))]


def mask_tokens(
    ids: Int[Tensor, "rows length"], *, vocab_size: int, probability: float, generator: torch.Generator
) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, "rows length"]]:
    """Return ids as the model sees them, and the positions that it predicts (at least one in each batch).

    Of the predicted tokens 80 % are masked, 10 % are another token of the vocabulary and 10 % stay.
    """
    draw = torch.rand(ids.shape, generator=generator).masked_fill(ids < ORDINARY, 2.0)
    chosen = (draw < probability) | ((draw == draw.min()) & (draw < 1))
    kind = torch.rand(ids.shape, generator=generator)
    random_ids = torch.randint(ORDINARY, vocab_size, ids.shape, generator=generator)
    seen = torch.where(chosen & (kind < 0.8), MASK_ID, ids)
    return torch.where(chosen & (kind >= 0.9), random_ids, seen), chosen
