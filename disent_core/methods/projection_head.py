"""Fit and apply `projection`: least squares in float64."""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.methods.families.unseeded import BLOCK_ROWS, Solution, mean_vector, part
from disent_core.methods.projection import ProjectionConfig
from disent_core.text import language_part
from disent_core.training.blocks import in_fixed_shapes
from disent_core.training.data import TrainingData, VectorBank


def solve(data: TrainingData, config: ProjectionConfig) -> Solution:
    """Return `weight.<language>` [dim, dim] and `bias.<language>` [dim]; those of the pivot are the identity."""
    pivot, solution = pivot_of(data), {}
    for label, language in enumerate(data.languages):
        if label == pivot:
            weight, bias = torch.eye(data.dim, dtype=torch.float64), torch.zeros(data.dim, dtype=torch.float64)
        else:
            weight, bias = least_squares(data.vectors, *parallel_rows(data, label, pivot), ridge=config.ridge)
        solution |= {f"weight.{language}": weight, f"bias.{language}": bias}
    return solution


def pivot_of(data: TrainingData) -> int:
    """Return the label of English or, without it, of the first language."""
    return next((label for label, language in enumerate(data.languages) if language_part(language) == "en"), 0)


def parallel_rows(data: TrainingData, label: int, pivot: int) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Return rows of a language's training texts and of their translations into the pivot, on whichever side."""
    pairs, texts, translations = data.splits["train"], [], []
    for side, other_side in (("source", "target"), ("target", "source")):
        is_pair = (pairs.language[side] == label) & (pairs.language[other_side] == pivot)
        texts.append(pairs.text[side][is_pair])
        translations.append(pairs.text[other_side][is_pair])
    if not sum(map(len, texts)):
        missing = f"{data.languages[label]!r} has no training pair with {data.languages[pivot]!r}"
        raise TrainingError(f"{missing}. Give the method pairs of its own, without this one")
    return torch.cat(texts), torch.cat(translations)


def least_squares(
    bank: VectorBank, inputs: Int[Tensor, " rows"], outputs: Int[Tensor, " rows"], *, ridge: float
) -> tuple[Float64[Tensor, "dim dim"], Float64[Tensor, " dim"]]:
    """Return W and b that minimise sum |x W + b - y|² + ridge |W|², by the normal equations in float64.

    Of several solutions (fewer pairs than dimensions) it is the one of least norm. Only a block of rows is in memory.
    """
    # With centered x and y the bias drops out of the normal equations: (x'x + ridge I) W = x'y.
    mean_x, mean_y = mean_vector(bank, inputs), mean_vector(bank, outputs)
    gram = ridge * torch.eye(bank.dim, dtype=torch.float64)
    cross = torch.zeros_like(gram)
    for rows_x, rows_y in zip(inputs.split(BLOCK_ROWS), outputs.split(BLOCK_ROWS), strict=True):
        x, y = bank.take(rows_x).double() - mean_x, bank.take(rows_y).double() - mean_y
        gram.addmm_(x.T, x)
        cross.addmm_(x.T, y)
    weight = torch.linalg.lstsq(gram, cross, driver="gelsd").solution
    return weight, mean_y - mean_x @ weight


def apply(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: ProjectionConfig
) -> Float64[Tensor, "texts dim"]:
    """Map vectors into the pivot's space."""
    bias, weight = part(solution, "bias", language), part(solution, "weight", language)
    mapped = in_fixed_shapes(lambda rows: torch.addmm(bias, rows, weight), vectors)
    return mapped - mapped.mean(0) if config.center == "test" else mapped
