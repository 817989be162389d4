"""No evaluation text takes part in the making of an encoder."""

import pytest

from disent_core.encoders.distilled.pairs import Material, Translations, exclusion_key, exclusion_keys, without


def pairs(*sides):
    return Translations("bitext", "de", *map(list, zip(*sides, strict=True)))


@pytest.mark.parametrize("planted", ["Wake me up!", "wake  me up", "WAKE ME, UP", "ｗａｋｅ me up"])
def test_a_pair_with_an_evaluation_text_on_either_side_is_left_out_whatever_its_case_and_punctuation(planted):
    training = pairs(("hello", "hallo"), (planted, "weck mich"), ("go", planted))
    kept = without(training, exclusion_keys(["wake me up"]))
    assert list(kept.pairs) == [("hello", "hallo")]


def test_a_text_that_only_holds_an_evaluation_text_stays():
    training = pairs(("wake me up at nine", "weck mich um neun"))
    assert list(without(training, exclusion_keys(["wake me up"])).pairs) == list(training.pairs)


def test_copies_of_a_pair_count_once_and_other_translations_stay():
    training = pairs(("go", "geh"), ("Go!", "Geh."), ("go", "los"))
    assert list(without(training, set()).pairs) == [("go", "geh"), ("go", "los")]


def test_letters_of_every_script_are_kept_in_the_key():
    assert (exclusion_key("明日の 天気は？"), exclusion_key("Où, déjà?")) == ("明日の 天気は", "où déjà")


def test_the_fingerprint_tells_training_from_held_out_pairs():
    one, other = pairs(("a", "b")), pairs(("c", "d"))
    prints = {Material([one], [other]).fingerprint, Material([other], [one]).fingerprint,
              Material([one, other], []).fingerprint}  # fmt: skip
    assert len(prints) == 3
