"""The same training in plain PyTorch: loops over padded batches, with `nn.Linear`, autocast and `torch.optim`."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.gpu.measuring import wait
from disent_core.encoders.kinds.scratch.pretraining import MASK_ID, ORDINARY, PAD
from disent_core.methods.modules.word_rows import TABLE_ROWS, rows_of_text
from disent_core.training.data import TrainingData
from disent_core.training.needs import SIDES

TEMPERATURE = 0.05


def epochs(
    batches: Callable[[], Iterator[Any]], loss: Callable[[Any], Tensor], optimisers: list[Any], device: str, kind: str
) -> Iterator[float]:
    """Yield the seconds of each epoch; the loss is read once, at its end."""
    while True:
        wait(device)
        started = time.perf_counter()
        total = torch.zeros((), device=device)
        for batch in batches():
            for optimiser in optimisers:
                optimiser.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=kind == "bfloat16"):
                value = loss(batch)
            value.backward()
            for optimiser in optimisers:
                optimiser.step()
            total += value.detach()
        total.item()
        yield time.perf_counter() - started


def shuffled(count: int, size: int) -> Callable[[], Iterator[Tensor]]:
    """Return a function that yields batches of row numbers, in a new order each time."""
    return lambda: iter(torch.randperm(count).split(size))


def padded_states(data: TrainingData, texts: Tensor, device: str) -> tuple[Tensor, Tensor]:
    """Return the token states of texts, padded to the longest and copied to the device."""
    assert data.states is not None
    values, mask = data.states.take(texts)
    return values.to(device), mask.to(device)


def both_ways(left: Tensor, right: Tensor) -> Tensor:
    """Return the loss of an in-batch softmax over cosines, in both directions."""
    cosines = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T / TEMPERATURE
    diagonal = torch.arange(len(cosines), device=cosines.device)
    return (F.cross_entropy(cosines, diagonal) + F.cross_entropy(cosines.T, diagonal)) / 2


# --- FMDA -------------------------------------------------------------------------------------------------


class PlainFmda(nn.Module):
    """FMDA with linear maps applied to every token."""

    def __init__(self, dim: int, languages: int) -> None:
        super().__init__()
        names = ("query", "key", "template", "residual", "meaning", "utterance", "language")
        self.maps = nn.ModuleDict({name: nn.Linear(dim, dim) for name in names})
        self.identity = nn.Linear(dim, languages)

    def forward(self, vectors: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return meaning, template, residual and language."""
        maps = self.maps
        scores = torch.einsum("td,tld->tl", maps["query"](vectors), maps["key"](states)).masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        others = (1 - weights).masked_fill(~mask, -torch.inf).softmax(-1)
        template = torch.einsum("tl,tld->td", weights, maps["template"](states))
        residual = torch.einsum("tl,tld->td", others, maps["residual"](states))
        return maps["meaning"](template + residual), template, residual, maps["language"](vectors)


def fmda_epochs(data: TrainingData, batch: int, device: str) -> Iterator[float]:
    """Yield the seconds per epoch of FMDA's 14 terms, with a softmax that ignores pool hardness as its contrast."""
    model = PlainFmda(data.dim, len(data.languages)).to(device)
    pairs, vectors = data.splits["train"], data.vectors.parts[0]

    def loss(rows: Tensor) -> Tensor:
        drawn = data.negatives[0][torch.randint(len(data.negatives[0]), (len(rows),))]
        sides = []
        for side in SIDES:
            texts = pairs.text[side][rows]
            given = vectors[texts].to(device)
            parts = model(given, *padded_states(data, texts, device))
            masked = [vectors[getattr(pairs, part)[side][rows]].to(device) for part in ("template", "residual")]
            negative = model(vectors[drawn].to(device), *padded_states(data, drawn, device))
            sides.append((given, *parts, *masked, negative, pairs.language[side][rows].to(device)))
        total = both_ways(sides[0][1], sides[1][1]) + both_ways(sides[0][2], sides[1][2])
        for query, other in (sides, sides[::-1]):
            given, meaning, template, residual, language, of_template, of_residual, negative, label = query
            total = total + F.cross_entropy(model.identity(language), label)
            total = total + F.mse_loss(model.maps["utterance"](language + template + residual), given)
            total = total + F.mse_loss(template + language, of_template) + F.mse_loss(residual + language, of_residual)
            total = total + F.mse_loss(template + other[4], other[5]) + F.mse_loss(residual + other[4], other[6])
            total = total + F.cosine_similarity(meaning, negative[0]).mean()
            total = total + F.cosine_similarity(template, negative[1]).mean()
        return total

    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    return epochs(shuffled(len(pairs), batch), loss, [optimiser], device, "bfloat16")


