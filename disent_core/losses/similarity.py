"""Compute loss terms on pairs of rows: similarities, reconstruction, classification and contrast.

Each term is a pure function from tensors to one value per row, without reduction, weight or state: heads take means,
add terms up and log each by its name. Cosine similarity normalises here, so rows need not have unit norm; a zero row
has similarity 0 to every row.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Rows = Float[Tensor, "batch dim"]
"""Vectors, one per row."""
Values = Float[Tensor, " batch"]
"""One value per row."""
_TINY = 1e-8
"""Rows of smaller norm count as zero."""


def cosine(left: Rows, right: Rows) -> Values:
    """Cosine similarity of each row with the row of the same index, -1 to 1.

    >>> cosine(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0], [6.0, 8.0]]))
    tensor([0.7071, 1.0000])
    """
    return cosines((left, right), ((0, 1),))[0]


def cosines(rows: Sequence[Rows], pairs: Sequence[tuple[int, int]]) -> tuple[Values, ...]:
    """`cosine` of several pairs of matrices; a matrix in several pairs is normalised once.

    >>> rows = [torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[-1.0, 0.0]])]
    >>> cosines(rows, [(0, 1), (0, 2)])  # the first matrix with the second, and with the third
    (tensor([0.7071]), tensor([-1.]))
    """
    return _Cosines.apply(tuple(pairs), *rows)[0].unbind(0)


def cosine_distance(left: Rows, right: Rows) -> Values:
    """1 - cosine similarity, 0 to 2: pulls two rows together.

    >>> cosine_distance(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 2.0], [-3.0, 0.0]]))
    tensor([1., 2.])
    """
    return 1 - cosine(left, right)


def hinged_cosine(left: Rows, right: Rows) -> Values:
    """max(0, cosine similarity): pushes two rows apart until they are orthogonal (DREAM, L_M^m).

    >>> hinged_cosine(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 1.0], [-3.0, 0.0]]))
    tensor([0.7071, 0.0000])
    """
    return cosine(left, right).clamp_min(0)


def squared_error(prediction: Rows, target: Rows) -> Values:
    """Mean over the dimensions of the squared difference (DREAM, L_R; FMDA, Eq. 2 to 4).

    >>> squared_error(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 4.0], [3.0, 4.0]]))
    tensor([ 2.0000, 12.5000])
    """
    return F.mse_loss(prediction, target, reduction="none").mean(dim=-1)


def cross_entropy(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Values:
    """Cross-entropy of a classifier, in nats (used for language identification in DREAM, MEAT and FMDA).

    >>> cross_entropy(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0]))  # log 2, log(1 + 1 / e^2)
    tensor([0.6931, 0.1269])
    """
    return F.cross_entropy(logits, labels, reduction="none")


def uniform_cross_entropy(logits: Float[Tensor, "batch classes"]) -> Values:
    """Cross-entropy with the uniform distribution, in nats, at least log(classes) (MEAT, L_A).

    It is smallest where the classifier can't tell the classes apart.

    >>> uniform_cross_entropy(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))  # log 2 where the classes look alike
    tensor([0.6931, 1.1269])
    """
    return -logits.log_softmax(dim=-1).mean(dim=-1)


def orthogonality_penalty(cosines: Values, *, form: Literal["hinge", "abs", "square"]) -> Values:
    """Distance of a cosine similarity from 0 (orthogonal rows), 0 to 1; the hinge form allows negative cosines.

    >>> [orthogonality_penalty(torch.tensor([-0.5, 0.25]), form=form).tolist() for form in ("hinge", "abs", "square")]
    [[0.0, 0.25], [0.5, 0.25], [0.25, 0.0625]]
    """
    if form == "hinge":
        return cosines.clamp_min(0)
    return cosines.abs() if form == "abs" else cosines.square()


def linear_contrast(left: Rows, right: Rows, left_negative: Rows, right_negative: Rows) -> Values:
    """-cos(left, right) + cos(left, its negative) + cos(right, its negative), -3 to 3 (FMDA, L_con).

    As published, neither hinge nor margin bounds it: the loss falls until negatives point the opposite way.

    >>> left, right = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    >>> linear_contrast(left, right, torch.tensor([[0.0, 1.0]]), torch.tensor([[-1.0, 0.0]]))  # -0.71 + 0 - 0.71
    tensor([-1.4142])
    """
    return -cosine(left, right) + cosine(left, left_negative) + cosine(right, right_negative)


def hinged_contrast(left: Rows, right: Rows, left_negative: Rows, right_negative: Rows) -> Values:
    """The linear contrast with DREAM's hinge at 0 on the negatives, 0 to 4: orthogonal negatives cost nothing.

    >>> left, right = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    >>> hinged_contrast(left, right, torch.tensor([[0.0, 1.0]]), torch.tensor([[-1.0, 0.0]]))  # 1 - 0.71 + 0 + 0
    tensor([0.2929])
    """
    return cosine_distance(left, right) + hinged_cosine(left, left_negative) + hinged_cosine(right, right_negative)


def info_nce_both_ways(
    left: Rows, right: Rows, left_negative: Rows, right_negative: Rows, *, temperature: float
) -> Values:
    """InfoNCE of each row with its partner against the batch's other partners and its negative; sum of both directions.

    Equation 4 of van den Oord et al. 2018, https://arxiv.org/abs/1807.03748, over cosine / temperature, in
    nats, with a hard negative as one more candidate for each row, which `in_batch_softmax` does not have.

    >>> left, negative = torch.eye(2), torch.eye(2).flip(0)  # log(2 + e) - 1 nats in each direction
    >>> info_nce_both_ways(left, left, negative, negative, temperature=1.0)
    tensor([1.1029, 1.1029])
    """
    logits = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T / temperature
    forward = torch.logaddexp(logits.logsumexp(dim=1), cosine(left, left_negative) / temperature)
    backward = torch.logaddexp(logits.logsumexp(dim=0), cosine(right, right_negative) / temperature)
    return forward + backward - 2 * logits.diagonal()


def mean_pairwise_cosine(rows: Rows, members: Float[Tensor, "batch groups"], *, diagonal: bool) -> Values:
    """Mean cosine similarity of each row with the other rows of its group, -1 to 1 (ORACLE, Eq. 5, inner mean).

    With the sum S of a group's n unit vectors, the n - 1 others of row u sum to S - u. This takes O(batch dim) time,
    a matrix of all pairs O(batch^2 dim). Over a group its mean is (|S|^2 - n) / (n (n - 1)).

    Args:
        rows: any vectors.
        members: 1 where a row is in a group, else 0; every row is in one group.
        diagonal: count each row's similarity with itself too, as the authors' code does.

    Returns:
        One value per row; 1, without gradient, for a row that is alone in its group.

    >>> rows = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> members = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # three rows, and one alone
    >>> mean_pairwise_cosine(rows, members, diagonal=False)
    tensor([0.5000, 0.5000, 0.0000, 1.0000])
    """
    unit = rows / norm(rows).unsqueeze(-1)
    similarity_to_group = (unit * (members @ (members.mT @ unit))).sum(-1)
    counts = members @ members.sum(dim=0)
    if diagonal:
        return similarity_to_group / counts
    others = (similarity_to_group - unit.square().sum(-1)) / (counts - 1).clamp_min(1)
    return torch.where(counts > 1, others, torch.ones_like(others))


class _Cosines(torch.autograd.Function):
    """Cosines with a hand-written gradient: norms are computed once per matrix, the gradient needs few passes.

    torch's automatic gradient takes five times as many. A leading dimension may be that of seeds.
    """

    @staticmethod
    def forward(pairs: Sequence[tuple[int, int]], *rows: Tensor) -> tuple[Tensor, Tensor]:
        norms = [norm(matrix) for matrix in rows]
        of_pairs = [(rows[i] * rows[j]).sum(-1) / (norms[i] * norms[j]) for i, j in pairs]
        return torch.stack(of_pairs), torch.stack(norms)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.pairs, *rows = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """d cos(a, b) / d a = b / (|a| |b|) - a cos(a, b) / |a|^2."""
        gradient, (cosine, norms, *rows) = gradients[0], ctx.saved_tensors
        to_rows: list[Tensor | None] = [None] * len(rows)
        for index in (index for index in range(len(rows)) if ctx.needs_input_grad[1 + index]):
            partners = [(row, sum(pair) - index) for row, pair in enumerate(ctx.pairs) if index in pair]
            # `along` sums gradient * cosine over this matrix's pairs: the part of the gradient along the row itself.
            along = sum((gradient[row] * cosine[row] for row, _ in partners), torch.zeros_like(cosine[0]))
            total = rows[index] * (-along / norms[index].square()).unsqueeze(-1)
            for row, partner in partners:
                total.addcmul_(rows[partner], (gradient[row] / (norms[index] * norms[partner])).unsqueeze(-1))
            to_rows[index] = total
        return None, *to_rows

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
        rows = [
            matrix.expand(info.batch_size, *matrix.shape) if dim is None else matrix.movedim(dim, 0)
            for matrix, dim in zip(inputs[1:], in_dims[1:], strict=True)
        ]
        return _Cosines.apply(inputs[0], *rows), (1, 1)


def norm(rows: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows"]:
    """Norm of each row, the divisor of cosines.

    >>> norm(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return torch.linalg.vector_norm(rows, dim=-1).clamp_min(_TINY)
