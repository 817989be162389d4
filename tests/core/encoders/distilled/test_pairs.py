"""No evaluation text takes part in the making of an encoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.encoders.kinds.distilled.pairs import Material, Translations, exclusion_digests, exclusion_key, without
from disent_core.storage import text_columns
from disent_core.storage.tables import fingerprint
from tests.core.tiny_teacher import column

NOTHING = exclusion_digests(column([]))


def pairs(*sides):
    return Translations("bitext", "de", *(column(side) for side in zip(*sides, strict=True)))


@pytest.mark.parametrize("planted", ["Wake me up!", "wake  me up", "WAKE ME, UP", "ｗａｋｅ me up"])
def test_a_pair_with_an_evaluation_text_on_either_side_is_left_out_whatever_its_case_and_punctuation(planted):
    training = pairs(("hello", "hallo"), (planted, "weck mich"), ("go", planted))
    kept = without(training, exclusion_digests(column(["wake me up"])))
    assert list(kept.pairs) == [("hello", "hallo")]


def test_a_text_that_only_holds_an_evaluation_text_and_other_translations_stay_but_copies():
    training = pairs(("wake me up at nine", "weck mich um neun"))
    assert list(without(training, exclusion_digests(column(["wake me up"]))).pairs) == list(training.pairs)
    training = pairs(("go", "geh"), ("Go!", "Geh."), ("go", "los"))
    assert list(without(training, NOTHING).pairs) == [("go", "geh"), ("go", "los")]


SOME = st.sampled_from(["a", "A", "b", "c!", "d"])


@given(st.lists(st.tuples(SOME, SOME), min_size=1, max_size=9), st.lists(SOME, max_size=2))
def test_what_is_kept_is_what_a_loop_over_pairs_keeps(sides, evaluated):
    excluded, kept = {exclusion_key(text) for text in evaluated}, {}
    for pair in sides:
        keys = tuple(map(exclusion_key, pair))
        if excluded.isdisjoint(keys):
            kept.setdefault(keys, pair)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_columns, "BLOCK", 2)
        assert list(without(pairs(*sides), exclusion_digests(column(evaluated))).pairs) == list(kept.values())


def test_letters_of_every_script_are_kept_in_the_key():
    assert (exclusion_key("明日の 天気は？"), exclusion_key("Où, déjà?")) == ("明日の 天気は", "où déjà")


def test_the_fingerprint_is_that_of_lists_and_tells_training_from_held_out_pairs():
    one, other = pairs(("a", "b")), pairs(("c", "d"))
    prints = {Material([one], [other]).fingerprint, Material([other], [one]).fingerprint,
              Material([one, other], []).fingerprint}  # fmt: skip
    assert len(prints) == 3
    listed = [{"corpus": "bitext", "language": "de", "pivots": ["a", "c"], "foreign": ["b", "é"]}]
    of = Material([pairs(("a", "b"), ("c", "é"))], [])
    assert (of.fingerprint, of.training_fingerprint) == (fingerprint(listed, []), fingerprint(listed))
