"""xSID: the published files, later headers and dialects, and broken files."""

import logging

import pytest
from places import needs_corpus, real_corpus
from worlds import utterance

from disent_core.corpora.formats.xsid import content_hash, language_of, locales, read_utterances
from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS
from disent_core.text import token_spans

REAL = real_corpus("xsid-0.4")
needs_real = needs_corpus(REAL)

TAGGED = {"weck": "O", "mich": "O", "um": "B-datetime", "7": "I-datetime"}
ROWS = "\n".join(f"{i}\t{token}\talarm/set_alarm\t{tag}" for i, (token, tag) in enumerate(TAGGED.items(), start=1))


def block(*, number="1", text="weck mich um 7", intent="alarm/set_alarm", rows=ROWS, sign=":"):
    headers = {"id": number, "text-en": "wake me at 7", "text": text, "intent": intent}
    return "\n".join([*(f"# {key}{sign} {value}" for key, value in headers.items() if value), rows])


def written(tmp_path, *blocks, name="de.test.conll", end="\n\n"):
    tmp_path.mkdir(exist_ok=True)
    content = b"".join((block if isinstance(block, bytes) else block.encode()) + end.encode() for block in blocks)
    (tmp_path / name).write_bytes(content)
    return tmp_path


def read(path, locale="de"):
    return read_utterances(path, locale, corpus="toy", language=language_of(locale)).to_pylist()


def test_a_block_is_an_utterance(tmp_path):
    (row,) = read(written(tmp_path, block()))
    labels = {"domain": "alarm", "intent": "alarm/set_alarm", "slot_tags": list(TAGGED.values())}
    assert row == utterance("de", "test-1", "weck mich um 7", **labels)


@pytest.mark.parametrize(("sign", "end"), [(" =", "\n\n"), (":", "\n\n\n"), (":", "\r\n\r\n")])
def test_headers_and_line_ends_may_be_of_either_kind(tmp_path, sign, end):
    text = block(sign=sign)
    content = text.replace("\n", "\r\n") if "\r" in end else text
    assert read(written(tmp_path / "a", content, end=end)) == read(written(tmp_path / "b", block()))


def test_blocks_without_id_are_numbered_in_the_order_of_the_file(tmp_path):
    rows = read(written(tmp_path, block(number=""), block(number=""), end="\n\n\n"))
    assert [row["utterance_id"] for row in rows] == ["test-1", "test-2"]


def test_valid_is_dev_and_ids_of_splits_do_not_meet(tmp_path):
    for split in ("test", "valid", "train"):
        written(tmp_path, block(), name=f"de.{split}.conll")
    rows = [(row["split"], row["utterance_id"]) for row in read(tmp_path)]
    assert rows == [(split, f"{split}-1") for split in ("train", "dev", "test")]


def test_an_intent_without_domain_is_its_own_domain(tmp_path):
    (row,) = read(written(tmp_path, block(intent="RateBook", rows=ROWS.replace("alarm/set_alarm", "RateBook"))))
    assert (row["domain"], row["intent"]) == ("RateBook", "RateBook")


def test_tokens_may_cut_words_of_the_text(tmp_path):
    rows = "1\t今\tweather/find\tB-datetime\n2\t日\tweather/find\tI-datetime\n3\tは\tweather/find\tO"
    written(tmp_path, block(text="今日 は", intent="weather/find", rows=rows), name="ja.test.conll")
    (row,) = read(tmp_path, "ja")
    assert (row["text"], row["tokens"]) == ("今日 は", ["今", "日", "は"])


def test_dialect_files_are_languages_and_other_files_are_ignored(tmp_path):
    for name in ("de-st.test.conll", "de-ba.valid.conll", "gsw.test.conll", "de.projectedTrain.conll",
                 "de-ba.MAS.test.conll", "de-ba.nat.conll", "README.md"):  # fmt: skip
        written(tmp_path, block(), name=name)
    assert locales(tmp_path) == ["de-ba", "de-st", "gsw"]
    assert language_of("de-st") == "de-st"


def test_the_folder_around_one_version_is_read_too(tmp_path):
    written(tmp_path / "xSID-0.4", block())
    assert locales(tmp_path) == ["de"]
    written(tmp_path / "xSID-0.5", block())
    with pytest.raises(CorpusError, match=r"xSID-0.5.de.test.conll and xSID-0.4.de.test.conll .*one version"):
        locales(tmp_path)


