"""Lines of text files, what every format names, and bounds on what a corpus may contain: nothing takes time or memory
without end."""

import itertools
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import utterance

from disent_core.corpora import format_module, is_of_pairs, pair_reader, reader
from disent_core.corpora.annotation import Slot, bracketed_slots, tag_tokens
from disent_core.corpora.formats import sts
from disent_core.corpora.lines import MOST_LINE_BYTES, parallel_lines, read_lines, stored_text
from disent_core.corpora.paths import files_hash
from disent_core.corpora.row_errors import RowErrors
from disent_core.corpora.rows import check_rows
from disent_core.errors import CorpusError, located, quoted
from disent_core.storage.tables import rows_table
from disent_core.targets.template_pairs import TemplatePairConfig, template_pairs
from disent_core.text import MARKERS, MASK, MOST_CHARACTERS, text_key


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("content", ["a\nb", "\ufeffa\r\nb\r\n"])
def test_line_ends_and_byte_order_marks_are_not_part_of_the_text(tmp_path, content):
    assert read_lines(written(tmp_path, "f", content)) == ["a", "b"]


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"), max_size=5), min_size=1)


@given(LINES, st.sampled_from(["\n", "\r\n"]))
@example(["a\u2028b", "a\x85b", "a\x0bb", "a\x0cb", "a\u2029b", "a\x1eb", "a\rb", "z"], "\n")
def test_only_a_line_feed_ends_a_line_so_that_what_is_written_is_read(tmp_path_factory, lines, end):
    content = "".join(line + end for line in lines)
    assert read_lines(written(tmp_path_factory.mktemp("lines"), "f", content)) == lines


@pytest.mark.parametrize("mark", [MASK, *sorted(MARKERS)])
def test_text_containing_mask_marks_is_refused(mark):
    with pytest.raises(ValueError, match="reserved for masked words"):
        stored_text(f"a {mark} b")


def test_stored_text_is_nfc_and_nothing_else_is_changed():
    assert stored_text(" cafe\u0301  now ") == " caf\u00e9  now "


def test_the_hash_is_that_of_names_and_bytes(tmp_path):
    first, second = written(tmp_path, "one", "ab"), written(tmp_path, "other", "c")
    before = files_hash([first, second])
    assert re.fullmatch("[0-9a-f]{64}", before)
    assert before == files_hash([first, second]) != files_hash([second, first])
    written(tmp_path, "one", "a"), written(tmp_path, "other", "bc")
    assert files_hash([first, second]) != before


def sides(tmp_path, left, right):
    return written(tmp_path, "p.en", left), written(tmp_path, "p.de", right)


def test_pairs_without_a_side_or_with_a_text_that_cannot_be_stored_are_left_out_and_none_is_an_error(tmp_path):
    read = parallel_lines(*sides(tmp_path, "a\n\nb\nc\nd <mask>\ne\n", "x\n \n\nz\ny\nw\n"), RowErrors())
    assert [list(map(str, column)) for column in read] == [["1", "4", "6"], ["a", "c", "e"], ["x", "z", "w"]]
    with pytest.raises(CorpusError, match="only blank lines"):
        parallel_lines(*sides(tmp_path, "\n\n", "\n\n"), RowErrors())


def massive(text, annotated):
    fields = {"id": "1", "locale": "en-US", "partition": "train", "scenario": "x", "intent": "y"}
    return json.dumps({**fields, "utt": text, "annot_utt": annotated}, ensure_ascii=False) + "\n"


FILES = {
    "massive": ("data/en-US.jsonl", massive("TEXT", "short"), "1"),
    "xsid": ("de.test.conll", "# text: TEXT\n# intent: x\n1\ta\tx\tO\n", "1"),
    "intents": ("t.tsv", "language\tintent\ttext\nen\tx\tgo\nen\tx\tTEXT\n", "3"),
    "conll": ("yor/test.txt", "a\tO\n\nTEXT\tO\n", "3"),
    "tatoeba": ("tatoeba.deu-eng.deu", "ja\nTEXT\n", "2"),
    "sts": ("STS.en-de.txt", "TEXT\tb\t5\n", "1"),
    "mlqe": ("en-de/test20.tsv", "original\ttranslation\tz_mean\tmean\na\tTEXT\t0\t0\n", "2"),
    "moses": ("x.en-de.de", "ja\nTEXT\n", "2"),
}
PARTNERS = {"tatoeba": "tatoeba.deu-eng.eng", "moses": "x.en-de.en"}


def names(form: str, folder: Path):
    return pair_reader(form).pairs(folder) if is_of_pairs(form) else reader(form).locales(folder)


def read(form: str, folder: Path, name: str = ""):
    name = name or names(form, folder)[0]
    if is_of_pairs(form):
        return pair_reader(form).read_pairs(folder, name, corpus="c")
    return reader(form).read_utterances(folder, name, corpus="c", language=reader(form).language_of(name))


FORMS = {
    "xsid": ("de.test.conll", "# intent: x\n1\tja\tx\tO\n", "de", "nl.test.conll"),
    "intents": ("a.tsv", "language\tintent\ttext\nen\tx\tgo\n", "en", "b.tsv"),
    "conll": ("yor/train.txt", "a O\n", "yor", "hau/train.txt"),
    "sts": ("STS.en-de.txt", "a\tb\t5\n", "en-de", "STS.es-de.txt"),
    "mlqe": ("en-de/dev.tsv", "original\ttranslation\tz_mean\tmean\na\tb\t0\t0\n", "en-de", "ro-en/dev.tsv"),
}
"""A file with its language or pair, and the name of a file of another one."""


