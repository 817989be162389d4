"""Named entities in CoNLL format: the published files, all tag schemes, and broken files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import needs_corpus, real_corpus

from disent_core.corpora.annotation import Slot, bio_tags, tagged_slots
from disent_core.corpora.formats.conll import content_hash, language_of, locales, read_utterances
from disent_core.errors import CorpusError
from disent_core.storage.tables import SCHEMAS

REAL = real_corpus("ner")
needs_real = needs_corpus(REAL)

SENTENCE = "Ada B-PER\nlives O\nin O\nLagos B-LOC\n\n"


def written(tmp_path, content=SENTENCE, name="yor/train.txt"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


def read(path, locale="yor"):
    return read_utterances(path, locale, corpus="toy", language=language_of(locale)).to_pylist()


def test_a_block_is_a_sentence_without_intent(tmp_path):
    table = read_utterances(written(tmp_path, SENTENCE * 2), "yor", corpus="toy", language="yo")
    assert table.schema == SCHEMAS["utterances"]
    row = table.to_pylist()[1]
    assert (row["utterance_id"], row["split"], row["language"]) == ("train-2", "train", "yo")
    assert (row["domain"], row["intent"], row["text"]) == (None, None, "Ada lives in Lagos")
    assert row["tokens"] == ["Ada", "lives", "in", "Lagos"]
    assert row["slot_tags"] == ["B-PER", "O", "O", "B-LOC"]


@pytest.mark.parametrize(
    ("name", "locale", "split"),
    [
        ("yor/train.txt", "yor", "train"), ("deep/er/yor/dev.txt", "yor", "dev"), ("yor/valid.tsv", "yor", "dev"),
        ("eng.testa", "eng", "dev"), ("eng.testb", "eng", "test"), ("yor-test.conll", "yor", "test"),
        ("train_yo.bio", "yo", "train"), ("hau/test", "hau", "test"),
    ],
)  # fmt: skip
def test_file_names_determine_language_and_split(tmp_path, name, locale, split):
    written(tmp_path, name=name)
    written(tmp_path, "no table", name="README.md")
    assert locales(tmp_path) == [locale]
    assert [row["split"] for row in read(tmp_path, locale)] == [split]


def test_the_folder_of_a_language_is_read_itself_and_by_any_code(tmp_path):
    written(tmp_path)
    assert locales(tmp_path / "yor") == ["yor"]
    assert read(tmp_path / "yor", "yo") == read(tmp_path, "yor")
    assert content_hash(tmp_path / "yor", "yo") == content_hash(tmp_path, "yor")


@pytest.mark.parametrize(
    "content",
    [
        SENTENCE.replace(" ", "\t"), SENTENCE.replace("\n", "\r\n"), SENTENCE.rstrip("\n"), "\n\n" + SENTENCE + "\n",
        SENTENCE.replace(" ", " NNP I-NP "), "-DOCSTART- -X- O O\n\n" + SENTENCE, SENTENCE.replace("in O", "in O\n O"),
        SENTENCE.replace(" ", "  "), SENTENCE.replace("\n", " \n"),
    ],
)  # fmt: skip
def test_separators_extra_columns_and_document_marks_are_ignored(tmp_path, content):
    assert read(written(tmp_path / "a", content)) == read(written(tmp_path / "b"))


@pytest.mark.parametrize(
    ("code", "tokens", "text"), [("jpn", ["東京", "に"], "東京に"), ("yor", ["3\u00a00", "x"], "3\u00a00 x")]
)
def test_tokens_keep_other_white_space_and_unspaced_scripts_are_joined_without_spaces(tmp_path, code, tokens, text):
    (row,) = read(written(tmp_path, "".join(f"{token} O\n" for token in tokens), name=f"{code}/test.txt"), code)
    assert (row["text"], row["tokens"]) == (text, tokens)


@pytest.mark.parametrize(
    ("published", "bio"),
    [("B-A M-A E-A", "B-A I-A I-A"), ("S-A I-A", "B-A B-A"), ("B-A I-B", "B-A B-B"), ("B-a-b I-a-b",) * 2],
)
def test_irregular_tags_become_bio_too(published, bio):
    assert bio_tags(published.split()) == bio.split()


SPANS = st.lists(st.tuples(st.sampled_from(["O", "A", "B"]), st.integers(1, 3)), max_size=6)


def schemes(spans):
    iob1, iobes, bilou, slots, before = [], [], [], [], "O"
    for kind, length in spans:
        if kind == "O":
            for tags in (iob1, iobes, bilou):
                tags.extend(["O"] * length)
        else:
            slots.append(Slot(kind, len(iob1), len(iob1) + length))
            iob1.extend([f"{'B' if before == kind else 'I'}-{kind}", *[f"I-{kind}"] * (length - 1)])
            for tags, last, only in ((iobes, "E", "S"), (bilou, "L", "U")):
                inner = [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{last}-{kind}"]
                tags.extend([f"{only}-{kind}"] if length == 1 else inner)
        before = kind
    return slots, (iob1, iobes, bilou)


@given(SPANS)
def test_the_spans_survive_every_scheme(spans):
    slots, tagged = schemes(spans)
    assert all(tagged_slots(bio_tags(tags)) == slots for tags in tagged)
    assert all(bio_tags(bio_tags(tags)) == bio_tags(tags) for tags in tagged)


BROKEN = {
    "Lag": "expected a token and its tag, found 'Lag'",
    "Lagos X-LOC": "'X-LOC' is not a tag such as O",
    "Lagos B-": "'B-' is not a tag",
    "<mask> O": "reserved for masked words",
}


@pytest.mark.parametrize("bad", BROKEN)
def test_a_broken_sentence_is_skipped_unless_half_of_the_file_is_broken(tmp_path, caplog, bad):
    path = written(tmp_path, f"{SENTENCE}\n{bad}\nAde B-PER\n\n{SENTENCE}")
    assert [row["utterance_id"] for row in read(path)] == ["train-1", "train-3"]
    (message,) = caplog.messages
    assert message.endswith("left out (1 in this file)")
    with pytest.raises(CorpusError, match=rf":6: .*{BROKEN[bad]}.*(Correct this line$|Save the file as UTF-8$)"):
        read(written(tmp_path, SENTENCE + bad))


@pytest.mark.parametrize(("content", "message"), [("\n\n", "has no sentences"), (b"caf\xe9 O", "txt:1: not UTF-8")])
def test_a_file_without_sentences_or_of_another_encoding_is_named(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        read(written(tmp_path, content))


def test_a_language_whose_files_have_two_codes_is_listed_once(tmp_path):
    written(tmp_path, name="eng.train")
    written(tmp_path, name="en.testa")
    (name,) = locales(tmp_path)
    assert {row["split"] for row in read(tmp_path, name)} == {"train", "dev"}


def test_two_files_of_one_split_are_an_error(tmp_path):
    written(tmp_path, name="yor/dev.txt")
    with pytest.raises(CorpusError, match=r"yor.valid.txt and yor.dev.txt are of the same language and split"):
        locales(written(tmp_path, name="yor/valid.txt"))


@needs_real
def test_published_sentences_and_tags_are_read_whole():
    rows = read(REAL)
    for split, name in (("train", "train.txt"), ("dev", "dev.txt"), ("test", "test.txt")):
        lines = (REAL / "yor" / name).read_text(encoding="utf-8").split("\n")
        split_rows = [row for row in rows if row["split"] == split]
        published = [line.split(" ")[-1] for line in lines if line]
        tags = [tag for row in split_rows for tag in row["slot_tags"]]
        assert [tag[2:] for tag in tags] == [tag[2:] for tag in published]
        assert sum(map(str.__ne__, tags, published)) <= 1  # two sentences begin with I-
        assert len(split_rows) == len("\n".join(lines).strip().split("\n\n"))
    assert {tag[2:] for row in rows for tag in row["slot_tags"]} == {"", "PER", "ORG", "LOC", "DATE"}
