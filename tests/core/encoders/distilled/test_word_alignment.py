"""IBM model 1 and the rows that it gives, against loops."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core.encoders.kinds.distilled import aligned
from disent_core.encoders.kinds.distilled.aligned import LEAST_PROBABILITY, Alignment, Pieces, align, aligned_rows

sentences = st.lists(st.integers(0, 5), max_size=4)
corpora = st.lists(st.tuples(sentences, sentences), max_size=6)


def pieces(texts):
    ids = np.array([piece for text in texts for piece in text], dtype=np.int32)
    return Pieces(ids, np.array([len(text) for text in texts], dtype=np.int64))


def looped(pivots, foreign, iterations):
    """t(own | new) and expected counts, as Brown et al. write them; None is NULL."""
    t = defaultdict(lambda: 1.0)
    counts = {}
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for own_pieces, new_pieces in zip(pivots, foreign, strict=True):
            candidates = [None, *set(new_pieces)]
            for own in own_pieces:
                norm = sum(t[own, new] for new in candidates)
                for new in candidates:
                    counts[own, new] += t[own, new] / norm
                    totals[new] += t[own, new] / norm
        t = defaultdict(lambda: 1.0, {(own, new): count / totals[new] for (own, new), count in counts.items()})
    return {
        (new, own): (t[own, new], count)
        for (own, new), count in counts.items()
        if new is not None and t[own, new] > LEAST_PROBABILITY
    }


@settings(max_examples=40, deadline=None)
@given(corpora, st.integers(1, 4))
def test_the_alignment_is_that_of_loops_over_sentences(corpus, iterations):
    pivots, foreign = [left for left, _ in corpus], [right for _, right in corpus]
    found = align(pieces(pivots), pieces(foreign), iterations=iterations)
    expected = looped(pivots, foreign, iterations)
    keys = list(zip(found.new.tolist(), found.teacher.tolist(), strict=True))
    assert set(keys) == set(expected)
    for key, probability, count in zip(keys, found.probability, found.count, strict=True):
        np.testing.assert_allclose((probability, count), expected[key], rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(corpora, st.integers(1, 4))
def test_no_bit_depends_on_how_many_texts_are_linked_at_a_time(corpus, iterations):
    sides = [pieces([pair[side] for pair in corpus]) for side in (0, 1)]
    whole = align(*sides, iterations=iterations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned, "BLOCK", 2)
        found = align(*sides, iterations=iterations)
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(vars(found)[name], values)


def test_a_row_mixes_what_spells_the_piece_and_what_it_is_aligned_with_by_the_share_of_its_occurrences():
    own_rows = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    copied, share = [[0], [1, 2], [3], [4]], np.array([1.0, 0.25, 0.0, 0.5])
    alignments = [
        Alignment(np.array([1, 1]), np.array([3, 4]), np.array([0.8, 0.1]), np.array([4.0, 0.5])),
        Alignment(np.array([1, 2]), np.array([0, 0]), np.array([0.5, 1.0]), np.array([2.0, 3.0])),
    ]
    rows = aligned_rows(own_rows, copied, share, alignments)

    def mixed(piece):
        spelt = own_rows[copied[piece]].mean(axis=0)
        links = [link for each in alignments for link in zip(*vars(each).values(), strict=True)]
        parts = [(count * p**0.5, own_rows[row]) for new, row, p, count in links if new == piece]
        if not parts:
            return spelt
        total = sum(weight for weight, _ in parts)
        mean = sum(weight * row for weight, row in parts) / total
        typical = sum(weight * np.linalg.norm(row) for weight, row in parts) / total
        mean = mean / np.linalg.norm(mean) * (np.linalg.norm(mean) + typical) / 2
        return share[piece] * spelt + (1 - share[piece]) * mean

    np.testing.assert_allclose(rows, [mixed(piece) for piece in range(4)], rtol=1e-5, atol=1e-6)


def test_nothing_to_align_leaves_every_row_as_it_is_spelt():
    own_rows = np.eye(3, dtype=np.float32)
    rows = aligned_rows(own_rows, [[0], [2]], np.array([0.0, 1.0]), [align(pieces([]), pieces([]), iterations=2)])
    np.testing.assert_array_equal(rows, own_rows[[0, 2]])
