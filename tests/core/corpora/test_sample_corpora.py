"""The committed sample corpus is what its grammar generates, and keeps the promises of its format."""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from places import SAMPLES

CORPORA = SAMPLES
DATA = CORPORA / "sample" / "1.1" / "data"
LOCALES = ("en-US", "de-DE", "es-ES", "ja-JP")
KEYS = ["id", "locale", "partition", "scenario", "intent", "utt", "annot_utt"]
SLOT = re.compile(r"\[([a-z_]+) : ([^\[\]]+)\]")


def records_of(locale: str) -> list[dict[str, str]]:
    lines = (DATA / f"{locale}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


RECORDS = {locale: records_of(locale) for locale in LOCALES}
each_locale = pytest.mark.parametrize("locale", LOCALES)


def slot_values(locale: str, *partitions: str) -> dict[str, set[str]]:
    values = defaultdict(set)
    for record in RECORDS[locale]:
        if record["partition"] in partitions:
            for slot, value in SLOT.findall(record["annot_utt"]):
                values[slot].add(value)
    return values


def generate(*arguments: str, script: Path = CORPORA / "generate.py") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


def test_the_committed_files_are_what_the_grammar_generates():
    done = generate("--check")
    assert done.returncode == 0, done.stderr


def test_check_names_the_file_that_was_edited(tmp_path):
    for script in CORPORA.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    (tmp_path / "grammar").symlink_to(CORPORA / "grammar")
    copy = tmp_path / "generate.py"
    assert generate(script=copy).returncode == 0
    edited = tmp_path / "sample" / "1.1" / "data" / "ja-JP.jsonl"
    edited.write_text(edited.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (tmp_path / "ner" / "de" / "extra.txt").touch()
    (tmp_path / "intents.csv").unlink()
    done = generate("--check", script=copy)
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


@each_locale
def test_every_slot_type_has_several_values_in_test(locale):
    test_values = slot_values(locale, "test")
    assert test_values.keys() == slot_values(locale, "train", "dev", "test").keys()
    assert {slot: values for slot, values in test_values.items() if len(values) < 2} == {}


def test_there_are_enough_utterances_intents_and_slot_types():
    assert len(RECORDS["en-US"]) >= 1200
    assert len({record["intent"] for record in RECORDS["en-US"]}) >= 8
    assert len(slot_values("en-US", "train", "dev", "test")) >= 12


def test_the_partitions_have_their_shares():
    counts = Counter(record["partition"] for record in RECORDS["en-US"])
    shares = {partition: count / len(RECORDS["en-US"]) for partition, count in counts.items()}
    assert shares == pytest.approx({"train": 0.70, "dev": 0.12, "test": 0.18}, abs=0.03)


@pytest.mark.parametrize("locale", LOCALES[1:])
def test_most_slot_values_are_translated(locale):
    pairs = set()
    for english, translation in zip(RECORDS["en-US"], RECORDS[locale], strict=True):
        # The order of slots differs between languages, so values are compared as sets.
        values = {value for _, value in SLOT.findall(translation["annot_utt"])}
        pairs |= {(value, value in values) for _, value in SLOT.findall(english["annot_utt"])}
    assert sum(shared for _, shared in pairs) < len(pairs) / 3