REPAIRED = {
    "I- alone": (ROWS.replace("B-datetime", "O"), "weck mich um 7", ["O", "O", "O", "B-datetime"], "read as B-"),
    "white space": (
        ROWS.replace("um\t", "um \t").replace("I-datetime", "I-datetime "), "weck mich um 7 ",
        ["O", "O", "B-datetime", "I-datetime"], None,
    ),
    "no token": (
        ROWS.replace("mich", ""), "weck um 7", ["O", "B-datetime", "I-datetime"], "a row without a token is skipped",
    ),
    "other words": (ROWS, "weck mi um 7", ["O", "O", "B-datetime", "I-datetime"], "not the words of the text"),
    "other intent": (
        ROWS.replace("\talarm/set_alarm\tI", "\tweather/find\tI"), "weck mich um 7",
        ["O", "O", "B-datetime", "I-datetime"], "differ from the header's",
    ),
    "index": (ROWS.replace("4\t7", "7\t7"), "weck mich um 7", ["O", "O", "B-datetime", "I-datetime"], None),
    "no text": (ROWS, "", ["O", "O", "B-datetime", "I-datetime"], None),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "text", "tags", "repair"), REPAIRED.values(), ids=REPAIRED)
def test_faults_of_published_files_are_repaired_and_logged(tmp_path, caplog, rows, text, tags, repair):
    with caplog.at_level(logging.WARNING):
        (row,) = read(written(tmp_path, block(rows=rows, text=text)))
    assert row["slot_tags"] == tags
    assert token_spans(row["text"], row["tokens"])
    assert row["intent"] == "alarm/set_alarm"
    assert [repair in message for message in caplog.messages] == [True] * bool(repair)
    assert all("de.test.conll:1: " in message and "(1 in this file)" in message for message in caplog.messages)


