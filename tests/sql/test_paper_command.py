"""`make paper` refuses what is no table, names all missing corpora at once, and prints one table of two homes."""

from pathlib import Path

import pytest
import torch
from made_warehouses import Warehouse, sql_of

from disent_core.errors import DisentError
from tools import paper

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
# raw_table1: made up; raw_table2.
[[corpora]]
name = "tatoeba"
format = "tatoeba"
path = "tatoeba"
pairs = ["de-en", "fr-en"]

[[corpora]]
name = "entities"
format = "conll"
path = "ner"
languages = ["yor", "luo"]

[[corpora]]
name = "fetched"
format = "massive"
path = "massive.tar.gz"
url = "https://example.org/massive.tar.gz"

[targets.code_switching]
dictionaries = "words"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / paper.CONFIGS).mkdir(parents=True)
    (tmp_path / paper.CONFIGS / "raw.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_paper_tables_are_named_in_configuration_headers():
    assert paper.configurations(ROOT, "dream_table4") == ["dream_bertscore", "dream_sts"]
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    for table, names in paper.tables(ROOT).items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{table}` |"))
        assert {*names} == {name.strip(" `") for name in row.split("|")[3].split(",")}


@pytest.mark.parametrize("name", ["raw", "data", "", "tatoeba", "table1", "raw_table"])
def test_an_unknown_table_is_refused_with_the_known_ones(project: Path, name: str):
    with pytest.raises(ValueError, match=r"raw_table1, raw_table2 ") as refused:
        paper.configurations(project, name)
    assert ("that is a configuration" in str(refused.value)) == (name == "raw")


def test_missing_corpora_are_named_all_at_once_and_an_empty_folder_is_missing(project: Path):
    folder = project / paper.CONFIGS
    for name in ("ner", "words", "tatoeba"):
        (folder / name).mkdir()
    for side in ("deu", "eng"):
        (folder / "tatoeba" / f"tatoeba.deu-eng.{side}").write_text("a\n", encoding="utf-8")
    with pytest.raises(DisentError) as refused:
        paper.check(project, ["raw"], cpu=True)
    tatoeba, entities, words = str(refused.value).splitlines()[1:]
    assert tatoeba.endswith("tatoeba: fr-en not in it")
    assert str(folder / "ner") in entities
    assert str(folder / "words") in words


def test_without_a_gpu_a_run_needs_explicit_consent(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paper, "missing_corpora", lambda _: ())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DisentError, match="CPU=1"):
        paper.check(project, ["raw"])
    paper.check(project, ["raw"], cpu=True)
    monkeypatch.setitem(paper._TERABYTES, "raw", 1e6)
    with pytest.raises(DisentError, match="loop for smaller disks"):
        paper.check(project, ["raw"], cpu=True)


def test_a_cell_counts_as_measured_if_any_home_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sts = {"task": "sts", "dataset": "sts2017", "metric": "pearson", "encoder": "labse", "trained_on": "en-de"}
    homes = []
    for name, languages in (("first", ["en-ar"]), ("second", ["en-de", "en-tr"])):
        (tmp_path / name).mkdir()
        homes.append(Warehouse(tmp_path / name, sql_of("papers", "parts.paper_cells")))
        homes[-1].build(metrics=[{**sts, "evaluated_on": pair, "ci_low": None, "ci_high": None} for pair in languages])
    rows, reasons = paper.cells("dream_table4", [home.path for home in homes])
    assert [(row["row"], row["evaluated_on"]) for row in rows] == [
        ("DREAM-LaBSE", "en-ar"), ("DREAM-LaBSE", "en-de"), ("DREAM-LaBSE", "en-tr"),
    ]  # fmt: skip
    assert reasons.total() == 92 - 3
    assert reasons["BGT is a system of others: published figures only"] == 4
    paper.show("dream_table4", [home.path for home in homes])
    assert "dream_table4: 3 of 92 cells measured; the others:" in capsys.readouterr().out.splitlines()
