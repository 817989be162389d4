"""The committed sample corpora: they are what their grammar generates, keep the promises of README.md beside them
and of their formats, and no sentence for evaluation is in the parallel corpus that heads train on."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from places import SAMPLES as CORPORA

from disent_core.corpora import pair_reader, reader
from disent_core.corpora.annotation import tagged_slots
from disent_core.targets.code_switching import read_dictionary

DATA = CORPORA / "sample" / "1.1" / "data"
LOCALES = ("en-US", "de-DE", "es-ES", "ja-JP")
KEYS = ["id", "locale", "partition", "scenario", "intent", "utt", "annot_utt"]
SLOT = re.compile(r"\[([a-z_]+) : ([^\[\]]+)\]")


def records_of(locale: str) -> list[dict[str, str]]:
    lines = (DATA / f"{locale}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


RECORDS = {locale: records_of(locale) for locale in LOCALES}
each_locale = pytest.mark.parametrize("locale", LOCALES)


def test_the_corpus_check_names_edited_missing_and_extra_files(tmp_path):
    folder = Path(shutil.copytree(CORPORA, tmp_path / "corpora"))
    edited = folder / "sample" / "1.1" / "data" / "ja-JP.jsonl"
    edited.write_text(edited.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (folder / "ner" / "de" / "extra.txt").touch()
    (folder / "intents.csv").unlink()
    command = [sys.executable, folder / "generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    reported = [Path(line.partition(": ")[0]).name for line in done.stderr.splitlines()]
    assert reported == ["intents.csv", "extra.txt", "ja-JP.jsonl"]


@each_locale
def test_ids_partitions_intents_and_slots_are_parallel(locale):
    def shared(record):
        slots = Counter(slot for slot, _ in SLOT.findall(record["annot_utt"]))
        return [*(record[key] for key in ("id", "partition", "scenario", "intent")), slots]

    assert list(map(shared, RECORDS[locale])) == list(map(shared, RECORDS["en-US"]))


@each_locale
def test_records_are_distinct_lower_case_and_annotated_as_those_of_massive(locale):
    for record in RECORDS[locale]:
        assert (list(record), record["locale"]) == (KEYS, locale)
        plain = SLOT.sub(r"\2", record["annot_utt"])
        assert record["utt"] == (plain.replace(" ", "") if locale == "ja-JP" else plain)
        assert record["utt"] == record["utt"].lower()
        assert not re.search(r"[{}<>|/#\[\]@?!.,]|  ", record["utt"])
    for key in ("id", "utt"):
        assert len({record[key] for record in RECORDS[locale]}) == len(RECORDS[locale])
    assert (DATA / f"{locale}.jsonl").stat().st_size < 1_000_000


def test_the_corpus_is_large_enough_and_its_partitions_have_their_shares():
    english = RECORDS["en-US"]
    assert len(english) >= 1200
    assert len({record["intent"] for record in english}) >= 8
    assert len({slot for record in english for slot, _ in SLOT.findall(record["annot_utt"])}) >= 12
    shares = {name: count / len(english) for name, count in Counter(row["partition"] for row in english).items()}
    assert shares == pytest.approx({"train": 0.70, "dev": 0.12, "test": 0.18}, abs=0.03)


LANGUAGES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "ja": "ja-JP"}
PAIRS = {  # format, pairs, and the sizes of their splits
    "tatoeba": ("tatoeba", ["de-en", "es-en", "ja-en"], [{"test": 150}] * 3),
    "bitext": ("moses", ["en-de", "en-es", "en-ja"], [{"test": 400}] * 3),
    "sts": ("sts", ["en-de", "en-en", "es-es"], [{"test": 100}] * 3),
    "mlqe": ("mlqe", ["en-de", "en-ja"], [{"train": 60, "dev": 30, "test": 100}] * 2),
}
TAGGED = {
    "xsid": ("xsid", ["de", "en", "ja"], [*[{"dev": 60, "test": 100}] * 2, {"dev": 40, "test": 60}]),
    "ner": ("conll", ["de"], [{"train": 250, "dev": 50, "test": 100}]),
    "intents.csv": ("intents", ["de", "en"], [{"test": 150}] * 2),
}


@cache
def pair_rows(corpus: str, pair: str) -> tuple[dict, ...]:
    return tuple(pair_reader(PAIRS[corpus][0]).read_pairs(CORPORA / corpus, pair, corpus=corpus).to_pylist())


@cache
def utterance_rows(corpus: str, language: str) -> tuple[dict, ...]:
    table = reader(TAGGED[corpus][0]).read_utterances(CORPORA / corpus, language, corpus=corpus, language=language)
    return tuple(table.to_pylist())


def texts(corpus: str, language: str, *, sources_only: bool = False) -> set[str]:
    if corpus in TAGGED:
        return {row["text"] for row in utterance_rows(corpus, language)} if language in TAGGED[corpus][1] else set()
    collected = set()
    for pair in PAIRS[corpus][1]:
        for side, side_language in zip(("source", "target"), pair.split("-"), strict=True):
            if side_language == language and not (sources_only and side == "target"):
                collected |= {row[side] for row in pair_rows(corpus, pair)}
    return collected


def test_corpora_have_their_sizes_and_together_less_than_a_megabyte():
    for kinds, rows_of in ((PAIRS, pair_rows), (TAGGED, utterance_rows)):
        for corpus, (_, names, sizes) in kinds.items():
            assert [Counter(row["split"] for row in rows_of(corpus, name)) for name in names] == sizes
    folders = [CORPORA / name for name in (*PAIRS, *TAGGED, "dictionaries")]
    files = [path for folder in folders for path in (folder.rglob("*") if folder.is_dir() else [folder])]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 1_000_000


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_is_in_two_corpora_nor_in_the_parallel_one(language):
    """But for damaged translations, which may happen to be one: their sources are not."""
    owner = {record["utt"]: "sample" for record in RECORDS[LANGUAGES[language]]}
    for corpus in (*PAIRS, *TAGGED):
        for text in texts(corpus, language, sources_only=corpus == "mlqe"):
            assert owner.setdefault(text, corpus) == corpus, text


@pytest.mark.parametrize("corpus", ["tatoeba", "bitext"])
def test_a_sentence_is_translated_once(corpus):
    for pair in PAIRS[corpus][1]:
        for side in ("source", "target"):
            assert len({row[side] for row in pair_rows(corpus, pair)}) == len(pair_rows(corpus, pair))


@pytest.mark.parametrize("pair", PAIRS["sts"][1])
def test_similarity_grades_are_balanced_and_no_sentence_is_paired_with_itself(pair):
    grades = [row["score"] for row in pair_rows("sts", pair)]
    bands = Counter("3 to 4" if 3 <= grade < 4 else grade for grade in grades)
    assert bands == {5: 20, "3 to 4": 20, 2: 20, 1: 20, 0: 20}
    assert all(row["source"] != row["target"] for row in pair_rows("sts", pair))


@pytest.mark.parametrize("pair", PAIRS["mlqe"][1])
def test_scores_of_quality_are_standardised_over_a_pair(pair):
    rows = pair_rows("mlqe", pair)
    means = [row["mean_score"] for row in rows]
    centre = sum(means) / len(means)
    deviation = (sum((mean - centre) ** 2 for mean in means) / len(means)) ** 0.5
    assert [row["score"] for row in rows] == pytest.approx([(mean - centre) / deviation for mean in means], abs=1e-5)
    assert {25, 100} <= set(means) <= set(range(25, 101, 5))


@pytest.mark.parametrize("language", ["de", "ja"])
def test_only_damaged_translations_lose_points(language, monkeypatch):
    monkeypatch.syspath_prepend(CORPORA)
    pair_corpora, sentences = import_module("pair_corpora"), import_module("sentences")
    grammar = sentences.Grammar.read(CORPORA / "grammar")
    with_slots = [template for template in grammar.templates if template.slots()]
    for utterance in (grammar.utter(template, grammar.draw(template, 0)) for template in with_slots):
        target, score = pair_corpora.damage(utterance, language, grammar)
        assert (target == utterance.texts[language]) == (score == 100), target


@pytest.mark.parametrize("language", ["de", "es", "ja"])
def test_a_word_list_is_sorted_is_read_and_has_words_of_the_test_sentences(language):
    path = CORPORA / "dictionaries" / f"{language}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert len(read_dictionary(path)) > 100
    foreign = {word for _, word in read_dictionary(path)}
    translatable = [text for text in texts("tatoeba", language) if any(word in text for word in foreign)]
    assert len(translatable) > 100


def test_intents_and_slots_of_translations_agree():
    slots = defaultdict(list)
    for language in TAGGED["xsid"][1]:
        for row in utterance_rows("xsid", language):
            types = sorted(slot.type for slot in tagged_slots(row["slot_tags"]))
            slots[row["utterance_id"]].append((row["intent"], types))
    assert max(map(len, slots.values())) == 3
    assert all(sentence_slots == of_languages[0] for of_languages in slots.values() for sentence_slots in of_languages)
    english, german = ({row["utterance_id"]: row["intent"] for row in utterance_rows("intents.csv", language)}
                       for language in ("en", "de"))  # fmt: skip
    assert english == german
    assert min(Counter(english.values()).values()) > 1


def test_all_kinds_of_entities_are_in_every_split():
    collected = defaultdict(set)
    for row in utterance_rows("ner", "de"):
        collected[row["split"]] |= {tag[2:] for tag in row["slot_tags"] if tag != "O"}
    assert collected == {split: {"PER", "LOC", "ORG"} for split in ("train", "dev", "test")}
