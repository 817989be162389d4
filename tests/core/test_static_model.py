"""A static model: its vectors, its caches, and what it refuses."""

import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from disent_core import static_model
from disent_core.methods.modules.word_rows import random_rows, rows_of_word, words_of
from disent_core.static_model import StaticModel, UnseenTextWarning

ROOT = Path(__file__).resolve().parents[2]
ROWS, DIM, SEED = 4_096, 16, 7
TEXTS = [
    "wake me up at nine", "Weck mich um neun", "wake wake me", "", "  ", "& .", "rock & roll .", "🎉",
    "私を9時に起こして", "e\u0301clair éclair", "Ääkköset\u00a0ja\u2003välit", "नमस्ते दुनिया", "a-b c_d", "\u0301 accent",
]  # fmt: skip


KNOWN = np.arange(0, ROWS, 2)
TRAINED = random_rows(KNOWN, DIM, 3) * np.linspace(0.1, 2, len(KNOWN), dtype=np.float32)[:, None]


def model(bits: int = 8, unseen: float = 0.25) -> StaticModel:
    rest = {"parts": {"template": 10, "residual": 6}, "seed": SEED, "table_rows": ROWS, "languages": ["en", "de"]}
    return StaticModel.of_table(KNOWN, TRAINED, unseen=unseen, bits=bits, **rest)


def by_hand(text: str, unseen: float = 0.25) -> np.ndarray:
    """The sum of the unrounded rows of a text."""
    table = random_rows(np.arange(ROWS), DIM, SEED).astype(np.float64) * unseen
    table[KNOWN] = TRAINED
    words = dict.fromkeys(words_of(text))
    return sum((table[row] for word in words for row in rows_of_word(word, ROWS)), np.zeros(DIM))


@pytest.mark.parametrize(("bits", "off", "unseen"), [(8, 0.01, 0.25), (4, 0.15, 0.0)])
def test_a_text_is_the_sum_of_the_rows_of_its_distinct_words_up_to_rounding(bits, off, unseen):
    sums = model(bits, unseen).encode(TEXTS, normalize=False)
    expected = np.stack([by_hand(text, unseen) for text in TEXTS])
    assert np.abs(sums - expected).max() <= off * np.abs(expected).max()


def test_chunked_texts_have_the_words_of_the_whole_text():
    # Each of these is the same bag of words by way of chunks.
    vectors = model().encode(["rock & roll", "rock roll", "& .", "rock\u2028&roll"], normalize=False)
    assert (vectors[0] == vectors[1]).all()
    assert (vectors[0] == vectors[3]).all()
    assert vectors[2].any()
    assert not (vectors[2] == vectors[0]).any()


def test_vectors_do_not_depend_on_batch_or_cache():
    name = "meaning"
    texts = TEXTS + [" ".join(f"word{i * k % 97}" for i in range(k)) for k in range(1, 60)]
    alone = np.stack([model().encode(text, name) for text in texts])
    shared = model()
    assert (shared.encode(texts, name) == alone).all()
    assert (shared.encode(texts[::-1], name)[::-1] == alone).all()  # warm
    assert (np.stack([shared.encode(text, name) for text in texts]) == alone).all()
    for size in (1, 3, 64):
        assert (model().encode(texts, name, batch_size=size) == alone).all()
    narrow = model()
    narrow._words.most = 4
    assert (narrow.encode(texts, name, batch_size=2) == alone).all()


def test_the_cache_of_words_is_dropped_when_it_is_full_also_by_texts_without_letters():
    embedder = model()
    embedder._words.most = 100
    for start in range(0, 1_000, 10):
        embedder.encode([f"w{number}" for number in range(start, start + 10)])
        assert len(embedder._words.numbers) <= 110
        assert len(embedder._words.chunks) <= 110
    embedder.encode(["x" * 5_000])
    embedder.encode(["short"])
    assert embedder._words.characters == 5
    embedder = model()
    embedder._words.most = 10
    embedder.encode(["." * 1000])
    embedder.encode(["a"])
    assert len(embedder._words.numbers) == 1


