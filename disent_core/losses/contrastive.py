"""Losses over sentence vectors with intents: EMU's and those of the baselines it is compared with.

As in `disent_core.losses.similarity`: tensors in, one value per row out; no reduction, no weight, no state.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def scaled_to(vectors: Float[Tensor, "batch dim"], *, norm: float) -> Float[Tensor, "batch dim"]:
    """Each row at this Euclidean norm: alpha u / ||u|| (EMU, Eq. 1)."""
    return norm * F.normalize(vectors, dim=-1)


def center_distance(
    vectors: Float[Tensor, "batch dim"], centers: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """1/2 ||u - c_y||^2 with each row's own center (EMU, Eq. 2; Wen et al. 2016)."""
    return (vectors - centers).square().sum(dim=-1) / 2


def class_means(
    vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, " batch"], classes: int
) -> tuple[Float[Tensor, "classes dim"], Float[Tensor, " classes"]]:
    """Mean of the rows of each class, zero where it has none, and how many it has."""
    counts = torch.zeros(classes, dtype=vectors.dtype, device=vectors.device)
    counts = counts.index_add(0, labels, torch.ones_like(vectors[:, 0]))
    sums = vectors.new_zeros(classes, vectors.shape[1]).index_add(0, labels, vectors)
    return sums / counts.clamp_min(1).unsqueeze(1), counts


def moved_centers(
    centers: Float[Tensor, "classes dim"],
    vectors: Float[Tensor, "batch dim"],
    labels: Int[Tensor, " batch"],
    *,
    rate: float,
) -> Float[Tensor, "classes dim"]:
    """Centers after a batch: c_y - rate * sum(c_y - u) / (1 + rows of y), Equation 4 of Wen et al. 2016."""
    means, counts = class_means(vectors, labels, len(centers))
    counts = counts.unsqueeze(1)
    return centers - rate * counts * (centers - means) / (1 + counts)


def discrimination(own: Float[Tensor, " batch"], other: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Cross-entropy of a discriminator's logits, label 1 for `own` and 0 for `other`, in nats (EMU, Eq. 3)."""
    return F.softplus(-own) + F.softplus(other)


def critic_difference(own: Float[Tensor, " batch"], other: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """D(other) - D(own): what a Wasserstein critic minimises (Arjovsky et al. 2017)."""
    return other - own


def siamese(
    left: Float[Tensor, "batch dim"], right: Float[Tensor, "batch dim"], same: Bool[Tensor, " batch"], *, margin: float
) -> Float[Tensor, " batch"]:
    """d^2 where both have the same label, max(0, margin - d)^2 where not; d is Euclidean (Hadsell et al. 2006).

    The square root has no gradient at 0: two rows of different label that are equal stay so.
    """
    squared = (left - right).square().sum(dim=-1)
    distance = torch.where(squared > 0, squared, 1).sqrt() * (squared > 0)
    return torch.where(same, squared, (margin - distance).clamp_min(0).square())


def n_pair(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "batch negatives dim"],
) -> Float[Tensor, " batch"]:
    """log(1 + sum_j exp(cos(a, n_j) - cos(a, p))), in nats (Sohn 2016, Eq. 6, over cosine)."""
    positive = F.cosine_similarity(anchors, positives, dim=-1).unsqueeze(1)
    negative = F.cosine_similarity(anchors.unsqueeze(1), negatives, dim=-1)
    return torch.cat([positive, negative], dim=1).logsumexp(dim=1) - positive.squeeze(1)


def symmetric_softmax(
    left: Float[Tensor, "batch dim"],
    right: Float[Tensor, "batch dim"],
    equal: Bool[Tensor, "batch batch"],
    *,
    temperature: float,
) -> Float[Tensor, " batch"]:
    """Each row's cross-entropy of finding its own partner in the batch by cosine / temperature, mean of both ways.

    `equal[i, j]` says that pairs i and j share a text: they are no negatives of each other.
    """
    similarity = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T / temperature
    own = torch.arange(len(left), device=left.device)
    similarity = similarity.masked_fill(equal & (own.unsqueeze(1) != own), float("-inf"))
    there = F.cross_entropy(similarity, own, reduction="none")
    return (there + F.cross_entropy(similarity.T, own, reduction="none")) / 2
