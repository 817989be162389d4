"""Encoders of other kinds take the whole way: of a user's module, hashed words alone, vectors made elsewhere."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from projects import SCRATCH
from toy_kind import ToyConfig

import disent
from disent_core.encoders import ENCODER_KINDS, encoder_kind, name_of_kind
from disent_core.errors import ConfigError

pytestmark = pytest.mark.end_to_end
UNCHANGED = {"made": 0, "up_to_date": 0, "encoded": 0, "steps": 0}


KINDS = """name = "letters"
kind = "toy"
letters = 6

[[encoders]]
name = "none"
kind = "words"
dim = 64
"""
METHODS = """[methods.lexicon]
encoders = ["none"]
epochs = 1

[methods.dream]
encoders = ["letters"]
"""


def test_a_kind_of_a_module_and_hashed_words_are_made_and_measured_and_a_saved_head_embeds(fresh, monkeypatch):
    monkeypatch.setitem(ENCODER_KINDS, "toy", "toy_kind:ToyConfig")
    fresh.configure(SCRATCH, KINDS)
    fresh.only("raw", "dream", "lexicon")
    fresh.configure("[methods.dream]\n", METHODS)
    fresh.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval"]')
    assert "missing embeddings/letters/letters_encoder" in fresh.disent("status").stdout
    assert fresh.materialize()["encoded"] > 0
    assert (fresh.workspace.encoder("letters") / "letters.txt").is_file()
    assert fresh.materialize() | {"up_to_date": 0} == UNCHANGED
    assert fresh.ask("select kind, settings from encoders where kind = 'toy'") == [
        {"kind": "toy", "settings": '{"letters": 6, "name": "letters"}'}
    ]
    measured = "select distinct method, kind, encoder_saw from metrics join encoders using (encoder)"
    rows = fresh.ask(f"{measured} where kind = 'words' order by all")
    assert rows == [{"method": name, "kind": "words", "encoder_saw": "nothing"} for name in ("lexicon", "raw")]
    rows = fresh.ask(f"{measured} where kind = 'toy' order by all")
    assert [row["method"] for row in rows] == ["dream", "raw"]
    head = disent.load(fresh.home / "heads" / "none" / "lexicon" / "en-de.safetensors", device="cpu")
    assert head.encode(["wake me up"], "template").shape == (1, 256)


def test_an_encoder_kind_can_be_named_by_its_class():
    assert encoder_kind("toy_kind:ToyConfig") is ToyConfig
    assert name_of_kind(ToyConfig(name="letters")) == "toy_kind:ToyConfig"


def test_the_error_of_an_unknown_encoder_kind_lists_the_known_ones(fresh):
    for kind, problem in (("tor", "choose one of huggingface, scratch"), ("toy_kind:count_letters", "name a subclass")):
        fresh.configure('kind = "scratch"', f'kind = "{kind}"')
        with pytest.raises(ConfigError, match=rf"disent.toml:\d+: encoders.0..kind: .*{problem}"):
            fresh.workspace  # noqa: B018 - reads the configuration
        fresh.configure(f'kind = "{kind}"', 'kind = "scratch"')


# --- vectors made elsewhere ---

VECTORS = 'name = "other"\nkind = "vectors"\npath = "vectors"\n'


@pytest.fixture
def project(fresh):
    """A project on imported vectors, none of which is there yet."""
    fresh.configure(SCRATCH, VECTORS)
    fresh.only("raw", "centered", "dream", "emu")
    fresh.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval"]')
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
    for name, encoder, message in (("x.csv", "other", "must end in .parquet or .jsonl"),
                                   ("x.parquet", "none", "unknown encoder 'none'; choose one of other")):  # fmt: skip
        refused = project.disent("export-texts", str(project.folder / name), "--encoder", encoder)
        assert (refused.exit_code, message in refused.output) == (2, True)
    assert project.disent("export-texts", str(listed), "--encoder", "other").exit_code == 0
    texts = pq.read_table(listed)
    assert texts.column_names == ["text_key", "language", "text"]
    (project.folder / "vectors").mkdir()
    pq.write_table(embed(texts), project.folder / "vectors" / "all.parquet")
    first = project.materialize()
    assert first["encoded"] == len(texts)
    assert project.materialize() | {"up_to_date": 0} == UNCHANGED
    rows = project.ask("select distinct method, trained_on from metrics order by all")
    assert [(row["method"], row["trained_on"]) for row in rows] == [
        ("centered", "en-de"), ("dream", "en-de"), ("emu", "en-de"), ("raw", ""),
    ]  # fmt: skip

    first_training = next(row["id"] for row in project.utterances("en-US") if row["partition"] == "train")
    edited = {"utt": "open the garage", "annot_utt": "open the garage"}
    changed = [row | edited if row["id"] == first_training else row for row in project.utterances("en-US")]
    project.write("en-US", changed)
    failed = project.disent("materialize")
    assert failed.exit_code == 1
    assert "1 of 1 texts of 'en' have no vector, e.g. 'open the garage'" in failed.output
    assert project.disent("export-texts", str(added), "--encoder", "other", "--missing").exit_code == 0
    (row,) = [json.loads(line) for line in added.read_text(encoding="utf-8").splitlines()]
    assert (row["language"], row["text"]) == ("en", "open the garage")
    added.write_text(json.dumps(row | {"vector": [0.5] * 8}) + "\n", encoding="utf-8")
    added.rename(project.folder / "vectors" / "new.jsonl")
    # Other files are another encoder: all are read again.
    assert project.materialize("group:embeddings_other")["encoded"] == len(texts)