def test_vectors_have_unit_norm_and_the_meaning_concatenates_its_parts():
    embedder = model()
    texts = [text for text in TEXTS if text.strip()]
    meaning, template, residual = (embedder.encode(texts, name) for name in embedder.names)
    assert np.abs(np.linalg.norm(meaning, axis=1) - 1).max() < 1e-6
    assert np.abs(np.linalg.norm(template, axis=1) - 1).max() < 1e-6
    assert np.allclose(meaning * np.sqrt(2), np.concatenate([template, residual], axis=1), atol=1e-6)
    assert not model().encode(["", " \n"]).any()


@pytest.mark.parametrize("texts", [tuple(TEXTS), iter(TEXTS), np.array(TEXTS), dict.fromkeys(TEXTS).keys()])
def test_lists_generators_and_arrays_are_embedded_in_order(texts):
    assert (model().encode(texts) == model().encode(TEXTS)).all()


def test_a_single_text_is_a_vector_and_no_text_is_a_matrix_without_rows():
    embedder = model()
    assert embedder.encode("wake").shape == (16,)
    assert embedder.encode(["wake"], "template").shape == (1, 10)
    for empty in ([], (), iter(()), np.array([], dtype=str)):
        matrix = embedder.encode(empty, "residual")
        assert matrix.shape == (0, 6)
        assert matrix.dtype == np.float32


REFUSED = {
    "b'bytes'": "texts must be a str or an iterable of them, got bytes",
    "7": "texts must be a str or an iterable of them, got int",
    "['a', float('nan')]": "texts must be str, but text 2 is NaN, a missing value",
    "['a', 'b', 3]": "texts must be str, but text 3 is int",
    "['a', 'b \\ud83d c']": "text 2 has half of a surrogate pair at character 3",
    "'\\udc00'": "text 1 has half of a surrogate pair at character 1",
}
"""What is no text, as code, and what is said of it."""


def test_texts_after_a_refused_one_have_the_vectors_that_they_have_alone():
    embedder = model()
    with pytest.raises(ValueError, match="surrogate"):
        embedder.encode(["new words first", "then \ud83d"])
    assert (embedder.encode("new words first") == model().encode("new words first")).all()


def test_an_unknown_embedding_or_language_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="no embedding 'style'; choose one of meaning, shape, values"):
        model().encode("a", "style")
    with pytest.raises(ValueError, match="this model was trained on en, de, not 'xx'"):
        model().encode("a", language="xx")


def test_similarity_is_the_cosine_of_texts_or_vectors():
    embedder = model()
    vectors = embedder.encode(TEXTS[:3], "template")
    by_texts = embedder.similarity(TEXTS[:3], TEXTS[0], "shape")
    assert by_texts.shape == (3, 1)
    assert np.allclose(by_texts, embedder.similarity(vectors * 5, vectors[0]), atol=1e-6)
    assert by_texts[0, 0] == pytest.approx(1)
    with pytest.raises(ValueError, match="10 and 16 dimensions"):
        embedder.similarity(vectors, "a text")
    with pytest.raises(ValueError, match="both sides are already vectors"):
        embedder.similarity(vectors, vectors, "shape")


def test_the_share_of_trained_rows_is_a_mean_over_words():
    made = model()
    texts = ["wake me up", "zzgh wake", "", "wake wake"]
    known = set(made._known.tolist())
    expected = []
    for text in texts:
        words = dict.fromkeys(words_of(text))
        rows = [rows_of_word(word, made.header.table_rows) for word in words]
        shares = [sum(row in known for row in of_word) / len(of_word) for of_word in rows]
        expected.append(sum(shares) / max(len(shares), 1))
    assert 0 < expected[1] < 1
    np.testing.assert_allclose(made.trained_share(texts), expected, atol=1e-6)


