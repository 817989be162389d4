"""The Python of the page on classification runs as it stands there, on a head that the tests have trained."""

import re

import pytest

import disent
from disent_core.errors import TrainingError

pytestmark = pytest.mark.end_to_end


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
