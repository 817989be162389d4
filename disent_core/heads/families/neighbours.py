"""Bring training pairs of similar words together, so that the negatives of a batch are hard to tell from its pairs."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.heads.families.mated_pairs import EMBED_BLOCK, PairBags
from disent_core.heads.modules.hashed_words import HashedWords

WIDTH = 256
"""Of the random projection of the words of a side, which keeps cosines to about 1 / 16."""


@torch.no_grad()
def word_vectors(data: PairBags, seed: int) -> Float[Tensor, "pairs dim"]:
    """Return both sides of every training pair as bags of weighted words and n-grams, at random projections.

    Args:
        data: the pairs.
        seed: of the projection.
    """
    words = HashedWords.of_texts(data.bags.take(data.trained), WIDTH, seed)
    blocks = data.pairs["train"].flatten().split(EMBED_BLOCK)
    vectors = torch.cat([F.normalize(words(data.bags.take(block)), dim=-1) for block in blocks])
    return vectors.view(-1, 2 * WIDTH)


def neighbours_together(
    vectors: Float[Tensor, "pairs dim"], size: int, random: torch.Generator
) -> Int[Tensor, " pairs"]:
    """Return a random order of all pairs, in which runs of at most `size` are of similar vectors.

    Half of the pairs are nearer to one of two random pairs, half to the other; each half is split again until it has
    the size.
    """
    groups, done = [torch.randperm(len(vectors), generator=random)], list[Tensor]()
    while groups:
        group = groups.pop()
        if len(group) <= size:
            done.append(group)
            continue
        first, second = group[torch.randint(len(group), (2,), generator=random)]
        # Rounded: equal texts must have equal values, whatever the order of summation.
        nearer = ((vectors[group] @ (vectors[first] - vectors[second])) * 2**16).round()
        groups += group[nearer.argsort(stable=True)].tensor_split(2)
    return torch.cat([done[place] for place in torch.randperm(len(done), generator=random).tolist()])