@pytest.mark.parametrize("form", FORMS)
def test_the_hash_covers_the_language_or_pair_only(tmp_path, form):
    file, content, name, second = FORMS[form]
    content_hash = format_module(form).content_hash
    written(tmp_path, file, content)
    before = content_hash(tmp_path, name)
    written(tmp_path, second, content.replace("\nen\t", "\nfr\t"))
    assert content_hash(tmp_path, name) == before
    written(tmp_path, file, f"{content}{content.splitlines()[-1]}\n")
    assert content_hash(tmp_path, name) != before


@pytest.mark.parametrize("form", FORMS)
def test_missing_folders_files_and_languages_and_empty_files_are_named(tmp_path, form):
    file, content, name, _ = FORMS[form]
    with pytest.raises(CorpusError, match=r"nowhere: this (file or )?folder does not exist"):
        names(form, tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=r"it has no (.*files of this format|table)"):
        names(form, tmp_path)
    written(tmp_path, file, content)
    with pytest.raises(CorpusError, match=rf"'fi-sv', only {name}"):
        read(form, tmp_path, "fi-sv")
    written(tmp_path, file, "")
    with pytest.raises(CorpusError, match=f"{Path(file).name}: this file is empty"):
        read(form, tmp_path, name)


@pytest.mark.parametrize("form", FILES)
def test_a_text_that_is_too_long_as_it_is_written_is_named_with_file_line_and_remedy(tmp_path, form):
    name, content, line = FILES[form]
    path = written(tmp_path, name, content.replace("TEXT", "e\u0301" * 6_000))
    if form in PARTNERS:
        written(tmp_path, PARTNERS[form], "yes\nno\n")
    with pytest.raises(CorpusError, match=f"{path.name}:{line}: .*a text of 12,000 characters; shorten it"):
        read(form, tmp_path)


def test_the_rows_of_an_xsid_block_are_bounded_together_as_they_are_written(tmp_path):
    written(tmp_path, "de.test.conll", "# intent: x\n" + "1\te\u0301e\u0301\tx\tO\n" * 2_500)
    with pytest.raises(CorpusError, match=r"test\.conll:1: a text of 12,499 characters"):
        read("xsid", tmp_path)


def test_an_annotation_is_bounded_as_its_text_is(tmp_path):
    written(tmp_path, "data/en-US.jsonl", massive("a b", f"[x : a{' ' * 200_000}b]"))
    with pytest.raises(CorpusError, match="jsonl:1: a text of 200,008 characters"):
        read("massive", tmp_path)


def test_a_text_as_long_as_the_bound_is_read(tmp_path):
    text = "a " * (MOST_CHARACTERS // 2)
    written(tmp_path, "t.tsv", f"language\tintent\ttext\nen\tx\t{text}\n")
    assert len(read("intents", tmp_path)["tokens"][0]) == MOST_CHARACTERS // 2


def test_a_line_that_is_too_long_is_not_even_decoded(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"a\n" + b"\xff" * (MOST_LINE_BYTES + 1))
    with pytest.raises(CorpusError, match="f:2: a line of 1,000,001 bytes; the limit is 1,000,000"):
        read_lines(path)


def test_texts_of_readers_from_outside_are_bounded():
    text = "a" * (MOST_CHARACTERS + 1)
    table = pa.table({"utterance_id": ["1"], "text": [text], "text_key": [text_key(text)]})
    with pytest.raises(CorpusError, match=r"utterance '1': text has more than 10,000 characters\. Mend it"):
        check_rows(table, "c", "Mend it")


def test_template_pairs_are_bounded_by_the_text_limit():
    rows = [
        utterance("en", str(number), " ".join(tokens), tokens=tokens, slot_tags=["B-x"] * len(tokens))
        for number, tokens in enumerate([["a"] * 40, ["b" * 5_000]])
    ]
    made = template_pairs(rows_table(rows, "utterances"), TemplatePairConfig())
    assert made["source_utterance_id"].to_pylist() == ["1"]


def test_slots_are_found_without_comparing_each_token_with_each_slot():
    class Counted(Slot):
        looks = 0

        def __getattribute__(self, name):
            Counted.looks += name in ("start", "end")
            return super().__getattribute__(name)

    text = "a " * 1_000
    slots = [Counted("x", 2 * number, 2 * number + 1) for number in range(1_000)]
    assert tag_tokens(text, "en", slots)[1] == ["B-x"] * 1_000
    assert Counted.looks < 10 * len(slots)


@pytest.mark.parametrize("inside", ["a", ":b", "a b : c", "a :  "])
def test_a_malformed_slot_is_refused(inside):
    with pytest.raises(ValueError, match=r"is not of the form \[type : value\]"):
        bracketed_slots(f"[{inside}]", "")


def test_long_quotations_and_lists_in_messages_are_cut():
    assert quoted("a" * 10**6) == f"'{'a' * 199}... (1,000,002 characters)"
    message = located("f", 1, "problem " * 10**5, ", ".join(map(str, range(20_000))))
    assert len(message) < 2_200


def test_listing_a_folder_stops_at_the_file_limit(tmp_path, monkeypatch):
    listed = itertools.count()
    monkeypatch.setattr("disent_core.corpora.paths.MOST_FILES", 3)
    monkeypatch.setattr("os.walk", lambda path, onerror: ((path, [], [str(number)]) for number in listed))
    with pytest.raises(CorpusError, match=r"more than 3 files and folders .* a folder with nothing but the corpus"):
        sts.pairs(tmp_path)
    assert next(listed) == 4


def test_files_that_vanish_while_they_are_listed_are_an_error_of_the_corpus(tmp_path, monkeypatch):
    def vanish(*_):
        raise FileNotFoundError(2, "No such file or directory", "proc/1")

    monkeypatch.setattr("os.scandir", vanish)
    with pytest.raises(CorpusError, match=r"its files can't be listed .*proc/1.* Set the path"):
        sts.pairs(tmp_path)
