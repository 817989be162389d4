"""A language is added to a static model: it finds translations, and nothing that the model has is changed."""

import numpy as np
import pytest

import disent
from disent_core.errors import TrainingError
from disent_core.export.added_language import AddedLanguageConfig, with_language

WORDS = {"wake": "bango", "play": "liru", "call": "mosto", "light": "fenno", "buy": "kadri", "read": "zolpe"}
VALUES = {"nine": "wuxi", "jazz": "yarda", "mum": "omle", "milk": "petsu", "news": "tavik", "seven": "hubba"}
PAIRS = [(f"{verb} {value}", f"{new} {other}") for verb, new in WORDS.items() for value, other in VALUES.items()]


@pytest.fixture(scope="module")
def models():
    model = disent.load()
    english, other = zip(*PAIRS, strict=True)
    return model, with_language(model, other, english, "xx", AddedLanguageConfig(batch_size=16, steps=120))


def accuracy(model) -> float:
    english, other = zip(*PAIRS, strict=True)
    nearest = (model.encode(other) @ model.encode(english).T).argmax(axis=1)
    return float((nearest == np.arange(len(PAIRS))).mean())


def test_texts_of_the_new_language_find_their_translations(models):
    before, after = map(accuracy, models)
    assert before < 0.3
    assert after > 0.9
    assert models[1].languages == (*models[0].languages, "xx")


def test_every_row_that_the_model_had_stays_to_the_bit(models):
    model, extended = models
    numbers = np.flatnonzero(model.has_rows(np.arange(model.header.table_rows)))
    np.testing.assert_array_equal(extended.rows_of(numbers), model.rows_of(numbers))
    assert extended.header.known > model.header.known


def test_an_extended_model_is_written_and_loaded(models, tmp_path):
    extended = models[1].described(name="more")
    extended.save(tmp_path / "more")
    np.testing.assert_array_equal(
        disent.load(tmp_path / "more").encode(["bango wuxi"]), extended.encode(["bango wuxi"])
    )


def test_a_table_without_a_language_to_add_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("en,de\n" + "".join(f"{left} {n},{left} {n}\n" for n, left in enumerate(WORDS)))
    with pytest.raises(TrainingError, match="to add a language, the table needs it"):
        disent.train(tmp_path / "t.csv", tmp_path / "mine", extend="small")
