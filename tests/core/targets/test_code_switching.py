"""Code-switched sentences: words, casing, draws, and broken word lists."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import sentence_pairs

from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS
from disent_core.targets.code_switching import CodeSwitchingConfig, code_switched, read_dictionary

GERMAN = [("the", "der"), ("the", "die"), ("dog", "hund"), ("hound", "hund"), ("cat", "katze"), ("big", "große")]
ALL = CodeSwitchingConfig(probability=1.0)


def switched(sentence, *, dictionary=GERMAN, config=ALL, pair="de-en"):
    table = code_switched(sentence_pairs([(sentence, "The dog.")], pair), dictionary, config)
    return [row["switched"] for row in table.to_pylist()]


def test_words_of_the_foreign_sentence_become_english_and_the_original_is_its_translation():
    table = code_switched(sentence_pairs([("The dog.", "Der Hund, so.")]), GERMAN, ALL)
    assert table.schema == SCHEMAS["code_switched_pairs"]
    names = {"corpus": "toy", "pair": "en-de", "pair_id": "0", "split": "test", "words": 3}
    switched = {"switched_language": "de", "switched": "The Dog, so."}
    replaced = [{"old": "Der", "new": "The"}, {"old": "Hund", "new": "Dog"}]
    original = {"original_language": "en", "original": "The dog."}
    assert table.to_pylist() == [names | switched | original | {"replaced_words": replaced}]


def test_words_of_the_english_sentence_become_foreign_and_it_is_the_original_itself():
    config = CodeSwitchingConfig(probability=1.0, replace="english")
    (row,) = code_switched(sentence_pairs([("The dog.", "Der Hund.")]), GERMAN, config).to_pylist()
    assert (row["switched"], row["switched_language"], row["original"]) == ("Der hund.", "en", "The dog.")


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("der Hund", "the Dog"), ("DER HUND", "THE DOG"), ("«Hund»!", "«Dog»!"), ("  der\thund ", "  the\tdog "),
        ("¿Hund?", "¿Dog?"), ("(der) -- hund...", "(the) -- dog..."), ("hund-der hund", "hund-der dog"),
        ("die große", "the big"),
    ],
)  # fmt: skip
def test_casing_punctuation_and_white_space_are_kept(sentence, expected):
    assert [text.rstrip() for text in switched(sentence)] == [expected.rstrip()]


def test_combining_marks_do_not_split_words():
    assert switched("यह हिन्दी है।", dictionary=[("hindi", "हिन्दी")], pair="hi-en") == ["यह hindi है।"]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("我喜欢小狗。", "我 like puppy。"),
        ("小狗", "puppy"),
        ("小，狗", "small，dog"),
        ("大象", None),
        ("ATM小", "ATM small"),
    ],
)
def test_scripts_without_spaces_are_cut_into_the_longest_entries(sentence, expected):
    chinese = [("small", "小"), ("dog", "狗"), ("puppy", "小狗"), ("like", "喜欢")]
    assert switched(sentence, dictionary=chinese, pair="zh-en") == ([expected] if expected else [])


def test_the_first_translation_of_the_list_is_taken_unless_it_is_drawn():
    assert switched("hund " * 40) == [" ".join(["dog"] * 40)]
    drawn = switched("hund " * 40, config=CodeSwitchingConfig(probability=1.0, candidates="random"))
    assert set(drawn[0].split()) == {"dog", "hound"}


SENTENCES = st.lists(st.sampled_from(["der", "hund", "katze", "haus", "so"]), min_size=1, max_size=12).map(" ".join)


def replaced(sentence, **settings):
    rows = code_switched(sentence_pairs([("The dog.", sentence)]), GERMAN, CodeSwitchingConfig(**settings)).to_pylist()
    return {place for place, (old, new) in enumerate(zip(sentence.split(), rows[0]["switched"].split(), strict=True))
            if old != new} if rows else None  # fmt: skip


@given(SENTENCES, st.floats(0, 1), st.integers(1, 4), st.integers(0, 3))
def test_at_least_the_minimum_of_known_words_is_replaced(sentence, probability, least, seed):
    translatable = sum(word in ("der", "hund", "katze") for word in sentence.split())
    words = replaced(sentence, probability=probability, min_replacements=least, seed=seed)
    assert (words is None) == (translatable < least)
    assert words is None or least <= len(words) <= translatable


@given(SENTENCES, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_probability_replaces_the_same_words_and_more(sentence, first, second):
    low, high = (replaced(sentence, probability=probability) for probability in sorted((first, second)))
    assert (low or set()) <= (high or set())


@given(st.lists(SENTENCES, min_size=2, max_size=6), st.data())
def test_an_edit_changes_only_its_row(sentences, data):
    edited = data.draw(st.integers(0, len(sentences) - 1))
    after = [*sentences[:edited], "die katze", *sentences[edited + 1 :]]
    before_rows, after_rows = (
        code_switched(sentence_pairs([("E.", text) for text in texts]), GERMAN, CodeSwitchingConfig()).to_pylist()
        for texts in (sentences, after)
    )
    others = [[row for row in rows if row["pair_id"] != str(edited)] for rows in (before_rows, after_rows)]
    assert others[0] == others[1]


def test_the_share_of_replaced_words_is_the_probability_and_the_seed_chooses_them():
    table = code_switched(
        sentence_pairs([("The dog.", "der hund die katze " * 5)] * 300), GERMAN, CodeSwitchingConfig()
    )
    shares = [len(row["replaced_words"]) / row["words"] for row in table.to_pylist()]
    assert sum(shares) / len(shares) == pytest.approx(0.3, abs=0.02)
    sentence = "der hund die katze " * 5
    assert len({frozenset(replaced(sentence, seed=seed) or ()) for seed in range(5)}) == 5


PAIRS = st.lists(
    st.tuples(st.sampled_from(["Der Hund.", "Die Katze", "Ein Haus."]), st.sampled_from(["train", "dev", "test"])),
    max_size=12,
)


@given(PAIRS, st.integers(1, 3))
def test_rows_are_those_of_a_loop_that_counts_the_sentences_of_each_split(sentences, limit):
    table = sentence_pairs([("The dog.", text) for text, _ in sentences], splits=[split for _, split in sentences])
    taken, expected = Counter(), []
    for number, (_, split) in enumerate(sentences):
        row = code_switched(table.slice(number, 1), GERMAN, ALL).to_pylist()
        if row and taken[split] < limit:
            taken[split] += 1
            expected += row
    config = CodeSwitchingConfig(probability=1.0, max_pairs=limit)
    assert code_switched(table, GERMAN, config).to_pylist() == expected


@pytest.mark.parametrize("pair", ["en-en", "de-fr"])
def test_pairs_must_have_english_on_one_side(pair):
    with pytest.raises(ValueError, match=f"pair is '{pair}'; exactly one side must be English"):
        switched("der", pair=pair)


def listed(tmp_path, content):
    path = tmp_path / "de.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_invalid_word_list_lines_are_skipped_and_logged(tmp_path, caplog):
    path = listed(tmp_path, "the Der\nCat\tKatze\nTom Tom\nof von\r\n")
    assert read_dictionary(path) == [("the", "der"), ("cat", "katze"), ("of", "von")]
    path = listed(tmp_path, "the der\ncat die katze\n\nof\nof von\na ein\n")
    assert read_dictionary(path) == [("the", "der"), ("of", "von"), ("a", "ein")]
    assert caplog.messages == [f"{path}:2: a line that is not two words is left out (2 in this file)"]


@pytest.mark.parametrize("bad", ["cat", "cat die katze", f"house {'x' * 200}", b"caf\xe9 x"])
def test_a_broken_list_is_named_with_its_line(tmp_path, bad):
    content = b"the der\n" + (bad if isinstance(bad, bytes) else bad.encode()) + b"\n"
    with pytest.raises(CorpusError, match=r"de.txt:2: (expected an English word and its translation|not UTF-8)"):
        read_dictionary(listed(tmp_path, content))


def test_missing_empty_and_useless_lists_are_errors(tmp_path):
    with pytest.raises(CorpusError, match="this file does not exist"):
        read_dictionary(tmp_path / "de.txt")
    for content, message in (("", "this file is empty"), ("tom tom\n", "is its own translation")):
        with pytest.raises(CorpusError, match=message):
            read_dictionary(listed(tmp_path, content))
