"""MASSIVE as published: the reader on real files, and on files broken in every way that it names."""

import gzip
import io
import json
import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import needs_corpus, real_corpus
from worlds import utterance

from disent_core.corpora import reader
from disent_core.corpora.annotation import bracketed_slots, tag_tokens, tagged_slots
from disent_core.corpora.formats.massive import content_hash, read_utterances
from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS
from disent_core.text import MASK, is_unspaced, normalise, token_spans

REAL = real_corpus("massive/amazon-massive-dataset-1.1.tar.gz")
needs_real = needs_corpus(REAL)


def line(**changes):
    fields = {
        "id": "1",
        "locale": "en-US",
        "partition": "train",
        "scenario": "iot",
        "intent": "iot_lights",
        "utt": "dim the red lamp",
        "annot_utt": "dim the [color : red] lamp",
    }
    return json.dumps(fields | changes, ensure_ascii=False)


def unpacked(tmp_path, *lines, locale="en-US", end="\n"):
    data = tmp_path / "1.1" / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / f"{locale}.jsonl").write_bytes(
        b"".join(part if isinstance(part, bytes) else f"{part}{end}".encode() for part in lines)
    )
    return tmp_path


def packed(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def read(path, locale="en-US", language="en"):
    return read_utterances(path, locale, corpus="toy", language=language)


def rows(*lines, tmp_path, **where):
    return read(unpacked(tmp_path, *lines), **where).to_pylist()


def test_a_line_becomes_a_row_with_a_tag_for_each_token(tmp_path):
    (row,) = rows(line(), tmp_path=tmp_path)
    labels = {"split": "train", "domain": "iot", "intent": "iot_lights", "slot_tags": ["O", "O", "B-color", "O"]}
    assert row == utterance("en", "1", "dim the red lamp", **labels)


def test_optional_fields_are_ignored(tmp_path):
    extra = line(worker_id="9", slot_method=[{"slot": "color", "method": "translation"}], judgments=[])
    assert rows(line(), tmp_path=tmp_path / "a") == rows(extra, tmp_path=tmp_path / "b")


def test_text_is_nfc_in_text_and_annotation(tmp_path):
    decomposed = "cafe\u0301 now"
    (row,) = rows(line(utt=decomposed, annot_utt="[place : cafe\u0301] now"), tmp_path=tmp_path)
    assert row["text"] == normalise(decomposed)
    assert row["tokens"] == ["caf\u00e9", "now"]


def test_unspaced_text_is_tagged_by_character_and_ignores_the_spaces_of_the_annotation(tmp_path):
    entry = line(locale="ja-JP", utt="赤い灯を消して", annot_utt="[color : 赤い] 灯を消して")
    (row,) = read(unpacked(tmp_path, entry, locale="ja-JP"), "ja-JP", "ja").to_pylist()
    assert row["tokens"] == list("赤い灯を消して")
    assert row["slot_tags"] == ["B-color", "I-color", "O", "O", "O", "O", "O"]


def test_a_word_is_cut_where_a_slot_begins_or_ends_in_it(tmp_path):
    (row,) = rows(line(utt="im kalter-tag hier", annot_utt="im [w : kalter]-[d : tag] hier"), tmp_path=tmp_path)
    assert row["tokens"] == ["im", "kalter", "-", "tag", "hier"]
    assert row["slot_tags"] == ["O", "B-w", "O", "B-d", "O"]
    assert token_spans(row["text"], row["tokens"])[1:4] == [(3, 9), (9, 10), (10, 13)]


@pytest.mark.parametrize("bracket", ["[time : 5:30 pm]", "[time:5:30 pm]", "[ time :5:30 pm ]", "[time: 5:30 pm]"])
def test_brackets_may_be_spaced_in_any_way_and_values_may_have_colons(tmp_path, bracket):
    (row,) = rows(line(utt="at 5:30 pm", annot_utt=f"at {bracket}"), tmp_path=tmp_path)
    assert row["slot_tags"] == ["O", "B-time", "I-time"]


PLAIN = st.text("ab \u3000é", min_size=0, max_size=4)
PIECES = st.lists(st.tuples(st.sampled_from([None, "x", "y"]), PLAIN), min_size=1, max_size=6)


@given(PIECES, st.sampled_from(["en", "ja"]))
def test_tags_give_back_the_annotated_values(pieces, language):
    pieces = [(slot, part) for slot, part in pieces if slot is None or part.strip()]
    text = "".join(part for _, part in pieces)
    annotated = "".join(part if slot is None else f"[{slot} : {part}]" for slot, part in pieces)
    tokens, tags = tag_tokens(text, language, bracketed_slots(annotated, text))
    spans = token_spans(text, tokens)
    slots = [(slot.type, text[spans[slot.start][0] : spans[slot.end - 1][1]]) for slot in tagged_slots(tags)]
    assert slots == [(slot, part.strip()) for slot, part in pieces if slot]
    assert len(tags) == len(tokens)


@pytest.mark.parametrize("inside", ["", "1.1", "1.1/data"])
def test_a_folder_is_read_at_any_of_its_levels(tmp_path, inside):
    assert read(unpacked(tmp_path, line()) / inside).num_rows == 1


@pytest.mark.parametrize("prefix", ["", "./", "any/1.1/"])
def test_an_archive_is_read_whatever_its_prefix(tmp_path, prefix):
    archive = packed(tmp_path / "m.tar", {f"{prefix}data/en-US.jsonl": line().encode()})
    assert read(archive).num_rows == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["m.tar"]  # nothing is unpacked to disk


def test_the_hash_covers_the_locale_only(tmp_path):
    archive = packed(tmp_path / "1.tar.gz", {"data/en-US.jsonl": line().encode(), "data/de-DE.jsonl": b"x"})
    other_archive = packed(tmp_path / "2.tar", {"data/de-DE.jsonl": b"y", "data/en-US.jsonl": line().encode()}, "w")
    assert content_hash(archive, "en-US") == content_hash(other_archive, "en-US")
    assert content_hash(archive, "de-DE") != content_hash(other_archive, "de-DE")
    assert content_hash(unpacked(tmp_path, line(), end=""), "en-US") == content_hash(archive, "en-US")


def test_the_errors_of_unknown_and_absent_locales_name_similar_and_present_ones(tmp_path):
    with pytest.raises(CorpusError, match=r"'en-GB' is not a locale of MASSIVE 1.1. Did you mean .*en-US"):
        read(unpacked(tmp_path / "one", line()), "en-GB")
    members = {f"1.1/data/{locale}.jsonl": b"" for locale in ("tr-TR", "de-DE")}
    for path in (packed(tmp_path / "m.tar.gz", members), unpacked(tmp_path, locale="de-DE")):
        with pytest.raises(CorpusError, match=r"it has no file en-US.jsonl, only de-DE"):
            read(path)


def test_paths_and_files_without_utterances_are_named(tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere.tar.gz: this file or folder does not exist. Check the path"):
        read(tmp_path / "nowhere.tar.gz")
    with pytest.raises(CorpusError, match=r"it has no file en-US\.jsonl and nothing like it"):
        read(tmp_path)
    with pytest.raises(CorpusError, match="has no utterances"):
        read(unpacked(tmp_path, "\n"))
    (tmp_path / "m.tar.gz").write_text("<html>not found</html>")
    with pytest.raises(CorpusError, match="not a whole tar archive"):
        read(tmp_path / "m.tar.gz")


def test_an_archive_cut_anywhere_is_an_error(tmp_path):
    content = "\n".join(line(id=str(number)) for number in range(500)).encode()
    whole = packed(tmp_path / "m.tar.gz", {"data/en-US.jsonl": content}).read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        (tmp_path / "cut.tar.gz").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(CorpusError, match=r"cut.tar.gz: not a whole tar archive .* Download"):
            read(tmp_path / "cut.tar.gz")


def test_a_flipped_bit_in_an_archive_is_an_error(tmp_path):
    stored = packed(tmp_path / "m.tar", {"data/en-US.jsonl": line().encode()}, "w").read_bytes()
    broken = bytearray(gzip.compress(stored, compresslevel=0))
    broken[broken.index(b"lamp")] ^= 1
    (tmp_path / "m.tar.gz").write_bytes(broken)
    with pytest.raises(CorpusError, match="CRC"):
        read(tmp_path / "m.tar.gz")


BROKEN = {
    "cut off": (line()[:40], "Unterminated|Expecting|delimiter"),
    "not an object": ("[1]", "expected a JSON object, found list"),
    "not UTF-8": (b'{"id": "caf\xe9"}\n', "utf-8"),
    "missing field": ('{"id": "2", "locale": "en-US"}', r"missing fields: partition, .*, annot_utt\. "),
    "not text": (line(id=2), r"fields that are not text: id\. "),
    "empty utterance": (line(id="2", utt=" ", annot_utt=" "), "the sentence is empty"),
    "other locale": (line(id="2", locale="de-DE"), "locale is 'de-DE' in the file of 'en-US'"),
    "unknown partition": (line(id="2", partition="validation"), "partition 'validation'"),
    "duplicate id": (line(), "id '1' is already on line 1"),
    "open bracket": (line(id="2", annot_utt="dim the [color : red lamp"), r"'\[' .*has no partner"),
    "nested bracket": (line(id="2", annot_utt="dim [a : the [color : red] lamp]"), "has no partner"),
    "stray close": (line(id="2", annot_utt="dim the red] lamp"), r"'\]' .*has no partner"),
    "no type": (line(id="2", annot_utt="dim the [red] lamp"), r"'\[red\]' .*not of the form"),
    "other text": (line(id="2", annot_utt="dim the [color : blue] lamp"), "differs from the text"),
    "mask": (line(id="2", utt=f"dim {MASK}", annot_utt=f"dim {MASK}"), "reserved for masked words"),
}


@pytest.mark.parametrize(("bad", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named_with_file_number_and_remedy(tmp_path, bad, message):
    folder = unpacked(tmp_path, line(), "", bad)
    with pytest.raises(CorpusError, match=rf"data/en-US.jsonl:3: .*({message}).*Correct this line"):
        read(folder)
    content = (folder / "1.1/data/en-US.jsonl").read_bytes()
    with pytest.raises(CorpusError, match=r"m.tar.gz:1.1/data/en-US.jsonl:3: "):
        read(packed(tmp_path / "m.tar.gz", {"1.1/data/en-US.jsonl": content}))


@needs_real
@pytest.mark.parametrize("locale", ["en-US", "hi-IN", "ja-JP", "zh-CN"])
def test_published_locales_give_back_their_annotated_values(locale):
    language = locale[:2]
    table = reader("massive").read_utterances(REAL, locale, corpus="massive", language=language)
    assert table.schema == SCHEMAS["utterances"]
    with tarfile.open(REAL) as archive:
        published = [json.loads(entry) for entry in archive.extractfile(f"1.1/data/{locale}.jsonl")]
    assert len(published) == table.num_rows == 16_521
    for row, record in zip(table.to_pylist(), published, strict=True):
        spans = token_spans(row["text"], row["tokens"])
        tagged = [
            (slot.type, row["text"][spans[slot.start][0] : spans[slot.end - 1][1]])
            for slot in tagged_slots(row["slot_tags"])
        ]
        pairs = re.findall(r"\[(\S+) : (.*?)\]", normalise(record["annot_utt"]))
        squeeze = (lambda value: "".join(value.split())) if is_unspaced(language) else str
        assert [(name, squeeze(value)) for name, value in tagged] == [(n, squeeze(v)) for n, v in pairs]


@needs_real
def test_the_published_splits_have_their_sizes():
    splits = read(REAL).column("split").to_pylist()
    assert {name: splits.count(name) for name in set(splits)} == {"train": 11_514, "dev": 2_033, "test": 2_974}
