"""The checks of steps: good data passes all of them, and each kind of bad data fails the check that names it."""

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from corpus_rows import write_pairs
from worlds import corpus, encoder, experiment, section, utterance

from disent_core.encoders.contract import EncoderReport
from disent_core.lineage import corpora, embeddings, evaluation, mteb_results, targets
from disent_core.lineage.result import gate_result
from disent_core.lineage.workspace import (
    ALIGNED,
    MASKED,
    MATES,
    POOL,
    SWITCHED,
    TEMPLATES,
    TRAINING_TEMPLATES,
    UTTERANCES,
    Workspace,
)
from disent_core.storage.tables import SCHEMAS, read_table, refresh_table, rows_table, write_table

TEXT = (
    corpus("toy", languages=["en-US", "de-DE"])
    + corpus("bitext", "moses", pairs=["en-de"])
    + encoder("own", epochs=1)
    + experiment("raw", "facet", pairs=["en-de", "de"])
    + section("targets.code_switching", dictionaries="lists")
    + section("mteb.results", ours="mteb")
)
CITIES = {"en": ("Rome", "Paris", "Munich"), "de": ("Rom", "Paris", "München")}
SPLITS = ("train", "train", "test", "test", "dev")


@pytest.fixture
def workspace(load, tmp_path) -> Workspace:
    """Two languages with slots, a bitext with a word list, and a folder of results of mteb."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "de.txt").write_text("house haus\n", encoding="utf-8")
    (tmp_path / "mteb").mkdir()
    made = Workspace(load(TEXT), tmp_path / "home")
    for language in CITIES:
        write_utterances(made, language, has_slots=True)
    write_pairs(made, "bitext", "en-de", [("test", "a house", "ein Haus"), ("test", "my house", "mein Haus")])
    pool = [{"corpus": "toy", "utterance_id": "0", "max_bleu": 0.0, "nearest_utterance_id": None}]
    for language in CITIES:
        rows = rows_table([row | {"language": language} for row in pool], "negative_pool")
        write_table(made.table(*POOL, "toy", language), rows, SCHEMAS["negative_pool"], inputs="")
    return made


def write_utterances(workspace: Workspace, language: str, *, has_slots: bool) -> None:
    slots = ["O", "B-city"] if has_slots else ["O", "O"]
    rows = [
        utterance(language, str(place), f"to {CITIES[language][place % 3]}", split=split, slot_tags=slots)
        for place, split in enumerate(SPLITS)
    ]
    table = rows_table(rows, "utterances")
    write_table(workspace.table(*UTTERANCES, "toy", language), table, SCHEMAS["utterances"], inputs=str(has_slots))


def failed(result) -> set[str]:
    assert result.checks
    return {outcome.check.name for outcome in result.checks if not outcome.passed}


def twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


def none_of(table: pa.Table) -> pa.Table:
    return table.slice(0, 0)


def patched(monkeypatch, module, name: str, change) -> None:
    """Let a function that makes a table return another one."""
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **details: change(original(*args, **details)))


def test_targets_of_a_language_pass_their_checks_and_without_slots_none_are_needed(workspace):
    for key in (MASKED, TEMPLATES, TRAINING_TEMPLATES):
        result = targets.refresh_language(workspace, "en", key=key)
        assert result.rows
        assert failed(result) == set()
    write_utterances(workspace, "en", has_slots=False)
    result = targets.refresh_language(workspace, "en", key=TEMPLATES)
    assert (result.rows, failed(result)) == (0, set())


@pytest.mark.parametrize(
    ("key", "change", "names"),
    [
        (MASKED, twice, {"rows_are_unique", "every_utterance_is_masked"}),
        (MASKED, lambda table: table.slice(1), {"every_utterance_is_masked"}),
        (TEMPLATES, twice, {"rows_are_unique"}),
        (TEMPLATES, none_of, {"utterances_with_slots_have_targets"}),
    ],
)
def test_bad_targets_of_a_language_fail(workspace, monkeypatch, key, change, names):
    patched(monkeypatch, targets, "mask_utterances" if key == MASKED else "template_pairs", change)
    assert failed(targets.refresh_language(workspace, "en", key=key)) == names
    assert failed(targets.refresh_language(workspace, "en", key=key)) == names  # of the table that is there as well


@pytest.mark.parametrize(
    ("change", "fails"),
    [(lambda table: table, ""), (twice, "rows_are_unique"), (none_of, None)],
    ids=["", "twice", "none"],
)
@pytest.mark.parametrize(
    ("made", "refresh", "without_rows"),
    [
        ("code_switched", targets.refresh_switched, "word_list_switches_words"),
        ("parallel_mates", targets.refresh_mates, "pairs_have_mates"),
        ("_align", targets.refresh_aligned, "pairs_have_texts"),
    ],
)
def test_tables_of_pairs_are_checked(workspace, monkeypatch, made, refresh, without_rows, change, fails):
    for language in CITIES:
        targets.refresh_language(workspace, language, key=MASKED)
    patched(monkeypatch, targets, made, change)
    patched(monkeypatch, targets, "_align_sentences", none_of)
    assert failed(refresh(workspace, "en-de")) == {without_rows if fails is None else fails} - {""}


def test_a_pair_without_a_word_list_needs_no_switched_sentences_and_a_single_language_no_pairs(workspace, tmp_path):
    (tmp_path / "lists" / "de.txt").unlink()
    empty = [targets.refresh_switched(workspace, "en-de")]
    empty += [targets.refresh_aligned(workspace, "de"), targets.refresh_mates(workspace, "de")]
    for result in empty:
        assert (result.rows, failed(result)) == (0, set())


def test_repeated_rows_are_counted_in_reused_tables(tmp_path):
    path, schema = tmp_path / "t.parquet", pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = pa.table({"a": [1, 1, 2], "b": [1, 1, 1]}, schema=schema)
    write_table(path, table, schema, inputs="x")
    again = [refresh_table(path, schema, inputs="x", make=table.slice, key=key) for key in (("a",), ("b",), ())]
    assert [(refreshed.is_reused, refreshed.info.repeated) for refreshed in again] == [
        (True, 1),
        (True, 2),
        (True, None),
    ]


def test_a_gate_warns_if_a_table_is_empty_in_all_partitions():
    filled = [((*MATES, "en-de"), 0, "a"), ((*MATES, "en-es"), 3, "b")]
    assert failed(gate_result("e", filled)) == set()
    (outcome,) = gate_result("e", [*filled, ((*ALIGNED, "en-de"), 0, "c"), ((*SWITCHED, "de-en"), 0, "d")]).checks
    assert (outcome.passed, outcome.figures) == (False, {"empty": ["aligned_pairs", "code_switched_pairs"]})
    assert failed(gate_result("e", [((*ALIGNED, "de"), 0, "c")], may_be_empty=["aligned_pairs"])) == set()


def test_an_archive_of_another_size_is_a_warning(load, tmp_path):
    served, here = tmp_path / "served.csv", tmp_path / "table.csv"
    served.write_text("1234", encoding="utf-8")
    of_url = corpus("table", "intents", path="table.csv", url=served.as_uri(), size=4, languages=["en", "de"])
    downloaded = Workspace(load(of_url + encoder("own") + experiment()), tmp_path / "home")
    assert failed(corpora.download(downloaded)) == set()
    here.write_text("12345", encoding="utf-8")
    assert failed(corpora.download(downloaded)) == {"archives_have_their_size"}


@pytest.mark.parametrize(("loss", "names"), [(1.5, set()), (math.nan, {"training_did_not_diverge"})])
def test_an_encoder_whose_training_diverged_fails(workspace, monkeypatch, loss, names):
    report = EncoderReport("content", is_reused=False, figures={"texts": 3, "loss": loss})
    monkeypatch.setattr(embeddings, "imported", lambda _: lambda *_: report)
    assert failed(embeddings.make_encoder(workspace, "own")) == names


COMPARED = {
    "task": "sts", "dataset": "toy", "encoder": "own", "evaluated_on": "en-de", "metric": "pearson", "settings": "{}",
    "method_a": "raw", "trained_on_a": "", "embedding_a": "sentence", "method_b": "facet", "trained_on_b": "en-de",
    "embedding_b": "meaning", "value_a": 0.1, "value_b": 0.2, "difference": 0.1, "ci_low": None, "ci_high": None,
    "n": 3, "test": "mcnemar", "p_value": 0.01, "p_holm": 0.02, "fingerprint": "f",
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([], set()),
        ([COMPARED], set()),
        ([COMPARED, COMPARED], {"rows_are_unique"}),
        ([COMPARED | {"p_holm": 0.001}], {"p_values_are_probabilities"}),
        ([COMPARED | {"p_value": math.nan}], {"p_values_are_probabilities"}),
    ],
)
def test_comparisons_are_checked(workspace, monkeypatch, rows, names):
    monkeypatch.setattr(evaluation, "compare", lambda *_, **__: rows_table(rows, "comparisons"))
    assert failed(evaluation.refresh_comparisons(workspace, "own")) == names


def test_a_folder_without_results_of_mteb_is_a_warning(workspace, tmp_path):
    assert failed(mteb_results.refresh_mteb_results(workspace, "ours")) == {"folder_has_results"}
    path = tmp_path / "mteb" / "org__model" / "1" / "STS17.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"task_name": "STS17", "scores": {"test": [{"cosine_spearman": 0.5, "hf_subset": "en-en"}]}}')
    assert failed(mteb_results.refresh_mteb_results(workspace, "ours")) == set()
    assert len(read_table(workspace.table("evaluation", "mteb_results", "ours"), SCHEMAS["mteb_results"])) == 1
