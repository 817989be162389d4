"""Add a language to a static model from translations, leaving all its rows as they are.

Each text of the new language is pulled towards the fixed vector of its translation, in contrast to the texts of both
languages in a step. Only rows of the table that the model has never trained are trained, so vectors of other languages
stay the same, except for texts that read one of these rows.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.losses.contrastive import one_pool_softmax
from disent_core.methods.modules.hashed_words import Ragged, ngram_bags
from disent_core.optimisation.seeds import generator
from disent_core.static_model import StaticModel

_LEARNING_RATE = 3e-3  # of Adam
_TEMPERATURE = 0.1  # divisor of the cosines
_AT_LEAST = 2  # texts from which on a row is trained; rarer ones stay random


def with_language(
    model: StaticModel,
    texts: Sequence[str],
    translations: Sequence[str],
    language: str,
    *,
    seed: int = 0,
    batch_size: int = 512,
    steps: int = 300,
) -> StaticModel:
    """Return a model with one more language, learned from at least two texts and a translation of each.

    A step has `batch_size` texts beside their translations. There are at least this many steps, and at least a pass
    over the texts, whose order is that of `seed`.
    """
    bags, anchors = ngram_bags(texts, model.header.table_rows), torch.from_numpy(model.encode(translations))
    numbers = torch.cat([bags.words.take(bags.texts.values).values]).unique().numpy()
    is_trained = (bags.row_frequencies()[numbers] >= _AT_LEAST).numpy() & ~model.has_rows(numbers)
    free = torch.nn.Parameter(torch.from_numpy(model.rows_of(numbers[is_trained])))
    order = np.concatenate([numbers[~is_trained], numbers[is_trained]])
    place = torch.full((model.header.table_rows,), -1)
    place[torch.from_numpy(order)] = torch.arange(len(order))
    fixed = torch.from_numpy(model.rows_of(numbers[~is_trained]))
    equal = _numbers_of(texts), _numbers_of(translations)
    optimiser = torch.optim.Adam([free], lr=_LEARNING_RATE)
    for chosen in _batches(len(texts), seed, batch_size, steps):
        batch = bags.take(chosen)
        words = Ragged(place[batch.words.values], batch.words.starts)
        vectors = batch.texts.sums(words.sums(torch.cat([fixed, free])))
        terms = (
            _contrast(left, right, [side[chosen] for side in equal])
            for left, right in _parts(model, vectors, anchors[chosen])
        )
        optimiser.zero_grad()
        sum(terms).backward()  # pyright: ignore[reportAttributeAccessIssue] - there is at least one part
        optimiser.step()
    return model.with_rows(numbers[is_trained], free.detach().numpy(), language)


def _numbers_of(texts: Sequence[str]) -> Int[Tensor, " texts"]:
    """Return a number for each text, the same for equal texts."""
    return torch.from_numpy(np.unique(np.array(texts), return_inverse=True)[1])


def _batches(count: int, seed: int, size: int, steps: int) -> list[Int[Tensor, " batch"]]:
    random, batches = generator(seed, "added_language", 0), []
    while len(batches) < steps:
        batches += [part for part in torch.randperm(count, generator=random).split(size) if len(part) > 1]
        if not batches:
            raise ValueError("adding a language needs at least two texts")
    return batches


def _parts(
    model: StaticModel, vectors: Float[Tensor, "texts dim"], anchors: Float[Tensor, "texts dim"]
) -> list[tuple[Tensor, Tensor]]:
    """Return unit vectors of texts and their translations, for the meaning and for each part."""
    widths = list(model.header.parts.values())
    left, right = ([F.normalize(part, dim=1) for part in side.split(widths, dim=1)] for side in (vectors, anchors))
    scale = len(widths) ** -0.5
    meaning = (torch.cat(left, dim=1) * scale, torch.cat(right, dim=1) * scale)
    return [meaning, *(zip(left, right, strict=True) if len(widths) > 1 else ())]


def _contrast(
    left: Float[Tensor, "texts dim"], right: Float[Tensor, "texts dim"], equal: Sequence[Tensor]
) -> Float[Tensor, ""]:
    sides = torch.stack([left, right])
    cosines = torch.einsum("sgd,tcd->sgtc", sides, sides)
    excluded = (equal[0][:, None] == equal[0]) | (equal[1][:, None] == equal[1])
    return one_pool_softmax(cosines, excluded, temperature=_TEMPERATURE).mean()
