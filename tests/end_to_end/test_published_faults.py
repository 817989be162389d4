"""Releases with the faults that publishers ship are read; what can't be read stops its own language or pair alone."""

import pytest
from projects import Project
from worlds import corpus, encoder, experiment

from disent_core.lineage.corpora import refresh_utterances
from disent_core.storage.tables import SCHEMAS, read_table

pytestmark = pytest.mark.end_to_end

CONFIG = corpus("xsid", "xsid") + corpus("sts", "sts") + encoder("tiny") + experiment()
BLOCK = "# id = {id}\n# text = {text}\n# intent = alarm/set_alarm\n1\t{text}\talarm/set_alarm\tO\n"
GOOD = [BLOCK.format(id=number, text=f"word{number}") for number in range(1, 6)]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Languages and pairs with faults of xSID 0.7 and STS 2017, and one of each that can't be read."""
    project = Project(tmp_path_factory.mktemp("release"))
    project.config.write_text(CONFIG, encoding="utf-8")
    for split in ("test", "valid"):
        project.write_lines(f"xsid/en.{split}.conll", GOOD)
        project.write_lines(f"xsid/de.{split}.conll", GOOD)
        project.write_lines(f"xsid/lt.{split}.conll", [*GOOD, GOOD[0], BLOCK.format(id=1, text="another")])
        project.write_lines(f"xsid/no.{split}.conll", [*GOOD, "# id = 7/B\n# text =\n# intent = weather/find\n"])
        project.write_lines(f"xsid/da.{split}.conll", ["1\tno columns"])
    tracks = {"4a.es-en": 2, "4b.es-en": 2, "6.tr-en": 1, "2.ar-en": 3}
    for track, scores in tracks.items():
        project.write_lines(f"sts/STS.input.track{track}.txt", ["A man eats.\tA man is eating.", "A dog.\tThe sun."])
        project.write_lines(f"sts/STS.gs.track{track}.txt", ["4.5", "0.5", "1"][:scores])
    return project


@pytest.fixture(scope="module")
def result(release):
    return release.disent("materialize", "corpora")


def rows(project, table, corpus, name):
    return read_table(project.workspace.table("corpora", table, corpus, name), SCHEMAS[table]).to_pylist()


def test_readable_partitions_are_made_and_failed_ones_listed(release, result):
    assert result.exit_code == 1
    assert result.stdout.startswith("6 tables made, ")
    failed = [line for line in result.stderr.splitlines() if line.startswith("failed: ")]
    assert sorted(failed) == ["failed: corpora/sentence_pairs [en-ar]", "failed: corpora/utterances [da]"]
    lithuanian = rows(release, "utterances", "xsid", "lt")
    assert [row["utterance_id"] for row in lithuanian][:6] == ["dev-1", "dev-2", "dev-3", "dev-4", "dev-5", "dev-1-2"]
    assert len(rows(release, "utterances", "xsid", "no")) == 10
    assert [row["score"] for row in rows(release, "sentence_pairs", "sts", "en-tr")] == [4.5, None]
    both = rows(release, "sentence_pairs", "sts", "es-en")
    assert [(row["pair_id"], row["split"]) for row in both][1:3] == [("2", "test"), ("4b-1", "dev")]


def test_each_file_fault_is_logged_once_and_warnings_are_grouped_by_language(result):
    faults = [line for line in result.stderr.splitlines() if line.endswith("in this file)")]
    assert len(faults) == len(set(faults)) == 8
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    languages = ", ".join(f"corpora/utterances [{language}]" for language in ("de", "en", "lt", "no"))
    assert warnings[0].startswith(f"warning: {languages}: check every_split")


def test_fault_counts_are_table_metadata_even_when_reused(release, result):
    assert result.exit_code == 1
    with release.events() as events:
        made = {partition: metadata for _, partition, metadata in events.metadata()}
    assert "faults_of_files" not in made["en"]
    faults = [(record.data["file"], record.data["count"]) for record in made["no"]["faults_of_files"].records]
    assert faults == [("no.valid.conll", 1), ("no.test.conll", 1)]
    again = refresh_utterances(release.workspace, "no")
    assert again.is_reused
    assert [fault["count"] for fault in again.figures["faults_of_files"]] == [1, 1]
