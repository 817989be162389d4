"""Plain floats and loops, against which tests hold the linear heads, and batches for both."""

import math
from collections.abc import Mapping, Sequence

import torch
from synthetic import random_rows

SIDES = ("source", "target")
DIM, PAIRS, LANGUAGES = 5, 6, 3
SOURCE_LANGUAGE, TARGET_LANGUAGE = [0, 0, 1, 0, 0, 1], [1, 2, 2, 1, 2, 0]

Vector = list[float]


def dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def cosine(left: Vector, right: Vector) -> float:
    return dot(left, right) / math.sqrt(dot(left, left)) / math.sqrt(dot(right, right))


def plus(left: Vector, right: Vector) -> Vector:
    return [a + b for a, b in zip(left, right, strict=True)]


def hinge(value: float) -> float:
    return max(0.0, value)


def through(layer: torch.nn.Linear, x: Vector) -> Vector:
    return [dot(row, x) + bias for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def cross_entropy(logits: Vector, label: int) -> float:
    return math.log(sum(math.exp(value) for value in logits)) - logits[label]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def unit(vector: Vector) -> Vector:
    norm = math.sqrt(dot(vector, vector))
    return [value / norm for value in vector]


def values(terms: Mapping[str, torch.Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in terms.items()}


def picked(query: Vector, candidates: Sequence[Vector], allowed: Sequence[int], gold: int, temperature: float) -> float:
    return cross_entropy([cosine(query, candidates[row]) / temperature for row in allowed], allowed.index(gold))


def contrast(
    left: Sequence[Vector], right: Sequence[Vector], left_texts: list[int], right_texts: list[int], temperature: float
) -> float:
    """Find the row of the other side, in both directions; rows that share a text are no negatives."""
    losses = []
    for i in range(len(left)):
        shared = [left_texts[j] == left_texts[i] or right_texts[j] == right_texts[i] for j in range(len(left))]
        allowed = [j for j in range(len(left)) if j == i or not shared[j]]
        losses += [picked(left[i], right, allowed, i, temperature), picked(right[i], left, allowed, i, temperature)]
    return mean(losses)


def one_pool(sides: Sequence[Sequence[Vector]], texts: Sequence[Sequence[int]], temperature: float) -> float:
    """Mean loss of picking each translation of a text of all sides; groups that share a text are left out."""
    places, losses = [(side, group) for side in range(len(sides)) for group in range(len(sides[0]))], []
    of_group = [{numbers[group] for numbers in texts} for group in range(len(sides[0]))]
    for side, group in places:
        others = [(a, b) for a, b in places if not of_group[b] & of_group[group]]
        for gold in range(len(sides)):
            if gold != side:
                candidates = [sides[gold][group], *(sides[a][b] for a, b in others)]
                losses.append(picked(sides[side][group], candidates, range(len(candidates)), 0, temperature))
    return mean(losses)


def batch_of(*roles: str) -> dict[str, torch.Tensor]:
    """Random pairs of a mixture of languages, as the sampler gives them."""
    vectors = torch.stack([random_rows(PAIRS, DIM, seed=seed) for seed in range(len(roles))])
    languages = {"source_language": SOURCE_LANGUAGE, "target_language": TARGET_LANGUAGE}
    if "source_second_half" in roles:
        languages |= {
            "source_second_half_language": [1, 0, 0, 0, 1, 0],
            "target_second_half_language": [2, 1, 1, 2, 0, 1],
        }
    return {
        "role_vectors": vectors,
        **{f"{role}_vectors": matrix for role, matrix in zip(roles, vectors, strict=True)},
        **{name: torch.tensor(labels) for name, labels in languages.items()},
    }


def split(head: torch.nn.Module, batch: dict[str, torch.Tensor], role: str) -> tuple[list[Vector], ...]:
    rows = batch[f"{role}_vectors"].tolist()
    return rows, [through(head.meaning, e) for e in rows], [through(head.language, e) for e in rows]
