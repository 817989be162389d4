"""The tutorials, the README, the notebook and the page on classification run as they stand there."""

import json
import re
from ast import literal_eval

import pytest
from tutorials import PAGES, Reader, missing

import disent
from disent_core.errors import TrainingError
from tools.notebook import NOTEBOOK, executed

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader who has finished the first tutorial, on which the others build."""
    with pytest.MonkeyPatch.context() as patch:
        reader = Reader(tmp_path_factory.mktemp("tutorials"), patch)
        reader.read("corpus.md")
        yield reader


def test_the_corpus_tutorial_trains_a_head(reader):
    assert (reader.folder / "data" / "heads" / "tiny" / "facet" / "en-nl.safetensors").is_file()


@pytest.mark.parametrize("page", sorted({path.name for path in PAGES.glob("*.md")} - {"corpus.md", "shapes.md"}))
def test_the_other_tutorials_run_on_the_results_of_the_first(reader, page):
    reader.read(page)


def test_the_python_of_the_readme_gives_the_shown_figures(root):
    blocks = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, object] = {}
    shown = 0
    for line in "".join(blocks).splitlines():
        if figures := re.search(r"  # (\[\[.*?\]\])", line):
            assert eval(line, names)[0].tolist() == pytest.approx(literal_eval(figures[1])[0], abs=0.005)
            shown += 1
        elif labels := re.search(r"  # (\['.*?\])", line):
            assert eval(line, names).tolist() == literal_eval(labels[1])
            shown += 1
        else:
            exec(line, names)
    assert shown == 3


def test_the_cells_of_the_notebook_print_what_it_shows():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert sum(bool(cell.get("outputs")) for cell in notebook["cells"]) >= 5
    assert executed(notebook) == notebook


def test_the_python_of_the_page_runs_and_a_saved_classifier_finds_its_head_where_both_were_moved(
    root, copied, tmp_path, monkeypatch
):
    page = (root / "docs" / "classify.md").read_text(encoding="utf-8")
    first, code = re.findall(r"(?<! -->\n)^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    head = copied.workspace.head("tiny", "fmda", "en-de")
    code = code.replace("data/heads/scratch/facet/en-de.safetensors", str(head))
    code = code.replace("INTENTS", str(copied.home / "intents"))
    monkeypatch.chdir(root)
    names: dict[str, object] = {}
    exec(first.replace("classifier.predict", "predicted = classifier.predict"), names)
    assert list(names["predicted"]) == ["alarm", "weather", "music"]  # as the comment has it
    exec(code, names)
    classifier, utterances = names["classifier"], names["utterances"]
    texts, _ = utterances("de-DE", "test")
    assert set(classifier.predict(texts)) <= {*classifier.classes_, "other"}

    moved = copied.folder.rename(tmp_path / "moved")
    with pytest.raises(TrainingError, match="its model is not the one that it was fitted on"):
        disent.Classifier.load(
            moved / "home" / "intents", str(moved / "home" / head.relative_to(copied.home)).replace("fmda", "dream")
        )
    loaded = disent.Classifier.load(moved / "home" / "intents")
    assert loaded.predict(texts).tolist() == classifier.predict(texts).tolist()


def test_missing_command_output_is_detected():
    assert missing("facet  80 [55, 93]\nraw", "facet 7 [5,  9.5]\nraws") == ["raw"]
    assert missing("facet  80 [55, 93]", "\nfacet 7    [5, 9.5]") == []
