"""Tables of languages, intents and texts: every kind of file, columns by name, and broken files."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import utterance

from disent_core.corpora.formats.intents import SHARES, language_of, locales, read_utterances
from disent_core.corpora.rows import draw_splits
from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS
from disent_core.text import MASK, text_key

ROWS = [
    {"language": "en", "intent": "light", "text": 'dim "it", now', "id": "1"},
    {"language": "de", "intent": "light", "text": "dimm es", "id": "1"},
    {"language": "en", "intent": "music", "text": "play", "id": "2"},
]


def written(tmp_path, rows=ROWS, name="table.csv"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\n" for row in [list(rows[0]), *(row.values() for row in rows)]))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path, locale="en"):
    return read_utterances(path, locale, corpus="toy", language=language_of(locale)).to_pylist()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_file_gives_the_rows_of_a_language(tmp_path, suffix):
    path = written(tmp_path, name=f"table.{suffix}")
    assert locales(path) == ["de", "en"]
    table = read_utterances(path, "en", corpus="toy", language="en")
    assert table.schema == SCHEMAS["utterances"]
    assert table.num_rows == 2
    assert table.to_pylist()[0] == utterance("en", "1", 'dim "it", now', intent="light")


def test_columns_go_by_name_in_any_order_and_others_are_ignored(tmp_path):
    row = {"note": "x", "Utterance": "play", "LABEL": "music", "lang": "deu", "scenario": "media", "id": "7"}
    (entry,) = read(written(tmp_path, [row]), "deu")
    assert (entry["text"], entry["intent"], entry["domain"], entry["language"]) == ("play", "music", "media", "de")


def test_ids_and_labels_may_be_numbers(tmp_path):
    row = {"language": "en", "intent": 3, "text": "play", "id": 12}
    for suffix in ("jsonl", "parquet"):
        (entry,) = read(written(tmp_path, [row], f"t.{suffix}"))
        assert (entry["utterance_id"], entry["intent"]) == ("12", "3")


def test_rows_without_ids_have_no_translations(tmp_path):
    path = written(tmp_path, [{name: row[name] for name in ("language", "intent", "text")} for row in ROWS])
    english, german = ({row["utterance_id"] for row in read(path, language)} for language in ("en", "de"))
    assert (len(english), len(german), english & german) == (2, 1, set())


WIDE = [{"en": f"text {n}", "de": f"satz {n}"} for n in range(40)]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda rows: rows[::-1], id="in another order"),
        pytest.param(lambda rows: [{"en": "new", "de": "neu"}, *rows], id="grown"),
        pytest.param(lambda rows: [{**row, "en": f"[kind : {row['en']}]"} for row in rows], id="slots"),
        pytest.param(lambda rows: [{**row, "pl": row["en"]} for row in rows], id="another language"),
    ],
)
def test_drawn_splits_depend_on_the_text_and_not_on_row_order(tmp_path, changed):
    def splits(path, language):
        table = draw_splits(read_utterances(path, language, corpus="t", language=language), SHARES)
        return dict(zip(table["text"].to_pylist(), table["split"].to_pylist(), strict=True))

    before, after = written(tmp_path, WIDE, "a.csv"), written(tmp_path, changed(WIDE), "b.csv")
    for language in ("en", "de"):
        assert splits(before, language).items() <= splits(after, language).items()
    assert set(splits(before, "en").values()) == {"train", "dev", "test"}
    assert list(splits(before, "en").values()) == list(splits(before, "de").values())


def test_slots_in_a_column_of_plain_texts_are_refused_and_a_few_brackets_are_text(tmp_path):
    plain = [{"language": "en", "text": f"number {n}", "id": str(n)} for n in range(20)]
    slots = [{**row, "text": f"wake me at [time : {row['id']}]"} for row in plain]
    with pytest.raises(CorpusError, match=r"table\.csv:6: .*Rename that column to `annotated`"):
        read(written(tmp_path, [*plain[:4], *slots[4:]]))
    assert read(written(tmp_path, [*plain[:19], slots[19]]))[-1]["text"] == "wake me at [time : 19]"


def test_rows_of_one_text_are_kept_and_drawn_together(tmp_path):
    rows = [{"en": f"text {n % 20}", "de": f"satz {n}"} for n in range(60)]
    drawn = [
        draw_splits(read_utterances(written(tmp_path, rows), language, corpus="t", language=language), SHARES)
        for language in ("en", "de")
    ]
    english, german = (table["split"].to_pylist() for table in drawn)
    assert english == german == english[:20] * 3
    assert drawn[0]["utterance_id"].to_pylist() == drawn[1]["utterance_id"].to_pylist()
    assert set(english) == {"train", "dev", "test"}


def test_a_folder_is_read_file_by_file(tmp_path):
    written(tmp_path, ROWS[:2], "a.csv")
    written(tmp_path, ROWS[2:], "more/b.jsonl")
    (tmp_path / "README.md").write_text("about")
    assert [row["utterance_id"] for row in read(tmp_path)] == ["1", "2"]


def test_splits_are_those_of_a_column_or_else_of_file_names(tmp_path):
    splits = [{**row, "split": split} for row, split in zip(ROWS, ("train", "test", "validation"), strict=True)]
    assert [row["split"] for row in read(written(tmp_path, splits))] == ["train", "dev"]
    written(tmp_path / "files", ROWS[:2], "train.csv"), written(tmp_path / "files", ROWS[2:], "valid.csv")
    assert [row["split"] for row in read(tmp_path / "files")] == ["train", "dev"]


def test_locales_with_different_regions_are_distinct(tmp_path):
    path = written(tmp_path, [{**ROWS[0], "language": "zh-TW", "text": "點燈"}, {**ROWS[0], "language": "zh-CN"}])
    assert locales(path) == ["zh-CN", "zh-TW"]
    (row,) = read(path, "zh-TW")
    assert row["tokens"] == ["點", "燈"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Co", "Cs"]), min_size=1, max_size=8)


def stored(text):
    return bool(text.strip()) and MASK not in text


@settings(max_examples=40)
@given(st.lists(TEXTS.filter(stored), min_size=1, max_size=4), st.sampled_from(["csv", "jsonl", "parquet"]))
def test_any_text_comes_back(tmp_path_factory, texts, suffix):
    rows = [{"language": "en", "intent": "i", "text": text} for text in texts]
    path = written(tmp_path_factory.mktemp("intents"), rows, f"t.{suffix}")
    assert [row["text_key"] for row in read(path)] == [text_key(text) for text in texts]


def test_a_row_may_have_no_intent(tmp_path):
    rows = [{"language": "en", "intent": intent, "text": "a", "id": "1"} for intent in ("", None)]
    for row, suffix in zip(rows, ("csv", "jsonl"), strict=True):
        assert [stored["intent"] for stored in read(written(tmp_path, [row], f"t.{suffix}"))] == [None]
    (row,) = read(written(tmp_path, [{"language": "en", "text": "a"}], "none.csv"))
    assert row["intent"] is None


@pytest.mark.parametrize("with_text", [True, False])
def test_slots_in_brackets_become_tags(tmp_path, with_text):
    row = {"language": "en", "annotated": "wake me at [time : nine am] [date:today]"}
    row |= {"text": "wake me at nine am today"} if with_text else {}
    (stored,) = read(written(tmp_path, [row]))
    assert stored["text"] == "wake me at nine am today"
    assert stored["slot_tags"] == ["O", "O", "O", "B-time", "I-time", "B-date"]


def test_a_wide_table_has_one_column_per_language(tmp_path):
    rows = [
        {"en": "wake me at [time : nine]", "de-DE": "weck mich um [time : neun]", "label": "alarm", "notes": "x"},
        {"en": "play jazz", "de-DE": "", "label": "music", "notes": "y"},
    ]
    path = written(tmp_path, rows)
    assert locales(path) == ["de-DE", "en"]
    english, german = read(path, "en"), read(path, "de-DE")
    assert [row["text"] for row in english] == ["wake me at nine", "play jazz"]
    assert [(row["text"], row["intent"], row["slot_tags"]) for row in german] == [
        ("weck mich um neun", "alarm", ["O", "O", "O", "B-time"])
    ]
    assert german[0]["utterance_id"] == english[0]["utterance_id"] != english[1]["utterance_id"]


def test_rows_without_text_are_skipped_and_repeated_ids_made_distinct(tmp_path, caplog):
    texts = ["a", " ", "b", "a", "c"]
    table = [{"language": "en", "intent": "i", "text": text, "id": "1"} for text in texts]
    assert [(row["utterance_id"], row["text"]) for row in read(written(tmp_path, table))] == [
        ("1", "a"), ("1-2", "b"), ("1-3", "c")
    ]  # fmt: skip
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "a row without text or id is left out (1 in this file)",
        "a row with the id of an earlier row gets an id of its own (2 in this file)",
        "a duplicate of an earlier row is left out (1 in this file)",
    ]


GOOD = '{"language": "en", "intent": "i", "text": "a", "id": "1"}\n'
BROKEN = {
    "cut off": ('{"language": "en", "intent"', "Expecting|delimiter"),
    "no object": ("[1]", "expected a JSON object, found list"),
    "no text": ('{"language": "en", "intent": "i"}', "needs columns language and text .* has language, intent"),
    "empty text": ('{"language": "en", "intent": "i", "text": " ", "id": "2"}', r"empty fields: text\. "),
    "annotation": ('{"language": "en", "text": "at nine", "annotated": "at [time : ten]"}', "differs from the text"),
    "number as text": ('{"language": "en", "intent": "i", "text": 5}', "text is 5, not text"),
    "duplicate id": (GOOD.strip(), "id '1' is already at t.jsonl:1"),
    "mask": ('{"language": "en", "intent": "i", "text": "<mask>", "id": "2"}', "reserved for masked words"),
    "no code": ('{"language": "English", "intent": "i", "text": "b"}', "language 'English' is not a code such as"),
    "split": ('{"language": "en", "text": "b", "id": "2", "split": "eval"}', "split 'eval' is not one of"),
    "not UTF-8": (b'{"text": "caf\xe9"}', "not UTF-8"),
}


@pytest.mark.parametrize(("bad", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named(tmp_path, bad, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD.encode() + (bad if isinstance(bad, bytes) else bad.encode()))
    with pytest.raises(CorpusError, match=rf"t.jsonl:2: .*({message}).*(Correct this row|Save the file as UTF-8)$"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "language,intent,text\nen,i,a\nen,i\n", r"t.csv:3: 3 columns expected, 2 found"),
        ("t.csv", 'language,intent,text\nen,i,"a\n', r"t.csv:2: unexpected end of data"),
        ("t.csv", "language,intent,intent\nen,i,a\n", "t.csv:1: columns are named twice"),
        ("t.csv", "lingua,intent,text\nen,i,a\n", "needs columns language and text .* it has lingua"),
        ("t.csv", "en,note\nwake up,x\n", "or a column for each language, such as en and de; it has en, note"),
        ("t.csv", "en,de,text\na,b,c\n", "it has en, de, text"),
        ("t.csv", "en,de\nplay [a : jazz,spiel\n", r"t.csv:2: bracket '\['"),
        ("t.tsv", "language\tintent\ttext\nen\ti\ta\tb\n", r"t.tsv:2: 3 columns expected, 4 found"),
        ("t.csv", "", "this file is empty"),
        ("t.tsv", "\n\n", "this file has no rows"),
        ("t.parquet", "PAR1 no more", "not a whole Parquet file"),
        ("t.xlsx", "x", r"this is not a table. Tables are files named \*.csv, \*.tsv"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path / name)