def test_unseen_language_texts_warn_once_per_call():
    ours, others = ["wake me up at nine", "spiel etwas jazz"] * 20, ["сыграй джаз в кухне"] * 40
    known = np.unique([row for text in ours for word in words_of(text) for row in rows_of_word(word, ROWS)])
    options = {"parts": {"template": 8, "residual": 8}, "seed": SEED, "table_rows": ROWS, "languages": ["en", "de"]}
    made = StaticModel.of_table(known, random_rows(known, DIM, 3), **options)
    with pytest.warns(UnseenTextWarning, match=r"in the model's languages \(en, de\)") as caught:
        made.encode(others, batch_size=20)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.encode(ours)
        made.encode(others[0])  # too few to tell


def test_a_copy_in_another_process_has_the_same_vectors():
    embedder = model()
    expected = embedder.encode(TEXTS)
    assert (pickle.loads(pickle.dumps(embedder)).encode(TEXTS) == expected).all()


def test_threads_that_share_a_model_get_the_vectors_of_one():
    embedder, expected = model(), model().encode(TEXTS * 8)
    embedder._words.most = 8
    different: list[int] = []

    def embed() -> None:
        different.extend(
            number for number in range(3) if not (embedder.encode(TEXTS * 8, batch_size=7) == expected).all()
        )

    threads = [threading.Thread(target=embed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert different == []


@pytest.mark.parametrize("bits", [4, 8])
def test_packing_error_is_at_most_half_a_step(bits):
    random = np.random.default_rng(0)
    table = (random.standard_normal((500, 31)) * 10 ** random.uniform(-3, 3, (500, 1))).astype(np.float32)
    rows, scales = static_model._packed(table, bits)
    off = np.abs(static_model._unpacked(rows, scales, bits, 31) - table)
    assert (off <= 0.501 * scales.astype(np.float32)[:, None]).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"known": [2, 2]}, "each once"),
        ({"known": [2, ROWS]}, "sorted numbers from 0 to 4095"),
        ({"table": np.zeros((2, 15))}, "need a table of"),
        ({"table": np.full((2, 16), np.nan)}, "not finite"),
        ({"table": np.full((2, 16), 1e30)}, "too large"),
        ({"parts": {"meaning": 16}}, "parts must name"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(changed, message):
    fitting = {"known": [2, 4], "table": np.ones((2, 16)), "parts": {"a": 10, "b": 6}, "seed": 1, "table_rows": ROWS}
    with pytest.raises(ValueError, match=message):
        StaticModel.of_table(**fitting | changed)


def test_a_model_is_read_and_used_with_numpy_and_safetensors_alone_and_refuses_an_invalid_text_by_its_number(tmp_path):
    # In a process without the checks of types that tests add.
    saved = model()
    saved.save(tmp_path / "m")
    np.save(tmp_path / "expected.npy", saved.encode(TEXTS))
    absent = [
        "torch", "transformers", "tokenizers", "scipy", "pyarrow", "pydantic", "jaxtyping", "annotated_types", "click",
        "rich", "polars", "duckdb", "tqdm", "fcntl",
    ]  # fmt: skip
    code = f"""
import sys
sys.modules |= dict.fromkeys({absent})  # None: an import of them fails
import numpy as np, disent
model = disent.load({str(tmp_path / "m")!r})
assert (model.encode({TEXTS}) == np.load({str(tmp_path / "expected.npy")!r})).all()
assert disent.models() == [] or disent.load().encode("a").any()
model.save({str(tmp_path / "again")!r})
classifier = disent.Classifier(model).fit(["play jazz", "wake me", "play rock"], ["music", "alarm", "music"])
classifier.save({str(tmp_path / "classifier")!r})
again = disent.Classifier.load({str(tmp_path / "classifier")!r})
assert (again.predict({TEXTS}) == classifier.predict({TEXTS})).all()
for texts in [{", ".join(REFUSED)}]:
    for _ in range(2):  # the second time, its other words are known
        try:
            model.encode(texts, batch_size=1)
        except ValueError as error:
            said = str(error)
    print(said.partition(";")[0])
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == list(REFUSED.values())
    files = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("m", "again")]
    assert files[0] == files[1]
