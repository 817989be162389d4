"""xSID: the published files, later headers and dialects, and broken files."""

import logging

import pytest
from places import needs_corpus, real_corpus

from disent_core.corpora.formats.xsid import language_of, locales, read_utterances
from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS
from disent_core.text import text_key, token_spans

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
    assert row == {
        "corpus": "toy",
        "language": "de",
        "utterance_id": "test-1",
        "split": "test",
        "domain": "alarm",
        "intent": "alarm/set_alarm",
        "text": "weck mich um 7",
        "tokens": ["weck", "mich", "um", "7"],
        "slot_tags": ["O", "O", "B-datetime", "I-datetime"],
        "text_key": text_key("weck mich um 7"),
    }


@pytest.mark.parametrize("sign", [":", " ="])
@pytest.mark.parametrize("end", ["\n\n", "\n\n\n", "\r\n\r\n"])
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
    assert [(row["split"], row["utterance_id"]) for row in read(tmp_path)] == [
        ("train", "train-1"),
        ("dev", "dev-1"),
        ("test", "test-1"),
    ]


def test_an_intent_without_domain_is_its_own(tmp_path):
    (row,) = read(written(tmp_path, block(intent="RateBook", rows=ROWS.replace("alarm/set_alarm", "RateBook"))))
    assert (row["domain"], row["intent"]) == ("RateBook", "RateBook")


def test_tokens_may_cut_words_of_the_text(tmp_path):
    rows = "1\t今\tweather/find\tB-datetime\n2\t日\tweather/find\tI-datetime\n3\tは\tweather/find\tO"
    written(tmp_path, block(text="今日 は", intent="weather/find", rows=rows), name="ja.test.conll")
    (row,) = read(tmp_path, "ja")
    assert (row["text"], row["tokens"]) == ("今日 は", ["今", "日", "は"])


def test_dialects_are_languages_and_other_files_are_none(tmp_path):
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


# --- repairs, which are logged ---

REPAIRED = {
    "I- alone": (ROWS.replace("B-datetime", "O"), "weck mich um 7", ["O", "O", "O", "B-datetime"], "read as B-"),
    "white space": (
        ROWS.replace("um\t", "um \t").replace("I-datetime", "I-datetime "), "weck mich um 7 ",
        ["O", "O", "B-datetime", "I-datetime"], None,
    ),
    "no token": (
        ROWS.replace("mich", ""), "weck um 7", ["O", "B-datetime", "I-datetime"], "a row without token is skipped",
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
    "a row that is there twice is left out (1 in this file)": ((block(), block()), ["test-1"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_utterance_is_left_out_or_gets_an_id_and_that_is_told(tmp_path, caplog, fault):
    blocks, ids = FAULTS[fault]
    good = [block(number=f"good{number}") for number in range(4)]
    assert [row["utterance_id"] for row in read(written(tmp_path, *good, *blocks))][4:] == ids
    assert [fault in message for message in caplog.messages] == [True]


# --- errors ---

BEGIN, LAST = 10, 17
BROKEN = {
    "cut off": (block(number="2")[:-12], LAST, "expected index, token, intent and tag by tab, found '4.*7.*alarm"),
    "too many columns": (block(number="2") + "\tmore", LAST, "expected index, token, intent and tag"),
    "spaces": (block(number="2").replace("4\t7\t", "4 7 "), LAST, "expected index, token, intent and tag"),
    "illegal tag": (block(number="2").replace("I-", "X-"), BEGIN, "'X-datetime' is not a tag such as"),
    "no type": (block(number="2").replace("I-datetime", "I-"), BEGIN, "'I-' is not a tag such as"),
    "duplicate id": (block(), BEGIN, "id '1' is already at de.test.conll:1"),
    "no tokens": ("# id: 2\n# text: a\n# intent: b", BEGIN, "has no tokens"),
    "no intent": ("# id: 2\n# text: a\n1\ta\t\tO", BEGIN, "has no intent"),
    "mask": (block(number="2", text="weck <mask>"), BEGIN, "stand for masked words"),
    "not UTF-8": (b"# id: 2\n# text: caf\xe9", BEGIN + 1, "not UTF-8"),
}


@pytest.mark.parametrize(("bad", "line", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_line_and_remedy(tmp_path, bad, line, message):
    with pytest.raises(CorpusError, match=rf"de.test.conll:{line}: .*{message}.*Correct this line"):
        read(written(tmp_path, block(), bad))


# --- the published files ---


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
