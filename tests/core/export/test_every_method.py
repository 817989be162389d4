"""The folder of a head of every kind: in sentence-transformers, as a graph and in disent it has the head's vectors."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from random_heads import CASES, LANGUAGES, TEXTS

import disent
from disent_core.export.folder import TOLERANCE
from disent_core.export.saved_folder import read_record

pytest.importorskip("sentence_transformers")
pytest.importorskip("onnxruntime")

ALL = ["meaning", "template", "residual", "language"]
ROUTES = {"lexicon": ALL[:3], "emu, head, map = mlp": ["sentence"],
          **dict.fromkeys((name for name in CASES if name.startswith(("facet", "fmda"))), ALL),
          "facet_first": ["template", "residual"],
          **{key: ["en", "de"] for key in ("projection", "centered", "cca")},
          "infonce": ["meaning"], "infonce, mlp": ["meaning"],
          "emu, head": ["sentence"], "fine_tuned": ["meaning"]}  # fmt: skip


def embedded(model: disent.Model) -> dict[tuple[str, str | None], np.ndarray]:
    return {(name, language): matrix for language in model.languages or (None,)
            for name, matrix in model.encode_all(TEXTS, language=language).items()}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def exported(request, tmp_path_factory) -> SimpleNamespace:
    """A head of seed 4, its vectors, and its folder, with the file and the encoder of the head gone."""
    place: Path = tmp_path_factory.mktemp("head")
    path = CASES[request.param](place)
    model = disent.load(path, device="cpu", seed=None if ROUTES.get(request.param) == list(LANGUAGES) else 4)
    vectors, written = embedded(model), model.save(place / "out", onnx=True)
    shutil.rmtree(place / "heads")
    shutil.rmtree(place / "model")
    return SimpleNamespace(case=request.param, model=model, vectors=vectors, written=written, folder=place / "out")


def test_every_route_of_a_folder_and_of_its_graph_gives_the_vectors_of_the_head(exported):
    from sentence_transformers import SentenceTransformer

    options = {"trust_remote_code": True} if read_record(exported.folder)["needs_code"] else {}
    model = SentenceTransformer(str(exported.folder), device="cpu", local_files_only=True, **options)
    assert model.get_embedding_dimension() == model.encode("a", task=exported.written.routes.default or "en").shape[0]
    routes = ROUTES.get(exported.case, ["meaning", "language"])
    assert list(exported.written.routes.steps) == routes
    for route in routes:
        expected = exported.vectors[("sentence", route) if route in LANGUAGES else (route, None)]
        assert np.abs(model.encode(TEXTS, task=route) - expected).max() <= TOLERANCE * np.abs(expected).max(), route
        assert exported.written.routes.widths[route] == expected.shape[1]
    assert exported.written.graph_difference <= TOLERANCE


def test_a_loaded_folder_is_self_contained_and_bitwise_equal_to_its_head(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # an import of it fails
    loaded, model = disent.load(exported.folder, device="cpu"), exported.model
    assert (loaded.embeddings, loaded.fingerprint, loaded.seed) == (model.embeddings, model.fingerprint, model.seed)
    actual = embedded(loaded)
    assert list(actual) == list(exported.vectors)
    for name, matrix in exported.vectors.items():
        np.testing.assert_array_equal(actual[name], matrix, str(name))
