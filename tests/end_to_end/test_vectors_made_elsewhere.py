"""Vectors made elsewhere take the whole way, from the list of texts to the leaderboard."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from projects import SCRATCH

pytestmark = pytest.mark.end_to_end

VECTORS = 'name = "other"\nkind = "vectors"\npath = "vectors"\n'


@pytest.fixture
def project(fresh):
    """A project on imported vectors, none of which is there yet."""
    fresh.configure(SCRATCH, VECTORS)
    fresh.configure('["raw", "dream", "fmda", "fmda_softmax"]', '["raw", "centered", "projection", "dream", "emu"]')
    fresh.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    fresh.configure("[methods.dream]", '[methods.emu]\npreset = "head"\nepochs = 2\n\n[methods.dream]')
    return fresh


def embed(texts: pa.Table) -> pa.Table:
    """Random vectors, as another program would give them."""
    rows = [np.random.default_rng([int(key[:8], 16)]).normal(size=8) for key in texts["text_key"].to_pylist()]
    return texts.drop(["text_key"]).append_column("vector", pa.array(rows, pa.list_(pa.float64())))


def test_imported_vectors_reach_the_leaderboard_and_grow_with_the_texts_that_are_written_for_them(project):
    listed, added = project.folder / "texts.parquet", project.folder / "new.jsonl"
    early = project.disent("export-texts", str(listed), "--encoder", "other")
    assert (early.exit_code, "Run `disent materialize '+group:targets'` first" in early.output) == (1, True)
    project.materialize("+group:targets")
    for name, encoder, told in (("x.csv", "other", "must end in .parquet or .jsonl"),
                                ("x.parquet", "none", "unknown encoder 'none'; choose one of other")):  # fmt: skip
        refused = project.disent("export-texts", str(project.folder / name), "--encoder", encoder)
        assert (refused.exit_code, told in refused.output) == (2, True)
    assert project.disent("export-texts", str(listed), "--encoder", "other").exit_code == 0
    texts = pq.read_table(listed)
    assert texts.column_names == ["text_key", "language", "text"]
    (project.folder / "vectors").mkdir()
    pq.write_table(embed(texts), project.folder / "vectors" / "all.parquet")
    first = project.materialize()
    assert first["encoded"] == len(texts)
    assert project.materialize() | {"up_to_date": 0} == {"made": 0, "up_to_date": 0, "encoded": 0, "steps": 0}
    found = project.ask("select distinct method, trained_on from metrics order by all")
    assert [(row["method"], row["trained_on"]) for row in found] == [
        ("centered", "en-de"), ("dream", "en-de"), ("emu", "en-de"), ("projection", "en-de"), ("raw", ""),
    ]  # fmt: skip

    first_training = next(row["id"] for row in project.utterances("en-US") if row["partition"] == "train")
    own = {"utt": "open the garage", "annot_utt": "open the garage"}
    changed = [row | own if row["id"] == first_training else row for row in project.utterances("en-US")]
    project.write("en-US", changed)
    failed = project.disent("materialize")
    assert failed.exit_code == 1
    assert "1 of 1 texts of 'en' have no vector, e.g. 'open the garage'" in failed.output
    assert project.disent("export-texts", str(added), "--encoder", "other", "--missing").exit_code == 0
    (row,) = [json.loads(line) for line in added.read_text(encoding="utf-8").splitlines()]
    assert (row["language"], row["text"]) == ("en", "open the garage")
    added.write_text(json.dumps(row | {"vector": [0.5] * 8}) + "\n", encoding="utf-8")
    added.rename(project.folder / "vectors" / "new.jsonl")
    assert project.materialize()["encoded"] == len(texts)  # other files are another encoder: all are read again
