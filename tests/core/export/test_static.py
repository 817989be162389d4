"""A trained table of words as a static model has the vectors of the head, and a language can be added to it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from random_heads import CASES, TEXTS

import disent
from disent_core.errors import DamagedError, TrainingError
from disent_core.export import static
from disent_core.export.added_language import with_language
from disent_core.export.checking import check_folder
from disent_core.lineage.saved_heads import SavedHead, open_head
from disent_core.methods.modules.hashed_words import HashedNgramTable, ngram_bags
from disent_core.static_model import StaticModel
from disent_core.training.data import TextFeatures, VectorBank

NUMBERS = ["one", "two", "three", "vier", "fünf", "sechs", "七", "八"]
CORPUS = [*TEXTS, *(f"toy {first} {second} at nine" for first in NUMBERS for second in NUMBERS)]


@pytest.fixture(scope="module", params=["lexicon", "facet_static"])
def head(request, tmp_path_factory) -> SavedHead:
    return open_head(CASES["lexicon"](tmp_path_factory.mktemp("head"), name=request.param), device="cpu")


def vectors(head: SavedHead, seed: int) -> dict[str, np.ndarray]:
    rows = torch.zeros(len(CORPUS), dtype=torch.int64)
    return head.trained.embed(TextFeatures(VectorBank([torch.zeros(1, 2)]), rows, texts=CORPUS), seed)


def others(matrix: np.ndarray) -> np.ndarray:
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -2)
    return cosines


def loss(ours: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How much less near, by the head, the text is that we find the nearest: 0 if it is the same, or a tie."""
    nearest = others(ours).argmax(axis=1)
    return others(expected).max(axis=1) - others(expected)[np.arange(len(ours)), nearest]


@pytest.mark.parametrize("seed", [3, 4])
def test_a_table_in_eight_bits_has_the_vectors_of_its_head_and_ranks_texts_as_it_does(head, seed, tmp_path):
    static.of_head(head, seed).save(tmp_path / "m")
    model = StaticModel.load(tmp_path / "m")
    for name, expected in vectors(head, seed).items():
        ours = model.encode(CORPUS, name)
        assert np.abs(ours - expected).max() < 0.02
        assert loss(ours, expected).max() < 0.005


def test_four_bit_vectors_stay_close_to_those_of_the_head(head):
    expected = vectors(head, 3)["meaning"]
    assert (loss(static.of_head(head, bits=4).encode(CORPUS), expected) < 0.005).mean() > 0.9


def test_a_static_model_records_its_provenance(head):
    model = static.of_head(head, 4, name="small", licence="CC-BY-4.0")
    assert model.languages == ("en", "de")
    assert model.header.parts == {"template": 7, "residual": 4}
    facts = {key: model.description[key] for key in ("name", "method", "trained_on", "head", "seed", "licence")}
    assert facts == {
        "name": "small", "method": head.method.name, "trained_on": "en-de", "head": head.content, "seed": 4,
        "licence": "CC-BY-4.0",
    }  # fmt: skip
    assert model.description["settings"]["template_units"] == 7


def test_a_table_keeps_custom_size_and_norm_of_untrained_rows():
    bags = ngram_bags(CORPUS[::2], table_rows=1_000)
    words = HashedNgramTable.of_texts(bags, dim=8, seed=5)
    words.unseen = 0.25
    expected = words(ngram_bags(CORPUS, table_rows=1_000)).detach().numpy()
    sums = static.of_table(words, {"template": 4, "residual": 4}, table_rows=1_000).encode(CORPUS, normalize=False)
    assert np.abs(sums - expected).max() < 0.01 * np.abs(expected).max()


def test_only_word_tables_with_an_existing_seed_become_static_models(head, tmp_path):
    with pytest.raises(ValueError, match="no seed 9; choose one of 3, 4"):
        static.of_head(head, 9)
    facet = open_head(CASES["facet"](tmp_path), device="cpu")
    with pytest.raises(TrainingError, match="facet is not a table of words"):
        static.of_head(facet)