NO_TOKENS, OTHER = "# id = 9/B\n# text = \n# intent = a", block(text="geh", rows="1\tgeh\talarm/set_alarm\tO")
FAULTS = {
    "an utterance without tokens is left out (2 in this file)": ((NO_TOKENS, NO_TOKENS), []),
    "gets an id of its own (1 in this file)": ((block(), OTHER), ["test-1", "test-1-2"]),
    "a duplicate of an earlier row is left out (1 in this file)": ((block(), block()), ["test-1"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_utterances_are_skipped_or_get_an_id_and_are_logged(tmp_path, caplog, fault):
    blocks, ids = FAULTS[fault]
    good = [block(number=f"good{number}") for number in range(4)]
    assert [row["utterance_id"] for row in read(written(tmp_path, *good, *blocks))][4:] == ids
    assert [fault in message for message in caplog.messages] == [True]


ENGLISH = ["wake me", "show alarms", "will it rain", "show alarms", "play a song", "is it hot", "delete it"]
INTENTS = ["set_alarm", "show_alarms", "find", "show_alarms", "play", "find", "cancel"]


def item(position, *, number="", text="", intent="", english=None):
    """A block whose text is not English unless it has no number; `english` is its text-en."""
    intent = intent or INTENTS[position]
    text = text or (f"w{position}" if number else ENGLISH[position])
    headers = {"id": number, "text-en": ENGLISH[position] if english is None else english, "text": text}
    headers |= {"intent": intent} if number else {"intent": intent, "text-en": ""}
    lines = [f"# {key} = {value}" for key, value in headers.items() if value]
    rows = [f"{place}\t{token}\t{intent}\tO" for place, token in enumerate(text.split(), start=1)]
    return "\n".join([*lines, *rows])


def with_english(tmp_path, name, blocks):
    written(tmp_path, *(item(position) for position in range(7)), name="en.test.conll")
    return ids_of(written(tmp_path, *blocks, name=f"{name}.test.conll"), name)


def ids_of(path, locale):
    return {row["text"]: row["utterance_id"].removeprefix("test-") for row in read(path, locale)}


def test_repeated_wrong_ids_are_replaced_by_those_of_the_english_text(tmp_path, caplog):
    # Lithuanian: a number for each distinct text, in the order of English; equal texts have equal rows.
    numbers = ["89", "3", "101", "3", "2", "7", "6"]
    blocks = [item(place, number=number, text=f"w{place}" if number != "3" else f"rodyk {place}")
              for place, number in enumerate(numbers)]  # fmt: skip
    ids = with_english(tmp_path, "lt", blocks)
    assert list(ids.values()) == ["1", "2", "3", "4", "5", "6", "7"]
    assert ["id is replaced by that of its English text" in message for message in caplog.messages] == [True]
    assert "(7 in this file)" in caplog.text


def test_equal_rows_of_equal_english_texts_are_translations_of_both(tmp_path):
    twin = [item(place, number="3", text="rodyk") for place in (1, 3)]
    with_english(tmp_path, "lt", [item(0, number="9"), *twin])
    assert [row["utterance_id"] for row in read(tmp_path, "lt")] == ["test-1", "test-2", "test-4"]


def test_ids_that_are_shifted_from_some_row_on_are_those_of_the_english_text(tmp_path):
    # Bavarian: a row in the middle is missing, and those after it are numbered on.
    blocks = [item(place, number=str(number)) for number, place in enumerate((0, 1, 3, 4, 5, 6), start=1)]
    assert with_english(tmp_path, "de-ba", blocks) == {
        "w0": "1", "w1": "2", "w3": "4", "w4": "5", "w5": "6", "w6": "7",
    }  # fmt: skip


def test_an_unknown_english_text_gives_the_id_if_ids_are_wrong(tmp_path):
    lithuanian, bavarian = ([item(0, number=number), item(1, number="5", english="mow the lawn")] for number in "28")
    ids = with_english(tmp_path, "lt", lithuanian)
    assert ids == with_english(tmp_path, "de-ba", bavarian)
    assert ids["w1"] not in {"5", "2"}


def test_one_reworded_english_text_leaves_correct_ids_unchanged(tmp_path):
    blocks = [item(place, number=str(place + 1), english="reworded" if place == 2 else None) for place in range(7)]
    assert list(with_english(tmp_path, "da", blocks).values()) == ["1", "2", "3", "4", "5", "6", "7"]


def test_ids_of_items_and_dialects_are_joined_by_the_dialect_with_the_most_items(tmp_path, caplog):
    # Norwegian: no text-en, eleven dialects an item, shuffled.
    numbers = ["2/10", "1/B", "2/B", "1/10", "3/B", "4/10", "1/9"]
    blocks = [item(int(number[0]) - 1, number=number, text=number, english="") for number in numbers]
    ids = with_english(tmp_path, "no", blocks)
    assert ids == {
        "2/10": "2", "1/B": "1/B", "2/B": "2/B", "1/10": "1", "3/B": "3", "4/10": "4", "1/9": "1/9",
    }  # fmt: skip
    assert [message.split(": ")[1] for message in caplog.messages] == [
        "a row in a dialect other than '10' is not joined to other languages (3 in this file)"
    ]


def test_without_an_english_file_the_first_language_determines_the_ids(tmp_path):
    written(tmp_path, *(item(place, number=str(place + 1)) for place in range(3)), name="da.test.conll")
    written(tmp_path, *(item(place, number=str(9 - place)) for place in range(3)), name="lt.test.conll")
    assert ids_of(tmp_path, "lt") == ids_of(tmp_path, "da")


def test_intents_that_differ_from_english_are_counted(tmp_path, caplog):
    with_english(tmp_path, "ar", [item(0, number="1", intent="other"), item(1, number="2")])
    assert ["intent differs from that of the row" in message for message in caplog.messages] == [True]


def test_the_hash_covers_the_english_file_that_decides_the_ids(tmp_path):
    with_english(tmp_path, "lt", [item(0, number="9")])
    before = content_hash(tmp_path, "lt")
    written(tmp_path, item(6), item(0), name="en.test.conll")
    assert content_hash(tmp_path, "lt") != before


BEGIN = 10
BROKEN = {
    "cut off": (
        block(number="2")[:-12],
        17,
        "expected index, token, intent and tag separated by tabs, found '4.*7.*al",
    ),
    "illegal tag": (block(number="2").replace("I-", "X-"), BEGIN, "'X-datetime' is not a tag such as"),
    "duplicate id": (block(), BEGIN, "id '1' is already at de.test.conll:1"),
    "no tokens": ("# id: 2\n# text: a\n# intent: b", BEGIN, "has no tokens"),
    "no intent": ("# id: 2\n# text: a\n1\ta\t\tO", BEGIN, "has no intent"),
    "mask": (block(number="2", text="weck <mask>"), BEGIN, "reserved for masked words"),
    "not UTF-8": (b"# id: 2\n# text: caf\xe9", BEGIN + 1, "not UTF-8"),
}


@pytest.mark.parametrize(("bad", "line", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_line_and_remedy(tmp_path, bad, line, message):
    with pytest.raises(CorpusError, match=rf"de.test.conll:{line}: .*{message}.*(Correct this|Save)"):
        read(written(tmp_path, block(), bad))


@needs_real
def test_published_languages_are_whole_and_parallel_with_english():
    english = {row["utterance_id"]: row["intent"] for row in read(REAL, "en")}
    assert len(english) == 800
    for locale in sorted(set(locales(REAL)) - {"en"}):
        table = read_utterances(REAL, locale, corpus="xsid", language=language_of(locale))
        assert table.schema == SCHEMAS["utterances"]
        rows = table.to_pylist()
        assert [sum(row["split"] == split for row in rows) for split in ("train", "dev", "test")] == (
            [0, 150, 250] if locale == "ja" else [0, 300, 500]
        )
        agreeing = sum(english[row["utterance_id"]] == row["intent"] for row in rows)
        assert agreeing >= len(rows) - 26  # Arabic is published with 26 intents of its own
        assert all(token_spans(row["text"], row["tokens"]) for row in rows)
