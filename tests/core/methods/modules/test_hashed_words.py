"""Hashed words: which words and rows a text has, and that their vectors are sums of rows that anyone can make again."""

import math
import unicodedata
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core.methods.modules import hashed_words
from disent_core.methods.modules.hashed_words import HashedNgramTable, ngram_bags
from disent_core.methods.modules.word_rows import TABLE_ROWS, random_rows, rows_of_word, words_of

TEXTS = ["play jazz by bach", "spiele jazz von bach", "play play play", "明日の天気", "?!", "bach"]


def row(piece):
    return zlib.crc32(piece.encode()) % TABLE_ROWS


def vector(words, text):
    known = words.known.tolist()
    total = [0.0] * words.dim
    for word in dict.fromkeys(words_of(text)):
        for number in rows_of_word(word):
            if number in known:
                values = words.table[known.index(number)].tolist()
            else:
                values = random_rows(np.array([number]), words.dim, words.seed)[0].tolist()
            total = [so_far + value for so_far, value in zip(total, values, strict=True)]
    return total


def test_words_are_case_folded_letter_runs_or_n_grams():
    assert list(words_of("Wake me at 9:30, STRASSE straße!")) == ["wake", "me", "at", "9", "30", "strasse", "strasse"]
    assert list(words_of("हिन्दी में")) == ["हिन्दी", "में"]
    assert list(words_of("明日 9 時")) == ["明", "日", "明日", "9", "時"]
    assert list(words_of("ภาษา")) == ["ภ", "า", "ษ", "า", "ภา", "าษ", "ษา"]
    assert list(words_of(" ☂ ☂")) == ["☂ ☂"]
    assert list(words_of("  ")) == []


@pytest.mark.parametrize("text", ["พรุ่งนี้", "ថ្ងៃស្អែក", "ມື້ອື່ນ", "မနက်ဖြန်"])
def test_n_grams_never_separate_a_character_from_its_marks(text):
    words = list(words_of(text))
    assert len(words) > 4
    assert not [word for word in words if unicodedata.category(word[0])[0] == "M"]


def test_a_word_has_a_row_and_one_per_3_to_5_gram():
    pieces = ["wjazz", "<ja", "jaz", "azz", "zz>", "<jaz", "jazz", "azz>", "<jazz", "jazz>"]
    assert rows_of_word("jazz") == [row(piece) for piece in pieces]
    assert rows_of_word("明日") == [row("w明日")]


@settings(max_examples=25)
@given(st.text(max_size=20))
def test_every_non_blank_text_has_words_with_rows_in_range(text):
    words = list(words_of(text))
    assert bool(words) == bool(text.strip())
    assert all(0 <= number < TABLE_ROWS for word in words for number in rows_of_word(word))


def test_a_text_is_the_sum_over_its_distinct_words_of_their_rows():
    words = HashedNgramTable.of_texts(ngram_bags(TEXTS[:3]), 70, seed=3)
    expected = torch.tensor([vector(words, text) for text in TEXTS])
    torch.testing.assert_close(words(ngram_bags(TEXTS)), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dim", [8, 70])
def test_vectors_are_the_same_among_any_other_texts_and_in_blocks_to_the_bit(dim, monkeypatch):
    bags, chosen = ngram_bags(TEXTS), torch.tensor([4, 1, 1])
    words = HashedNgramTable.of_texts(ngram_bags(TEXTS[:3]), dim, seed=0)
    vectors = words(bags)
    assert torch.equal(words(bags.take(chosen)), vectors[chosen])
    monkeypatch.setattr(hashed_words, "_EMBEDDED", 2)
    assert torch.equal(words.in_blocks(bags), vectors)
    assert torch.equal(words.in_blocks(bags, chosen), vectors[chosen])


def test_rarer_rows_have_larger_norms_up_to_1():
    words = HashedNgramTable.of_texts(ngram_bags(["a b", "a c", "a d"]), 16, seed=0)
    norms = {piece: float(words.rows(torch.tensor([row(piece)])).detach().norm()) for piece in ("wa", "wb", "wz")}
    assert norms == pytest.approx({"wa": 0.01, "wb": math.log(4 / 2) / math.log(4), "wz": 1.0})


def test_random_rows_are_the_same_on_every_platform_and_whichever_are_made_with_them():
    rows = np.array([5, 131071, 0])
    made = random_rows(rows, 100, seed=7)
    assert np.array_equal(made[1:2], random_rows(rows[1:2], 100, seed=7))
    assert not np.array_equal(made, random_rows(rows, 100, seed=8))
    bits = np.packbits((made > 0)[:, :64], axis=1, bitorder="little")
    assert bits.tobytes().hex() == "18b5ede97a6c8c9b438ce4d17783392af2852c5e968757ea"
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), np.ones(3), rtol=1e-6)


def test_the_rows_of_a_word_are_numbered_modulo_the_rows_of_its_table():
    size = 1 << 19
    assert rows_of_word("jazz", size)[0] == zlib.crc32(b"wjazz") % size != rows_of_word("jazz")[0]
    bags = ngram_bags(TEXTS, size)
    table = HashedNgramTable.of_texts(bags, 8, 3)
    assert set(table.known.tolist()) == {n for text in TEXTS for w in words_of(text) for n in rows_of_word(w, size)}
    assert len(bags.take(torch.tensor([1])).row_frequencies()) == size


def test_untrained_rows_have_the_configured_norm():
    bags = ngram_bags(["bach"])
    known = torch.tensor([rows_of_word("bach")[0]])
    full, none = (HashedNgramTable(known, 8, 3, unseen=factor)(bags) for factor in (1.0, 0.0))
    quarter = HashedNgramTable(known, 8, 3, unseen=0.25)(bags)
    assert torch.allclose(quarter, none + (full - none) / 4, atol=1e-6)