# --- facet ------------------------------------------------------------------------------------------------


def facet_epochs(data: TrainingData, batch: int, units: tuple[int, int], device: str) -> Iterator[float]:
    """Yield the seconds per epoch of facet's contrasts: units over token states, and an `EmbeddingBag` of hashed words.

    Args:
        data: pairs, each with a mate.
        batch: pairs per step.
        units: numbers over token states and over words; half of either forms the template.
        device: `cpu` or `cuda`.
    """
    states = nn.Linear(data.dim, units[0]).to(device)
    words = nn.EmbeddingBag(TABLE_ROWS, units[1], mode="sum", sparse=True, device=device)
    pairs, mates = data.splits["train"], data.mates["train"]
    text_of = {row: text for split in data.utterances.values() for part in split.values()
               for row, text in zip(part.rows.tolist(), part.texts, strict=True)}  # fmt: skip
    for side in SIDES:
        text_of |= dict(zip(mates.rows[side].tolist(), mates.texts[side], strict=True))
    rows_of = {row: torch.tensor(rows_of_text(text)) for row, text in text_of.items()}

    def parts(texts: Tensor) -> list[Tensor]:
        values, mask = padded_states(data, texts, device)
        maxima = states(values).masked_fill(~mask.unsqueeze(2), -torch.inf).amax(1)
        lists = [rows_of[row] for row in texts.tolist()]
        starts = torch.tensor([0, *(len(bag) for bag in lists[:-1])]).cumsum(0)
        bags = words(torch.cat(lists).to(device), starts.to(device))
        return [F.normalize(part, dim=-1) for reading in (maxima, bags) for part in reading.chunk(2, dim=-1)]

    def loss(rows: Tensor) -> Tensor:
        sides = [(parts(pairs.text[side][rows]), parts(mates.rows[side][rows])) for side in SIDES]
        meanings = [torch.cat([torch.cat(text, -1), torch.cat(mate, -1)]) for text, mate in sides]
        total = both_ways(meanings[0], meanings[1])
        for text, mate in sides:
            total = total + both_ways(torch.cat(text[::2], -1), torch.cat(mate[::2], -1)) / 2
            total = total + (torch.cat(text[1::2], -1) * torch.cat(mate[1::2], -1)).sum(-1).clamp_min(0).mean()
        return total

    optimisers = [torch.optim.AdamW(states.parameters(), lr=1e-2), torch.optim.SparseAdam(words.parameters(), lr=3e-3)]
    return epochs(shuffled(len(pairs), batch), loss, optimisers, device, "bfloat16")


# --- encoders ---------------------------------------------------------------------------------------------


def tuning_epochs(folder: Any, pairs: list[tuple[str, str]], batch: int, device: str, kind: str) -> Iterator[float]:
    """Yield the seconds per epoch of tuning a transformers model so that translations retrieve each other."""
    from transformers import AutoModel, AutoTokenizer

    tokeniser, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).to(device).train()

    def embedded(lines: list[str]) -> Tensor:
        given = tokeniser(lines, padding=True, truncation=True, max_length=64, return_tensors="pt").to(device)
        mask = given["attention_mask"].unsqueeze(2)
        return (model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)

    def loss(rows: Tensor) -> Tensor:
        chosen = [pairs[row] for row in rows.tolist()]
        return both_ways(embedded([left for left, _ in chosen]), embedded([right for _, right in chosen]))

    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    return epochs(shuffled(len(pairs), batch), loss, [optimiser], device, kind)


def pretraining_epochs(
    model: Any, ids: list[np.ndarray], tokens: int, probability: float, device: str
) -> Iterator[float]:
    """Yield the seconds per epoch of masked-language modelling on random batches by tokens, padded to the longest."""
    model = model.to(device).train()
    vocabulary, longest = model.config.vocab_size, max(map(len, ids))

    def loss(rows: Tensor) -> Tensor:
        sequences = [torch.from_numpy(ids[row]) for row in rows.tolist()]
        given = nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=PAD).to(device)
        chosen = (torch.rand(given.shape, device=device) < probability) & (given >= ORDINARY)
        kind = torch.rand(given.shape, device=device)
        seen = given.masked_fill(chosen & (kind < 0.8), MASK_ID)
        other = torch.randint(ORDINARY, vocabulary, given.shape, device=device)
        seen = torch.where(chosen & (kind >= 0.9), other, seen)
        labels = given.masked_fill(~chosen, -100)
        return model(input_ids=seen, attention_mask=(given != PAD).long(), labels=labels).loss

    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    kind = "bfloat16" if device == "cuda" else "float32"
    return epochs(shuffled(len(ids), max(tokens // longest, 1)), loss, [optimiser], device, kind)
