"""One pure function per loss term: tensors in, one value per row out.

No reduction, no weight, no state: heads take means, add terms up and log each by its name. Cosine similarity
is taken here, so rows need not have unit norm; a zero row has similarity 0 to everything.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cosine(left: Float[Tensor, "batch dim"], right: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
    """Cosine similarity of each row with the row of the same index, -1 to 1."""
    return F.cosine_similarity(left, right, dim=-1)


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
    return (prediction - target).square().mean(dim=-1)


def identification(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Cross-entropy of a classifier, in nats (language identification in DREAM, MEAT and FMDA)."""
    return F.cross_entropy(logits, labels, reduction="none")


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


def info_nce(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "batch dim"],
    *,
    temperature: float,
) -> Float[Tensor, " batch"]:
    """Pull each anchor to its own positive, away from the batch's other positives and its own negative.

    Equation 4 of van den Oord et al. 2018, https://arxiv.org/abs/1807.03748, over cosine / temperature, in
    nats, with one more candidate for each anchor.
    """
    unit = F.normalize(anchors, dim=-1)
    in_batch = unit @ F.normalize(positives, dim=-1).T
    own = cosine(anchors, negatives).unsqueeze(-1)
    logits = torch.cat([in_batch, own], dim=-1) / temperature
    return F.cross_entropy(logits, torch.arange(len(anchors), device=anchors.device), reduction="none")