ELSEWHERE = """
import sys

sys.modules |= dict.fromkeys(("disent", "disent_core", "disent_assets"))  # None: an import of them fails
import numpy as np
from sentence_transformers import SentenceTransformer

model = SentenceTransformer({folder!r}, device="cpu", local_files_only=True, trust_remote_code=True)
found = {{name: model.encode({texts!r}, task=name) for name in ("meaning", "template", "residual", "shape")}}
found |= {{"none": model.encode({texts!r}), "query": model.encode_query({texts!r})}}
found |= {{"short": model.encode({texts!r}, truncate_dim=6), "width": model.get_embedding_dimension()}}
np.savez({output!r}, **found)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    """The folder of a static model for sentence-transformers; tests only read it."""
    pytest.importorskip("sentence_transformers")
    place = tmp_path_factory.mktemp("static")
    head = open_head(CASES["lexicon"](place), device="cpu")
    static.export_static(static.of_head(head, licence="CC-BY-4.0"), place / "out")
    return place / "out"


def test_an_exported_static_model_has_its_own_vectors_in_a_process_without_disent(exported, tmp_path):
    output = tmp_path / "found.npz"
    code = ELSEWHERE.format(folder=str(exported), texts=CORPUS[:9], output=str(output))
    subprocess.run([sys.executable, "-c", code], check=True)
    model, arrays = disent.load(exported), np.load(output)
    assert model.description["licence"] == "CC-BY-4.0"
    for name in ("meaning", "template", "residual", "shape", "none", "query"):
        embedding = name if name not in ("none", "query") else "meaning"
        np.testing.assert_array_equal(arrays[name], model.encode(CORPUS[:9], embedding))
    assert arrays["width"] == model.dim
    norms = [np.linalg.norm(part, axis=1) for part in np.split(arrays["short"], [4], axis=1)]
    np.testing.assert_allclose(*norms, atol=1e-6)  # of template and residual, which weigh the same


def test_an_exported_static_model_is_checked_file_by_file_and_its_code_is_never_run(exported, tmp_path):
    assert check_folder(exported).routes == ("meaning", "template", "residual")
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    (copy / "modeling_static.py").write_text("raise SystemExit('this was run')")
    assert np.array_equal(disent.load(copy).encode("toy"), disent.load(exported).encode("toy"))
    with pytest.raises(DamagedError, match=r"not the code of this version .*: modeling_static\.py;"):
        check_folder(copy)


def test_a_static_model_is_never_exported_into_a_folder_that_exists(exported):
    before = json.loads((exported / "model.json").read_text())
    with pytest.raises(TrainingError, match="this exists already"):
        static.export_static(disent.load(exported), exported)
    assert json.loads((exported / "model.json").read_text()) == before


WORDS = {"wake": "bango", "play": "liru", "call": "mosto", "light": "fenno", "buy": "kadri", "read": "zolpe"}
VALUES = {"nine": "wuxi", "jazz": "yarda", "mum": "omle", "milk": "petsu", "news": "tavik", "seven": "hubba"}
PAIRS = [(f"{verb} {value}", f"{new} {other}") for verb, new in WORDS.items() for value, other in VALUES.items()]


@pytest.fixture(scope="module")
def models():
    model = disent.load()
    english, other = zip(*PAIRS, strict=True)
    return model, with_language(model, other, english, "xx", batch_size=16, steps=120)


def accuracy(model) -> float:
    english, other = zip(*PAIRS, strict=True)
    nearest = (model.encode(other) @ model.encode(english).T).argmax(axis=1)
    return float((nearest == np.arange(len(PAIRS))).mean())


def test_texts_of_the_new_language_find_their_translations(models):
    before, after = map(accuracy, models)
    assert before < 0.3
    assert after > 0.9
    assert models[1].languages == (*models[0].languages, "xx")


def test_extending_a_model_keeps_its_rows_bitwise(models):
    model, extended = models
    numbers = np.flatnonzero(model.has_rows(np.arange(model.header.table_rows)))
    np.testing.assert_array_equal(extended.rows_of(numbers), model.rows_of(numbers))
    assert extended.header.known > model.header.known


def test_a_table_without_a_language_to_add_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("en,de\n" + "".join(f"{left} {n},{left} {n}\n" for n, left in enumerate(WORDS)))
    with pytest.raises(TrainingError, match="to add a language, the table needs it"):
        disent.train(tmp_path / "t.csv", tmp_path / "mine", extend="small")
