"""Parallel mates: examples, and laws of the draws."""

from itertools import product

from annotated import table, utterance
from hypothesis import given
from hypothesis import strategies as st

from disent_core.targets.parallel_mates import ParallelMateConfig, parallel_mates

CITIES = [("berlin", "Berlin"), ("munich", "München"), ("cologne", "Köln"), ("vienna", "Wien")]


def weather(cities, *, split="train", start=0):
    """An utterance for each pair of names, in English and in German."""
    english = [
        utterance(f"weather in {city} now", "O O B-city B-time", key=f"{split}{start + i}", split=split, language="en")
        for i, (city, _) in enumerate(cities)
    ]
    german = [
        utterance(f"jetzt wetter in {city}", "B-time O O B-city", key=f"{split}{start + i}", split=split, language="de")
        for i, (_, city) in enumerate(cities)
    ]
    return english, german


def mates(source, target, **config):
    return parallel_mates("en-de", table(*source), table(*target), ParallelMateConfig(**config)).to_pylist()


def test_a_slot_gets_the_values_that_both_languages_have_in_one_utterance():
    first, second = mates(*weather(CITIES[:2]), n_mates=1)
    slot = {"source_old": "berlin", "source_new": "munich", "target_old": "Berlin", "target_new": "München"}
    names = {"corpus": "toy", "pair": "en-de", "split": "train", "utterance_id": "train0", "mate_index": 0}
    source = {"source_language": "en", "source_text": "weather in munich now"}
    target = {"target_language": "de", "target_text": "jetzt wetter in München"}
    assert first == names | source | target | {"replaced_slots": [{"slot": "city"} | slot]}
    assert second["target_text"] == "jetzt wetter in Berlin"


def test_mates_of_an_utterance_differ_and_are_as_many_as_asked_or_as_its_values_allow():
    made = mates(*weather(CITIES), n_mates=2)
    assert [row["mate_index"] for row in made] == [0, 1] * 4
    assert len({(row["utterance_id"], row["target_text"]) for row in made}) == 8
    assert len(mates(*weather(CITIES), n_mates=50)) == 4 * 3


def test_the_values_are_those_of_train_and_test_has_no_mates():
    parts = [weather(CITIES[:2]), weather(CITIES[2:3], split="dev"), weather(CITIES[3:], split="test")]
    source, target = ([row for part in parts for row in part[side]] for side in range(2))
    made = mates(source, target, n_mates=9)
    assert {row["split"] for row in made} == {"train", "dev"}
    assert {slot["source_new"] for row in made for slot in row["replaced_slots"]} == {"berlin", "munich"}


def test_a_type_or_value_that_a_side_lacks_repeats_or_keeps_is_neither_replaced_nor_drawn():
    english, german = weather(CITIES[:2])
    english += [utterance("from rome to paris now", "O B-city O B-city B-time", key="2", split="train")]
    german += [utterance("von rom nach paris jetzt", "O B-city O B-city B-time", key="2", split="train", language="de")]
    assert "2" not in {row["utterance_id"] for row in mates(english, german)}
    assert "Rom" not in str(mates(english, german))
    english, german = weather([("berlin", "Berlin"), ("Berlin ", "Bärlin"), ("munich", "München")])
    assert mates(english, german, n_mates=1)[0]["target_text"] == "jetzt wetter in München"
    english, german = weather(CITIES[:3])
    assert {row["utterance_id"] for row in mates(english, german[:2])} == {"train0", "train1"}


PAIRS = st.lists(st.sampled_from([(a, b.upper()) for a, b in product("abcd", "vwxy")]), min_size=1, max_size=8)


@given(PAIRS, st.integers(0, 2), st.integers(1, 4))
def test_mates_are_translations_of_train_in_every_slot(pairs, seed, n_mates):
    for row in mates(*weather(pairs), seed=seed, n_mates=n_mates):
        old = pairs[int(row["utterance_id"].removeprefix("train"))]
        new = (row["source_text"].split()[2], row["target_text"].split()[3])
        assert new in pairs
        assert new[0] != old[0]
        assert new[1] != old[1]


@given(PAIRS, st.integers(0, 2))
def test_another_utterance_changes_only_the_mates_that_draw_its_values(pairs, seed):
    new = ("newtown", "Neustadt")
    before = {row["utterance_id"]: row for row in mates(*weather(pairs), seed=seed, n_mates=1)}
    for row in mates(*weather([*pairs, new]), seed=seed, n_mates=1):
        if row["utterance_id"] in before and row["replaced_slots"][0]["source_new"] != "newtown":
            assert row == before[row["utterance_id"]]


# --- drawn by the source ----------------------------------------------------------------------------------


def test_mates_drawn_by_the_source_are_translations_of_each_other_in_every_language():
    english, german = weather(CITIES)
    to_french = {city: name for (city, _), name in zip(CITIES, ("Berlin", "Munich", "Cologne", "Vienne"), strict=True)}
    french = [
        utterance(f"meteo a {to_french[city]}", "O O B-city", key=f"train{i}", split="train", language="fr")
        for i, (city, _) in enumerate(CITIES)
    ]
    of_german = mates(english, german, draw="by_source")
    of_french = parallel_mates(
        "en-fr", table(*english), table(*french), ParallelMateConfig(draw="by_source")
    ).to_pylist()
    texts = {(row["utterance_id"], row["mate_index"]): row["source_text"] for row in of_german}
    assert len(texts) == 8
    assert texts == {(row["utterance_id"], row["mate_index"]): row["source_text"] for row in of_french}
    german_of = dict(CITIES)
    for row in of_german:
        assert german_of[row["source_text"].split()[2]] in row["target_text"]


def test_a_mate_drawn_by_the_source_is_absent_where_the_target_lacks_a_slot_and_keeps_its_number_elsewhere():
    english, german = weather(CITIES)
    everything = mates(english, german, draw="by_source")
    german[1] = utterance("jetzt wetter", "B-time O", key="train1", split="train", language="de")
    fewer = mates(english, german, draw="by_source")
    has_lost = {(row["utterance_id"], row["mate_index"]) for row in everything if row not in fewer}
    assert has_lost == {
        (row["utterance_id"], row["mate_index"])
        for row in everything
        if row["utterance_id"] == "train1" or "munich" in row["source_text"]
    }
    assert all(row in everything for row in fewer)


def test_how_mates_are_drawn_by_default_is_in_no_fingerprint():
    assert "draw" not in repr(ParallelMateConfig())
