"""One pure function per loss term: tensors in, one value per row out.

No reduction, no weight, no state: heads take means, add terms up and log each by its name. Cosine similarity
is taken here, so rows need not have unit norm; a zero row has similarity 0 to everything.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

_TINY = 1e-8
"""A row of a smaller norm counts as zero."""


def cosine(left: Float[Tensor, "batch dim"], right: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
    """Cosine similarity of each row with the row of the same index, -1 to 1."""
    return cosines((left, right), ((0, 1),))[0]


def cosines(
    rows: Sequence[Float[Tensor, "batch dim"]], pairs: Sequence[tuple[int, int]]
) -> tuple[Float[Tensor, " batch"], ...]:
    """`cosine` of each of some pairs of matrices: matrices that are in several pairs are read less often."""
    return _Cosines.apply(tuple(pairs), *rows).unbind(0)


def cosine_distance(left: Float[Tensor, "batch dim"], right: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
    """1 - cosine similarity, 0 to 2: pulls two rows together."""
    return 1 - cosine(left, right)


def hinged_cosine(left: Float[Tensor, "batch dim"], right: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
    """max(0, cosine similarity): pushes two rows apart until they are orthogonal (DREAM, L_M^m)."""
    return cosine(left, right).clamp_min(0)


def squared_error(
    prediction: Float[Tensor, "batch dim"], target: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """Mean over the dimensions of the squared difference (DREAM, L_R; FMDA, Eq. 2 to 4)."""
    return F.mse_loss(prediction, target, reduction="none").mean(dim=-1)


def cross_entropy(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Cross-entropy of a classifier, in nats (language identification in DREAM, MEAT and FMDA)."""
    return F.cross_entropy(logits, labels, reduction="none")


def uniform_cross_entropy(logits: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
    """Cross-entropy with the uniform distribution, in nats, at least log classes (MEAT, L_A): nothing to tell apart."""
    return -logits.log_softmax(dim=-1).mean(dim=-1)


def orthogonality_penalty(
    cosines: Float[Tensor, " batch"], *, form: Literal["hinge", "abs", "square"]
) -> Float[Tensor, " batch"]:
    """How far two rows of that cosine similarity are from orthogonal, 0 to 1; the hinge lets it be negative."""
    if form == "hinge":
        return cosines.clamp_min(0)
    return cosines.abs() if form == "abs" else cosines.square()


def linear_contrast(
    left: Float[Tensor, "batch dim"],
    right: Float[Tensor, "batch dim"],
    left_negative: Float[Tensor, "batch dim"],
    right_negative: Float[Tensor, "batch dim"],
) -> Float[Tensor, " batch"]:
    """-cos(left, right) + cos(left, its negative) + cos(right, its negative), -3 to 3 (FMDA, L_con).

    Neither hinge nor margin bounds it, as published: pushing negatives to the antipode keeps paying.
    """
    return -cosine(left, right) + cosine(left, left_negative) + cosine(right, right_negative)


def hinged_contrast(
    left: Float[Tensor, "batch dim"],
    right: Float[Tensor, "batch dim"],
    left_negative: Float[Tensor, "batch dim"],
    right_negative: Float[Tensor, "batch dim"],
) -> Float[Tensor, " batch"]:
    """The linear contrast with DREAM's hinge at 0 on the negatives, 0 to 4: orthogonal is far enough."""
    return cosine_distance(left, right) + hinged_cosine(left, left_negative) + hinged_cosine(right, right_negative)


def info_nce_both_ways(
    left: Float[Tensor, "batch dim"],
    right: Float[Tensor, "batch dim"],
    left_negative: Float[Tensor, "batch dim"],
    right_negative: Float[Tensor, "batch dim"],
    *,
    temperature: float,
) -> Float[Tensor, " batch"]:
    """Pull each row to its own partner, away from the batch's other partners and its own negative; sum of both ways.

    Equation 4 of van den Oord et al. 2018, https://arxiv.org/abs/1807.03748, over cosine / temperature, in
    nats, with one more candidate for each row: `in_batch_softmax` has none, and excludes some.
    """
    logits = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T / temperature
    forth = torch.logaddexp(logits.logsumexp(dim=1), cosine(left, left_negative) / temperature)
    back = torch.logaddexp(logits.logsumexp(dim=0), cosine(right, right_negative) / temperature)
    return forth + back - 2 * logits.diagonal()


def mean_pairwise_cosine(
    rows: Float[Tensor, "batch dim"], members: Float[Tensor, "batch groups"], *, diagonal: bool
) -> Float[Tensor, " batch"]:
    """Mean cosine similarity of each row with the other rows of its group, -1 to 1 (ORACLE, Eq. 5, inner mean).

    With the sum S of a group's n unit vectors, the n - 1 others add up to S - u: O(batch dim) where a matrix of
    all pairs takes O(batch^2 dim). Over a group its mean is (|S|^2 - n) / (n (n - 1)).

    Args:
        rows: any vectors.
        members: 1 where a row is in a group, else 0; every row is in one group.
        diagonal: count each row's similarity with itself too, as the authors' code does.

    Returns:
        One value a row; 1, and no gradient, for a row without others.
    """
    unit = rows / _norm(rows).unsqueeze(-1)
    all_of_them = (unit * (members @ (members.mT @ unit))).sum(-1)
    counts = members @ members.sum(dim=0)
    if diagonal:
        return all_of_them / counts
    others = (all_of_them - unit.square().sum(-1)) / (counts - 1).clamp_min(1)
    return torch.where(counts > 1, others, torch.ones_like(others))


class _Cosines(torch.autograd.Function):
    """Norms once a matrix, and a gradient in a pass a matrix and two a pair: torch's own takes five times as many.

    Dimensions before the last two may count seeds.
    """

    @staticmethod
    def forward(pairs: Sequence[tuple[int, int]], *rows: Tensor) -> Tensor:
        norms = [_norm(own) for own in rows]
        return torch.stack([(rows[i] * rows[j]).sum(-1) / (norms[i] * norms[j]) for i, j in pairs])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.pairs, *rows = inputs
        ctx.save_for_backward(output, *rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """d cos(a, b) / d a = b / (|a| |b|) - a cos(a, b) / |a|^2."""
        (gradient,), (cosine, *rows) = gradients, ctx.saved_tensors
        norms = [_norm(own) for own in rows]
        found: list[Tensor | None] = [None] * len(rows)
        for index in (index for index in range(len(rows)) if ctx.needs_input_grad[1 + index]):
            others = [(row, sum(pair) - index) for row, pair in enumerate(ctx.pairs) if index in pair]
            along = sum((gradient[row] * cosine[row] for row, _ in others), torch.zeros_like(cosine[0]))
            total = rows[index] * (-along / norms[index].square()).unsqueeze(-1)
            for row, other in others:
                total.addcmul_(rows[other], (gradient[row] / (norms[index] * norms[other])).unsqueeze(-1))
            found[index] = total
        return None, *found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        rows = [
            own.expand(info.batch_size, *own.shape) if dim is None else own.movedim(dim, 0)
            for own, dim in zip(inputs[1:], in_dims[1:], strict=True)
        ]
        return _Cosines.apply(inputs[0], *rows), 1


def _norm(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, dim=-1).clamp_min(_TINY)
