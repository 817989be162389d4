"""Fit and apply the linear maps of `centered`, `projection`, `procrustes` and `cca`, in float64."""

from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.errors import TrainingError
from disent_core.methods.closed_form import CcaConfig, CenteredConfig, ProjectionConfig
from disent_core.methods.families.unseeded import BLOCK_ROWS, Solution, mean_vector, part
from disent_core.text import language_part
from disent_core.training.data import TrainingData, VectorBank, in_fixed_shapes


def language_means(data: TrainingData, config: CenteredConfig) -> Solution:
    """Return `mean.<language>`, the mean of each language's training texts."""
    return {
        f"mean.{language}": mean_vector(data.vectors, rows)
        for language, rows in zip(data.languages, data.sentences, strict=True)
    }


def subtract_mean(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: CenteredConfig
) -> Float64[Tensor, "texts dim"]:
    return vectors - (vectors.mean(0) if config.source == "test" else part(solution, "mean", language))


def least_squares_maps(data: TrainingData, config: ProjectionConfig) -> Solution:
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
    """Return the rows of a language's training texts, on either side, and of their translations into the pivot."""
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

    If several do (fewer pairs than dimensions), return those of least norm. Only a block of rows is in memory at once.
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


def map_to_pivot(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: ProjectionConfig
) -> Float64[Tensor, "texts dim"]:
    bias, weight = part(solution, "bias", language), part(solution, "weight", language)
    mapped = in_fixed_shapes(lambda rows: torch.addmm(bias, rows, weight), vectors)
    return mapped - mapped.mean(0) if config.center == "test" else mapped


def rotations(data: TrainingData, config: Any) -> Solution:
    """Return `mean.<language>` [dim] and `weight.<language>` [dim, dim]; the weight of the pivot is the identity."""
    pivot, solution = pivot_of(data), {}
    for label, language in enumerate(data.languages):
        if label == pivot:
            continue
        mean, pivot_mean, _, _, cross = _moments(data.vectors, *parallel_rows(data, label, pivot))
        left, _, right = torch.linalg.svd(cross)
        solution |= {f"mean.{language}": mean, f"weight.{language}": left @ right}
        # With several languages, the pivot keeps the mean from the last one: its means differ only by sampling.
        solution[f"mean.{data.languages[pivot]}"] = pivot_mean
    solution[f"weight.{data.languages[pivot]}"] = torch.eye(data.dim, dtype=torch.float64)
    return solution


def correlated_directions(data: TrainingData, config: CcaConfig) -> Solution:
    """Return `mean.<language>` [dim] and `weight.<language>` [dim, width] for the two languages of a pair."""
    if len(data.languages) != 2:
        names = ", ".join(data.languages)
        raise TrainingError(f"cca aligns two languages, not {names}. Give the method pairs instead of a mixture")
    first, second = data.languages
    mean, other_mean, covariance, other_covariance, cross = _moments(data.vectors, *parallel_rows(data, 0, 1))
    white, other_white = (_whitening(matrix, config.floor) for matrix in (covariance, other_covariance))
    left, correlations, right = torch.linalg.svd(white @ cross @ other_white)
    weights = correlations[: config.width].clamp_min(0) ** config.power
    return {
        f"mean.{first}": mean,
        f"mean.{second}": other_mean,
        f"weight.{first}": white @ left[:, : config.width] * weights,
        f"weight.{second}": other_white @ right.T[:, : config.width] * weights,
    }


def _whitening(covariance: Float64[Tensor, "dim dim"], floor: float) -> Float64[Tensor, "dim dim"]:
    """Return the symmetric matrix W with W covariance W = identity, up to `floor`."""
    values, axes = torch.linalg.eigh(covariance)
    return axes * (values.clamp_min(0) + floor) ** -0.5 @ axes.T


def _moments(bank: VectorBank, rows: Int[Tensor, " rows"], other_rows: Int[Tensor, " rows"]) -> tuple[Tensor, ...]:
    """Return means [dim], covariances and cross-covariance [dim, dim] of unit vectors of texts and their translations.

    Blocks bound the memory.
    """
    dim, count = bank.dim, len(rows)
    sums = torch.zeros(2, dim, dtype=torch.float64)
    products = torch.zeros(2 * dim, 2 * dim, dtype=torch.float64)
    for block, other_block in zip(rows.split(BLOCK_ROWS), other_rows.split(BLOCK_ROWS), strict=True):
        both = torch.cat([F.normalize(bank.take(rows).double()) for rows in (block, other_block)], dim=1)
        sums += both.sum(dim=0).view(2, dim)
        products.addmm_(both.T, both)
    means = sums / count
    covariance = products / count - torch.outer(means.flatten(), means.flatten())
    return means[0], means[1], covariance[:dim, :dim], covariance[dim:, dim:], covariance[:dim, dim:]


def map_to_shared_space(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: Any
) -> Float64[Tensor, "texts width"]:
    mean, weight = part(solution, "mean", language), part(solution, "weight", language)
    return in_fixed_shapes(lambda rows: (F.normalize(rows) - mean) @ weight, vectors)
