"""`disent export` on a finished project, and its folder in a process that has no disent."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_heads import CASES, tagger

import disent

pytestmark = pytest.mark.end_to_end
pytest.importorskip("sentence_transformers")

TEXTS = ["wake me up at nine", "an utterance that no corpus has", "", "spiel etwas jazz"]
ELSEWHERE = """
import json
import pathlib
import sys
import numpy as np

sys.modules |= dict.fromkeys(("disent", "disent_core", "disent_assets"))  # None: an import of them fails
from sentence_transformers import SentenceTransformer

model = SentenceTransformer({folder!r}, device="cpu", local_files_only=True)
found = {{name: model.encode({texts!r}, task=name) for name in ("meaning", "language")}}
np.savez({output!r}, **found, query=model.encode_query({texts!r}), document=model.encode_document({texts!r}))
with_code = SentenceTransformer({code!r}, device="cpu", local_files_only=True, trust_remote_code=True)
np.save({output!r} + ".code.npy", with_code.encode({texts!r}, task="meaning"))
names = {{}}
exec({lines!r}, names)
tags = [names["tags"](text.split()) for text in {texts!r} if text]
pathlib.Path({output!r} + ".json").write_text(json.dumps(tags))
"""


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "dream"
    result = finished.disent("export", str(head_file(finished, "dream")), str(folder))
    assert result.exit_code == 0, result.output
    assert "meaning, language" in result.stdout
    assert 'task="meaning"' in result.stdout
    return folder


def head_file(project, method: str) -> Path:
    return project.workspace.head("tiny", method, "en-de")


def test_the_python_of_the_page_on_use_runs(exported, finished, root, tmp_path):
    page = (root / "docs" / "use.md").read_text(encoding="utf-8")
    texts = [text for text in TEXTS if text]
    head, index = head_file(finished, "fmda"), tmp_path / "index"
    disent.Index.build(index, disent.load(head), texts, language="en")
    code = "".join(re.findall(r"(?<! -->\n)^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    places = {"data/heads/scratch/facet/en-de.safetensors": head, "FOLDER": exported, "INDEX": index}
    for place, path in places.items():
        code = code.replace(f'"{place}"', repr(str(path)))
    exec(code, {"texts": texts, "left": texts[:2], "right": texts[2:]})


def test_exported_heads_embed_and_tag_in_a_process_without_disent(exported, finished, tmp_path):
    facet = disent.load(CASES["facet"](tmp_path / "facet"), device="cpu")
    tags = disent.load(tagger(tmp_path / "tagger"), device="cpu")
    for model, name in ((facet, "with_code"), (tags, "tags")):
        model.save(tmp_path / name)
    card = (tmp_path / "tags" / "README.md").read_text(encoding="utf-8").replace("FOLDER", str(tmp_path / "tags"))
    output = tmp_path / "vectors.npz"
    code = ELSEWHERE.format(
        folder=str(exported), texts=TEXTS, output=str(output), code=str(tmp_path / "with_code"),
        lines=card.partition("```python\n")[2].partition("```")[0],
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
    expected = facet.encode(TEXTS)
    assert np.abs(np.load(f"{output}.code.npy") - expected).max() <= 2e-6 * np.abs(expected).max()
    words = [text.split() for text in TEXTS if text]
    assert json.loads(Path(f"{output}.json").read_text(encoding="utf-8")) == tags.label(words, language="de")
    actual, expected = np.load(output), disent.load(head_file(finished, "dream")).encode_all(TEXTS)
    for name, matrix in {**expected, "query": expected["meaning"], "document": expected["meaning"]}.items():
        assert np.abs(actual[name] - matrix).max() <= 2e-6 * np.abs(matrix).max(), name


def test_the_card_has_the_measurements_of_the_exported_weights(exported, finished):
    card = (exported / "README.md").read_text(encoding="utf-8")
    rows = finished.ask(
        "select * from metrics where method = 'dream' and trained_on = 'en-de' and seed = 0 and ci_low is not null"
    )
    assert rows
    for row in rows:
        assert f"| {row['value']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}] | {row['n']} |" in card


def test_exporting_a_head_with_code_says_how_to_load_it(finished, tmp_path):
    result = finished.disent("export", str(head_file(finished, "fmda")), str(tmp_path / "out"))
    assert 'out", trust_remote_code=True)' in result.stdout, result.output
    again = finished.disent("export", str(head_file(finished, "fmda")), str(tmp_path / "out"))
    assert again.exit_code == 1
    assert "this exists already" in again.stderr
    assert again.stderr.count("\n") == 1


def test_without_sentence_transformers_the_command_says_how_to_install_it(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    result = finished.disent("export", str(head_file(finished, "dream")), str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "pip install 'disent-embeddings[export]'" in result.stderr
