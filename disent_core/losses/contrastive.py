"""Compute losses that contrast vectors of a batch: those of EMU, its baselines and TWOSL, and in-batch softmax.

As in `disent_core.losses.similarity`, each is a pure function from tensors to one value per row.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disent_core.losses import Form, Hard, LonePair
from disent_core.losses.similarity import Rows, Values


def scaled_to(vectors: Rows, *, norm: float) -> Rows:
    """Scale each row to this Euclidean norm: alpha u / ||u|| (EMU, Eq. 1).

    >>> scaled_to(torch.tensor([[3.0, 4.0]]), norm=50.0)
    tensor([[30.0000, 40.0000]])
    """
    return norm * F.normalize(vectors, dim=-1)


def center_distance(vectors: Rows, centers: Rows) -> Values:
    """1/2 ||u - c_y||^2 with the center of each row's class (EMU, Eq. 2; Wen et al. 2016).

    >>> center_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([2.])
    """
    return (vectors - centers).square().sum(dim=-1) / 2


def class_means(
    vectors: Rows, labels: Int[Tensor, " batch"], classes: int
) -> tuple[Float[Tensor, "classes dim"], Float[Tensor, " classes"]]:
    """Mean of each class's rows (zero for an empty class), and its number of rows.

    >>> vectors = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    >>> means, counts = class_means(vectors, torch.tensor([0, 0, 1]), 3)
    >>> means.tolist(), counts.tolist()
    ([[2.0, 0.0], [0.0, 5.0], [0.0, 0.0]], [2.0, 1.0, 0.0])
    """
    counts = torch.zeros(classes, dtype=vectors.dtype, device=vectors.device)
    counts = counts.index_add(0, labels, torch.ones_like(vectors[:, 0]))
    sums = vectors.new_zeros(classes, vectors.shape[1]).index_add(0, labels, vectors)
    return sums / counts.clamp_min(1).unsqueeze(1), counts


def updated_centers(
    centers: Float[Tensor, "classes dim"], vectors: Rows, labels: Int[Tensor, " batch"], *, rate: float
) -> Float[Tensor, "classes dim"]:
    """Centers after a batch: c_y - rate * sum(c_y - u) / (1 + rows of y), Equation 4 of Wen et al. 2016.

    >>> updated_centers(torch.zeros(2, 1), torch.tensor([[3.0], [3.0]]), torch.tensor([0, 0]), rate=0.5)
    tensor([[1.],
            [0.]])
    """
    means, counts = class_means(vectors, labels, len(centers))
    counts = counts.unsqueeze(1)
    return centers - rate * counts * (centers - means) / (1 + counts)


def binary_cross_entropy(positive: Values, negative: Values) -> Values:
    """Cross-entropy of a discriminator's logits, label 1 for `positive` and 0 for `negative`, in nats (EMU, Eq. 3).

    >>> binary_cross_entropy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, -2.0]))  # 2 log 2, 2 log(1 + 1 / e^2)
    tensor([1.3863, 0.2539])
    """
    return F.softplus(-positive) + F.softplus(negative)


def critic_difference(positive: Values, negative: Values) -> Values:
    """D(negative) - D(positive), which a Wasserstein critic minimises (Arjovsky et al. 2017).

    >>> critic_difference(torch.tensor([2.0]), torch.tensor([0.5]))
    tensor([-1.5000])
    """
    return negative - positive


def siamese(left: Rows, right: Rows, same: Bool[Tensor, " batch"], *, margin: float) -> Values:
    """d^2 where both have the same label, max(0, margin - d)^2 where not; d is Euclidean (Hadsell et al. 2006).

    The gradient of the square root at 0 is set to 0: equal rows of different labels stay equal.

    >>> right = torch.tensor([[0.0, 1.0], [0.0, 1.0], [3.0, 4.0]])  # at distances 1, 1 and 5
    >>> siamese(torch.zeros(3, 2), right, torch.tensor([True, False, False]), margin=2.0)
    tensor([1., 1., 0.])
    """
    squared = (left - right).square().sum(dim=-1)
    distance = torch.where(squared > 0, squared, 1).sqrt() * (squared > 0)
    return torch.where(same, squared, (margin - distance).clamp_min(0).square())


def n_pair(anchors: Rows, positives: Rows, negatives: Float[Tensor, "batch negatives dim"]) -> Values:
    """log(1 + sum_j exp(cos(a, n_j) - cos(a, p))), in nats (Sohn 2016, Eq. 6, over cosine).

    >>> anchor, positive = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
    >>> n_pair(anchor, positive, torch.tensor([[[0.0, 1.0], [0.0, 3.0]]]))  # log(1 + 2 / e)
    tensor([0.5514])
    """
    positive = F.cosine_similarity(anchors, positives, dim=-1).unsqueeze(1)
    negative = F.cosine_similarity(anchors.unsqueeze(1), negatives, dim=-1)
    return torch.cat([positive, negative], dim=1).logsumexp(dim=1) - positive.squeeze(1)


def in_batch_softmax(
    cosines: Float[Tensor, "queries candidates"], excluded: Bool[Tensor, "queries candidates"], *, temperature: float
) -> Float[Tensor, " queries"]:
    """Cross-entropy, in nats, of picking candidate i for query i, by softmax of cosine / temperature.

    InfoNCE (van den Oord et al. 2018, Equation 4) over the candidates that are not excluded.

    >>> cosines, nothing = torch.eye(2), torch.zeros(2, 2, dtype=torch.bool)
    >>> in_batch_softmax(cosines, nothing, temperature=1.0)  # log(1 + 1 / e)
    tensor([0.3133, 0.3133])
    >>> in_batch_softmax(cosines, nothing, temperature=0.5)  # log(1 + 1 / e^2)
    tensor([0.1269, 0.1269])
    """
    logits = (cosines / temperature).masked_fill(excluded, float("-inf"))
    return F.cross_entropy(logits, torch.arange(len(cosines), device=cosines.device), reduction="none")


def one_pool_softmax(
    cosines: Float[Tensor, "sides groups sides groups"], excluded: Bool[Tensor, "groups groups"], *, temperature: float
) -> Float[Tensor, "sides groups"]:
    """Cross-entropy, in nats, of picking a translation of a text among the texts of all languages, its own included.

    A group has a text on each side, all translations of each other. A text's negatives are the texts of all other
    groups on all sides, except `excluded` groups, and never its other translations. Mean over translations.

    Args:
        cosines: of the text of each side and group with that of each side and group.
        excluded: groups that are not negatives of each other because they share a text; the diagonal is ignored.
        temperature: divisor of the cosines.

    >>> texts = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(2, 1)  # two groups, the same vectors on both sides
    >>> cosines, nothing = (texts @ texts.T).view(2, 2, 2, 2), torch.zeros(2, 2, dtype=torch.bool)
    >>> one_pool_softmax(cosines, nothing, temperature=1.0)  # log(1 + 2 / e): two negatives instead of one
    tensor([[0.5514, 0.5514],
            [0.5514, 0.5514]])
    """
    sides, groups = cosines.shape[:2]
    logits = cosines / temperature
    is_no_negative = excluded | torch.eye(groups, dtype=torch.bool, device=cosines.device)
    of_others = logits.masked_fill(is_no_negative[:, None], torch.finfo(logits.dtype).min).flatten(2).logsumexp(dim=2)
    of_translations = logits.diagonal(dim1=1, dim2=3)  # [sides, sides of the translations, groups]
    losses = F.softplus(of_others.unsqueeze(1) - of_translations)
    is_same_side = torch.eye(sides, dtype=torch.bool, device=cosines.device).unsqueeze(2)
    return losses.masked_fill(is_same_side, 0).sum(dim=1) / (sides - 1)


def symmetric_softmax(left: Rows, right: Rows, equal: Bool[Tensor, "batch batch"], *, temperature: float) -> Values:
    """`in_batch_softmax` of each row with its partner, mean of both directions.

    `equal[i, j]` is true if pairs i and j share a text; such pairs are not negatives of each other.

    >>> symmetric_softmax(torch.eye(2), 3 * torch.eye(2), torch.eye(2, dtype=torch.bool), temperature=0.5)
    tensor([0.1269, 0.1269])
    """
    cosines = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T
    excluded = equal & ~torch.eye(len(left), dtype=torch.bool, device=left.device)
    forward = in_batch_softmax(cosines, excluded, temperature=temperature)
    backward = in_batch_softmax(cosines.T, excluded, temperature=temperature)
    return (forward + backward) / 2


def span_contrast(
    distance: Float[Tensor, " pairs"],
    is_same: Bool[Tensor, " pairs"],
    *,
    margin: float,
    form: Form,
    hard: Hard,
    lone_pair: LonePair,
) -> Float[Tensor, " pairs"]:
    """Pull spans of one type together, push those of different types beyond a margin; easy pairs cost 0.

    The paper prints d² for equal and [m - d²]+ for different types (`paper_eq`), and says that it runs the
    online contrastive loss of sentence-transformers, d² and [m - d]+² (`sbert`).

    Args:
        distance: 1 - cosine of each pair of a batch.
        is_same: whether both spans of the pair have the same type.
        margin: m.
        form: which of the two formulas.
        hard: which pairs count. `sbert`: positives farther apart than the closest negative, and negatives
            closer than the farthest positive; `margin`, the paper's text: positives with d > m and negatives
            with d < m; `none`: all.
        lone_pair: the threshold of `sbert` if a batch has a single positive (or negative): `extreme` uses that
            pair, as current sentence-transformers does; `mean` uses the mean of the other side, as it did when
            the paper was written. Without any such pair both use that mean.

    >>> distance, is_same = torch.tensor([0.1, 0.6, 0.3, 0.9]), torch.tensor([True, True, False, False])
    >>> span_contrast(distance, is_same, margin=0.5, form="sbert", hard="none", lone_pair="mean")
    tensor([0.0100, 0.3600, 0.0400, 0.0000])
    >>> span_contrast(distance, is_same, margin=0.5, form="sbert", hard="sbert", lone_pair="mean")  # 0.1 < 0.3: easy
    tensor([0.0000, 0.3600, 0.0400, 0.0000])
    """
    positive = distance.square()
    negative = F.relu(margin - distance).square() if form == "sbert" else F.relu(margin - distance.square())
    loss = torch.where(is_same, positive, negative)
    if hard == "none":
        return loss
    if hard == "margin":
        return torch.where(is_same, distance > margin, distance < margin) * loss
    positives, negatives = distance[is_same], distance[~is_same]
    required = 2 if lone_pair == "mean" else 1
    farthest_positive = positives.max() if len(positives) >= required else negatives.mean()
    closest_negative = negatives.min() if len(negatives) >= required else positives.mean()
    return torch.where(is_same, distance > closest_negative, distance < farthest_positive) * loss
