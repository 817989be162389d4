"""The losses of TWOSL's contrastive stage equal loops, and those of sentence-transformers."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from disent_core.losses.contrastive import span_contrast

SBERT = {"margin": 0.5, "form": "sbert", "hard": "sbert", "lone_pair": "extreme"}
EIGHTHS = st.integers(0, 16).map(lambda eighths: eighths / 8)  # sums of them are exact, and ties happen
PAIRS = st.lists(st.tuples(EIGHTHS, st.booleans()), min_size=1, max_size=12)


def tensors(pairs):
    return torch.tensor([d for d, _ in pairs], dtype=torch.float32), torch.tensor([same for _, same in pairs])


def loop(pairs, *, margin, form, hard, lone_pair):
    same, different = [d for d, s in pairs if s], [d for d, s in pairs if not s]
    few = 2 if lone_pair == "mean" else 1
    values = []
    for d, is_same in pairs:
        if is_same:
            value, mean = d**2, sum(same) / len(same)
            counts = {
                "none": True,
                "margin": d > margin,
                "sbert": d > (min(different) if len(different) >= few else mean),
            }
        else:
            value = max(0.0, margin - d) ** 2 if form == "sbert" else max(0.0, margin - d**2)
            mean = sum(different) / len(different)
            counts = {"none": True, "margin": d < margin, "sbert": d < (max(same) if len(same) >= few else mean)}
        values.append(value if counts[hard] else 0.0)
    return values


SWITCHES = st.fixed_dictionaries(
    {
        "margin": st.just(0.5),
        "form": st.sampled_from(["sbert", "paper_eq"]),
        "hard": st.sampled_from(["sbert", "margin", "none"]),
        "lone_pair": st.sampled_from(["mean", "extreme"]),
    }
)


@settings(max_examples=200)
@given(PAIRS, SWITCHES)
def test_the_loss_equals_a_loop_over_pairs(pairs, switches):
    actual = span_contrast(*tensors(pairs), **switches)
    torch.testing.assert_close(actual, torch.tensor(loop(pairs, **switches)), atol=1e-6, rtol=0)


def reference(left, right, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has moved since
        losses = pytest.importorskip("sentence_transformers.losses", reason="sentence-transformers is not installed")
        loss = losses.OnlineContrastiveLoss(None, margin=0.5)
    return loss.compute_loss_from_embeddings([left, right], labels)


@pytest.mark.parametrize("positives", [0, 1, 7, 20])
def test_the_sum_and_its_gradient_equal_the_online_contrastive_loss_of_sentence_transformers(positives):
    torch.manual_seed(positives)
    pair = torch.randn(2, 20, 6).requires_grad_(True)
    is_same = torch.arange(20) < positives
    ours = span_contrast(1 - F.cosine_similarity(*pair), is_same, **SBERT).sum()
    theirs = reference(*pair, is_same.long())
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    actual, expected = (torch.autograd.grad(loss, pair)[0] for loss in (ours, theirs))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-6)
