"""Fit and apply `procrustes` and `cca` in float64."""

from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.errors import TrainingError
from disent_core.methods.alignment import CcaConfig
from disent_core.methods.families.unseeded import BLOCK_ROWS, Solution, part
from disent_core.methods.projection_head import parallel_rows, pivot_of
from disent_core.training.blocks import in_fixed_shapes
from disent_core.training.data import TrainingData, VectorBank

Moments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Means [dim] of both sides, their covariances and their cross-covariance [dim, dim]."""


def rotations(data: TrainingData, config: Any) -> Solution:
    """Return `mean.<language>` [dim] and `weight.<language>` [dim, dim]; the weight of the pivot is the identity."""
    pivot, solution = pivot_of(data), {}
    for label, language in enumerate(data.languages):
        if label == pivot:
            continue
        mean, pivot_mean, _, _, cross = _moments(data.vectors, *parallel_rows(data, label, pivot))
        left, _, right = torch.linalg.svd(cross)
        solution |= {f"mean.{language}": mean, f"weight.{language}": left @ right}
        # Of several languages the pivot keeps the mean of its texts with the last one: they differ by sampling alone.
        solution[f"mean.{data.languages[pivot]}"] = pivot_mean
    solution[f"weight.{data.languages[pivot]}"] = torch.eye(data.dim, dtype=torch.float64)
    return solution


def correlated_directions(data: TrainingData, config: CcaConfig) -> Solution:
    """Return `mean.<language>` [dim] and `weight.<language>` [dim, width] of a pair of two languages."""
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


def _moments(bank: VectorBank, rows: Int[Tensor, " rows"], other_rows: Int[Tensor, " rows"]) -> Moments:
    """Return the moments of unit vectors of texts and their translations, row by row; blocks bound the memory."""
    dim, count = bank.dim, len(rows)
    sums = torch.zeros(2, dim, dtype=torch.float64)
    products = torch.zeros(2 * dim, 2 * dim, dtype=torch.float64)
    for block, other_block in zip(rows.split(BLOCK_ROWS), other_rows.split(BLOCK_ROWS), strict=True):
        both = torch.cat([_unit(bank.take(block).double()), _unit(bank.take(other_block).double())], dim=1)
        sums += both.sum(dim=0).view(2, dim)
        products.addmm_(both.T, both)
    means = sums / count
    covariance = products / count - torch.outer(means.flatten(), means.flatten())
    return means[0], means[1], covariance[:dim, :dim], covariance[dim:, dim:], covariance[:dim, dim:]


def _unit(rows: Float64[Tensor, "rows dim"]) -> Float64[Tensor, "rows dim"]:
    return F.normalize(rows, dim=1)


def apply(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: Any
) -> Float64[Tensor, "texts width"]:
    """Map vectors of a language into the shared space."""
    mean, weight = part(solution, "mean", language), part(solution, "weight", language)
    return in_fixed_shapes(lambda rows: (_unit(rows) - mean) @ weight, vectors)
