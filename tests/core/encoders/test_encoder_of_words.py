"""Hashed words as an encoder: sums of random rows, without a model, and which methods may stand on it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core.encoders import describe_config
from disent_core.encoders.kinds import words
from disent_core.encoders.kinds.words import WordsConfig
from disent_core.errors import ConfigError, EncoderError
from disent_core.lineage.head_records import encoder_of
from disent_core.methods.modules.word_rows import random_rows, rows_of_text
from disent_core.text import HIDDEN_CLOSE, HIDDEN_OPEN, MASK, SUBWORD_MASK_CLOSE, SUBWORD_MASK_OPEN

TEXTS = ["wake me up at nine", "weck mich um neun auf", "明日の朝9時に起こして", "wake wake WAKE", "🎵", "a"]


def encode(texts, **keys):
    encoder = WordsConfig(**{"name": "words"} | keys).load(Path("gone"), "", "cpu")
    batches = list(encoder.encode(texts, states=False))
    assert np.array_equal(np.concatenate([batch.indices for batch in batches]), np.arange(len(texts)))
    return np.concatenate([batch.vectors for batch in batches])


@pytest.mark.parametrize(("dim", "seed"), [(256, 0), (100, 7)])
def test_a_text_is_the_sum_of_the_random_rows_of_its_distinct_words(dim, seed):
    expected = [random_rows(np.array(rows_of_text(text)), dim, seed).sum(axis=0) for text in TEXTS]
    np.testing.assert_allclose(encode(TEXTS, dim=dim, seed=seed), expected, atol=1e-5)


@settings(max_examples=20)
@given(texts=st.lists(st.text(max_size=12) | st.sampled_from(TEXTS), min_size=1, max_size=40),
       size=st.integers(1, 8), cached=st.sampled_from([0, 64, 1 << 20]))  # fmt: skip
def test_a_text_has_one_vector_to_the_bit_in_any_batch_and_whatever_words_are_kept(texts, size, cached):
    alone = [encode([text], dim=32)[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_BATCH_TEXTS": size, "_BATCH_WORDS": size, "_CACHED_NUMBERS": cached}.items():
            patch.setattr(words, name, value)
        assert np.array_equal(encode(texts, dim=32), alone)


@pytest.mark.parametrize(
    ("stored", "visible"),
    [
        (f"weck mich um {MASK} auf", "weck mich um auf"),
        (f"weck {SUBWORD_MASK_OPEN}mich{SUBWORD_MASK_CLOSE} auf {HIDDEN_OPEN}um neun{HIDDEN_CLOSE}", "weck auf"),
    ],
)
def test_masked_and_hidden_words_are_ignored(stored, visible):
    hidden, plain = encode([stored, visible])
    assert np.array_equal(hidden, plain)


@pytest.mark.parametrize("text", [MASK, f"{HIDDEN_OPEN}neun{HIDDEN_CLOSE}", " ", ""])
def test_a_text_without_words_has_a_direction(text):
    assert np.linalg.norm(encode([text])) > 0.5


def test_the_fingerprint_depends_on_all_settings_but_the_name():
    plain = WordsConfig(name="a").fingerprint(Path())
    assert WordsConfig(name="b").fingerprint(Path()) == plain
    changed = [{"dim": 128}, {"seed": 1}, {"vector_dtype": "float16"}]
    assert len({plain, *(WordsConfig(name="a", **keys).fingerprint(Path()) for keys in changed)}) == 4


def test_a_saved_head_opens_it_without_a_folder(tmp_path):
    config = WordsConfig(name="a", dim=64, seed=3)
    assert encoder_of(tmp_path, describe_config(config, tmp_path), tmp_path / "moved", ()) == config


def test_encoding_with_words_imports_no_torch():
    code = (
        "import sys; from pathlib import Path; from disent_core.encoders.kinds.words import WordsConfig\n"
        "list(WordsConfig(name='a').load(Path(), '', 'cpu').encode(['wake me'], states=False))\n"
        "print({'torch', 'transformers', 'tokenizers'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_token_states_are_refused():
    with pytest.raises(EncoderError, match="'a' is hashed words, which have no token states"):
        list(WordsConfig(name="a").load(Path(), "", "cpu").encode(["x"], states=True))


@pytest.mark.parametrize(("method", "lacks"), [("bertscore", "token states"), ("fine_tuned", "a model to tune")])
def test_methods_that_need_a_transformer_are_refused_in_the_configuration(load, method, lacks):
    text = worlds.corpus("one", languages=["en-US", "de-DE"]) + worlds.encoder(kind="words")
    assert load(text + worlds.experiment("raw", "lexicon", "centered")).encoders["toy"] == WordsConfig(name="toy")
    with pytest.raises(ConfigError, match=rf"experiment.methods: {method} needs .*{lacks}, which encoder 'toy' does"):
        load(text + worlds.experiment("raw", method))
