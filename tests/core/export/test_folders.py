"""Exported folders, their graphs and truncated embeddings against the heads that they were made from."""

import ast
import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from random_heads import CASES, TEXTS, centered, frozen, span_tagger, tagger, tuned

import disent
from disent_core.errors import DamagedError, TrainingError
from disent_core.export.card import Measured
from disent_core.export.checking import check_folder
from disent_core.export.folder import PROBES, TOLERANCE, difference_of, export_head
from disent_core.export.onnx_graph import GRAPH
from disent_core.export.saved_folder import RECORD, open_folder, read_record, write_record
from disent_core.export.side_by_side import SideBySide, side_by_side
from disent_core.export.transformers_folder import forget_origin, load_folder
from disent_core.lineage.saved_heads import open_head

pytest.importorskip("sentence_transformers")
onnxruntime = pytest.importorskip("onnxruntime")


def loaded_by_library(folder: Path, **options):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True, **options)


def vectors_of(folder: Path, texts=TEXTS):
    model = loaded_by_library(folder, trust_remote_code=bool(read_record(folder)["needs_code"]))
    return {name: model.encode(texts, task=name) for name in read_record(folder)["routes"]}, model


ALL = ["meaning", "template", "residual", "language"]


@pytest.fixture(scope="module")
def facet(tmp_path_factory) -> Path:
    """A folder of facet; tests only read it."""
    folder = tmp_path_factory.mktemp("facet")
    export_head(open_head(CASES["facet_first"](folder), device="cpu"), folder / "out", seed=4)
    return folder / "out"


def test_queries_and_documents_take_the_default_route_and_unknown_tasks_are_refused(facet):
    vectors, model = vectors_of(facet)
    for encode in (model.encode, model.encode_query, model.encode_document):
        np.testing.assert_array_equal(encode(TEXTS), vectors["template"])
    with pytest.raises(ValueError, match="task='template', task='residual'"):
        model.encode(TEXTS, task="shape")


def test_an_exported_folder_is_pruned_pickle_free_and_contains_no_local_path(facet):
    assert json.loads((facet / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"] == 1
    files = [file for file in facet.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".json", ".safetensors", ".md"}
    assert [file for file in files if str(facet.parent).encode() in file.read_bytes()] == []
    assert check_folder(facet).routes == ("template", "residual")


def test_a_card_is_read_by_the_hub_s_own_reader(facet):
    from huggingface_hub import ModelCard

    card = ModelCard.load(facet / "README.md")
    assert (card.data.library_name, card.data.language) == ("sentence-transformers", ["en", "de"])
    assert "disent" in card.data.tags
    assert 'task="template"' in card.text


def test_the_card_shows_figures_with_intervals_and_gold_score_and_no_truncation_of_probes_is_logged(tmp_path, caplog):
    from huggingface_hub import ModelCard

    row = Measured("template_retrieval", "toy", "en", "meaning", "accuracy_at_1", 0.5, 0.4, 0.6, 80)
    of_score = replace(row, task="qe", metric="spearman", value=0.7, gold="z_mean", ci_low=None, ci_high=None)
    measured = [row, of_score, replace(row, embedding="template", value=0.9)]  # of an embedding that it does not have
    export_head(open_head(CASES["dream"](tmp_path), device="cpu"), tmp_path / "out", seed=3, measured=measured)
    assert "were cut" not in caplog.text
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert "| template_retrieval | toy | en | meaning | accuracy_at_1 | 0.500 [0.400, 0.600] | 80 |\n" in card.text
    assert "| qe | toy | en | meaning | spearman with z_mean | 0.700 | 80 |\n" in card.text
    assert [result.metric_value for result in card.data.eval_results] == [0.5, 0.7]


def test_a_reexported_card_keeps_the_licences_of_model_and_corpora(tmp_path):
    from huggingface_hub import ModelCard

    data = [{"corpus": "massive", "licence": "CC-BY-4.0"}, {"corpus": "mine", "licence": None}]
    head = open_head(CASES["dream"](tmp_path), device="cpu")
    head = replace(head, description={**head.description, "data": data})
    export_head(head, tmp_path / "out", seed=3, licence="CC-BY-SA-4.0")
    export_head(open_folder(tmp_path / "out", device="cpu"), tmp_path / "again", seed=3)
    for name in ("out", "again"):
        card = ModelCard.load(tmp_path / name / "README.md")
        assert card.data.license == "cc-by-sa-4.0"
        assert "massive (licence CC-BY-4.0), mine (licence not stated)" in card.text


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_card_states_the_rounding_difference_between_head_and_folder(tmp_path, precision):
    path = frozen(tmp_path, "dream", precision=precision)
    exported = export_head(open_head(path, device="cpu"), tmp_path / "out", seed=4)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    if precision == "float32":
        assert exported.rounding is None
        assert "gave the head's own vectors" in card
        return
    assert "own vectors" not in card
    assert f"differs from the head's in {precision} by up to {exported.rounding.difference:.0e} of" in card
    vectors, _ = vectors_of(tmp_path / "out", PROBES)
    of_head = disent.load(path, device="cpu", seed=4).encode_all(PROBES)
    assert difference_of(vectors, of_head) == pytest.approx(exported.rounding.difference, rel=0.05)
    assert exported.rounding.difference > 10 * TOLERANCE
    of_folder = disent.load(tmp_path / "out", device="cpu").encode_all(PROBES)
    assert difference_of(of_head, of_folder) < TOLERANCE


def test_cards_of_tuned_encoders_and_taggers_state_the_precision(tmp_path):
    for number, path in enumerate([tuned(tmp_path / "a", preset="bfloat16"), tagger(tmp_path / "b")]):
        head = open_head(path, device="cpu")
        head = replace(head, settings=replace(head.settings, precision="bfloat16"))
        exported = export_head(head, tmp_path / str(number), seed=4)
        assert exported.rounding.precision == "bfloat16"
        assert 1e-4 < exported.rounding.difference < 0.1


def test_the_check_reports_vectors_that_differ_from_the_export(facet, tmp_path):
    copy = Path(shutil.copytree(facet, tmp_path / "copy"))
    record = read_record(copy)
    record["probes"]["vectors"]["residual"][2][0] += 0.01
    (copy / "README.md").unlink()
    (copy / RECORD).unlink()
    write_record(copy, record)
    with pytest.raises(DamagedError, match="its vectors differ by"):
        check_folder(copy)


def test_an_export_drops_references_to_hub_code(tmp_path):
    settings = tmp_path / "config.json"
    settings.write_text('{"auto_map": {"AutoModel": "a/b--c.D"}, "layers": 1}', encoding="utf-8")
    forget_origin(tmp_path)
    assert json.loads(settings.read_text(encoding="utf-8")) == {"layers": 1}


def test_an_export_never_writes_into_a_folder_that_exists(facet, tmp_path):
    with pytest.raises(TrainingError, match="this exists already"):
        export_head(open_head(CASES["dream"](tmp_path), device="cpu"), facet, seed=4)


REFUSED = {
    "transductive": (partial(centered, preset="official_code"), "not a function of one text"),
    "a tagger of spans": (span_tagger, "it tags spans"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_inexact_export_is_refused_in_one_line_and_leaves_nothing(case, tmp_path):
    make, reason = REFUSED[case]
    head = open_head(make(tmp_path), device="cpu")
    with pytest.raises(TrainingError, match=reason) as refused:
        export_head(head, tmp_path / "out", seed=4 if head.method.is_seeded else None)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_embeddings_that_need_shipped_code_are_exported_on_request(tmp_path):
    head = open_head(CASES["facet_first"](tmp_path), device="cpu")
    exported = export_head(head, tmp_path / "out", seed=4, embeddings=ALL)
    expected = head.trained.embed(head.features(TEXTS, ""), 4)
    vectors, model = vectors_of(tmp_path / "out")
    assert list(vectors) == ALL
    assert exported.routes.needs_code
    for route, matrix in vectors.items():
        assert np.abs(matrix - expected[route]).max() <= TOLERANCE * np.abs(expected[route]).max(), route
    np.testing.assert_array_equal(model.encode_query(TEXTS), vectors["meaning"])


def test_code_in_a_folder_runs_only_with_trust_remote_code(tmp_path):
    out = tmp_path / "out"
    export_head(open_head(CASES["fmda"](tmp_path), device="cpu"), out, seed=4)
    assert check_folder(out).routes == tuple(ALL)
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        loaded_by_library(out)
    (out / "modeling_disent.py").write_text("raise SystemExit('this was run')", encoding="utf-8")
    with pytest.raises(DamagedError, match=r"modeling_disent\.py: it has changed"):
        check_folder(out)


def test_shipped_code_is_complete_and_imports_nothing_from_disent(tmp_path):
    export_head(open_head(CASES["lexicon"](tmp_path), device="cpu"), tmp_path / "out", seed=4)
    sources = {file.stem: file.read_text(encoding="utf-8") for file in (tmp_path / "out").glob("*.py")}
    nodes = [node for source in sources.values() for node in ast.walk(ast.parse(source))]
    imported = {node.module: node.level for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name, level in imported.items() if level} == set(sources) - {"modeling_disent"}
    assert not [name for name in imported if name.startswith("disent")]
    assert {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} <= {
        "torch", "torch.nn.functional", "numpy", "unicodedata", "zlib"
    }  # fmt: skip


def test_only_existing_embeddings_can_be_exported(tmp_path):
    head = open_head(CASES["facet_first"](tmp_path), device="cpu")
    with pytest.raises(ValueError, match="no route 'form'; choose one of meaning, template, residual, language"):
        export_head(head, tmp_path / "out", seed=4, embeddings=["form"])
    export_head(head, tmp_path / "out", seed=4, embeddings=["shape"])
    assert read_record(tmp_path / "out")["routes"] == ["template"]


def test_a_folder_with_differing_vectors_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.export.folder.TOLERANCE", -1.0)
    with pytest.raises(TrainingError, match="its vectors would differ from the head's by"):
        export_head(open_head(CASES["facet_first"](tmp_path), device="cpu"), tmp_path / "out", seed=4)
    assert not (tmp_path / "out").exists()


def test_a_head_without_slots_exports_only_the_meaning_and_its_card_explains_it(tmp_path):
    from disent_core.export.static import of_head

    head = open_head(CASES["lexicon"](tmp_path), device="cpu")
    meaning = of_head(head).encode(TEXTS)
    head = replace(head, description={**head.description, "mates": 0})
    for name in ("template", "shape"):
        with pytest.raises(ValueError, match=r"this head has no shape: .* have no slots .* Train it on a table"):
            export_head(head, tmp_path / "out", seed=4, embeddings=[name])
    written = export_head(head, tmp_path / "out", seed=4)
    assert list(written.routes.steps) == ["meaning"]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "This head has no shape and no values: the texts that it was trained on have no slots" in card
    static = of_head(head)
    assert static.names == ("meaning",)
    assert np.array_equal(static.encode(TEXTS), meaning)


def exported_graph(case: str, folder: Path, seed: int = 4) -> Path:
    head = open_head(CASES[case](folder), device="cpu")
    return export_head(head, folder / "out", seed=seed, onnx=True).folder


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory) -> Path:
    """A folder of facet, which reads tokens and words; tests only read it."""
    return exported_graph("facet", tmp_path_factory.mktemp("facet"))


def test_a_graph_has_an_output_for_every_embedding_an_input_for_what_it_reads_and_the_steps_before_it(
    graph_folder, tmp_path
):
    session = onnxruntime.InferenceSession(graph_folder / GRAPH, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["meaning", "template", "residual", "language"]
    shapes = {"input_ids": ["texts", "tokens"], "attention_mask": ["texts", "tokens"], "word_rows": ["texts", "rows"]}
    assert {source.name: source.shape for source in session.get_inputs()} == shapes
    outside = session.get_modelmeta().custom_metadata_map["preprocessing"]
    assert "at most 32 tokens" in outside
    assert "word_rows.py" in outside
    session = onnxruntime.InferenceSession(
        exported_graph("lexicon", tmp_path) / GRAPH, providers=["CPUExecutionProvider"]
    )
    assert [source.name for source in session.get_inputs()] == ["word_rows"]


def test_the_lines_of_the_card_run_a_graph(graph_folder, monkeypatch, tmp_path):
    code = re.search(r"```python\n(import onnxruntime.*?)```", (graph_folder / "README.md").read_text(), re.DOTALL)[1]
    copy = Path(shutil.copytree(graph_folder, tmp_path / "facet-en-de"))  # no name of a package
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    code = code.replace("FOLDER", str(copy))
    *lines, last = code.strip().splitlines()
    names = {"texts": TEXTS}
    exec("\n".join([*lines, f"vectors = {last}"]), names)
    expected = load_folder(graph_folder).encode(TEXTS, task="meaning")
    np.testing.assert_allclose(names["vectors"][0], expected, atol=1e-6)


def test_a_graph_is_part_of_a_check(graph_folder, tmp_path, monkeypatch):
    assert check_folder(graph_folder).graph is True
    copy = Path(shutil.copytree(graph_folder, tmp_path / "copy"))
    shutil.copyfile(exported_graph("facet", tmp_path, seed=3) / GRAPH, copy / GRAPH)
    with pytest.raises(DamagedError, match=rf"{GRAPH}: it has changed since the export"):
        check_folder(copy)
    record = read_record(copy)
    (copy / RECORD).unlink()
    (copy / "README.md").unlink()
    write_record(copy, record)
    with pytest.raises(DamagedError, match=rf"{GRAPH}: its vectors differ by"):
        check_folder(copy)


def test_a_check_without_onnxruntime_says_that_it_has_not_run_the_graph(graph_folder, monkeypatch):
    monkeypatch.setattr("disent_core.export.checking.find_spec", lambda name: None)
    assert check_folder(graph_folder).graph is False


def test_a_graph_that_is_too_large_for_a_file_is_refused_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.export.onnx_graph.MOST_BYTES", 100)
    with pytest.raises(TrainingError, match="can't be one ONNX graph: its graph would have") as refused:
        exported_graph("dream", tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_graph_with_other_vectors_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.export.folder.graph_vectors", lambda folder, texts, _: [
        (slice(0, 1), {name: np.full((1, 1), 9.0) for name in ("meaning", "language")})])  # fmt: skip
    with pytest.raises(TrainingError, match="ONNX graph: its vectors would differ from the head's by"):
        exported_graph("dream", tmp_path)


WIDTHS = (7, 4)  # of template and residual


@pytest.fixture(scope="module")
def two_parts(tmp_path_factory) -> Path:
    """A folder of lexicon, whose meaning is template and residual; tests only read it."""
    place = tmp_path_factory.mktemp("lexicon")
    return export_head(open_head(CASES["lexicon"](place), device="cpu"), place / "out", seed=4).folder


def shortened(whole: np.ndarray, kept: tuple[int, int]) -> np.ndarray:
    """The first columns of both parts, each as long as the part was."""
    shortened = []
    for part, count in zip(np.split(whole, [WIDTHS[0]], axis=1), kept, strict=True):
        lengths = np.linalg.norm(part, axis=1, keepdims=True)
        first = part[:, :count]
        shortened.append(first * lengths / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12))
    return np.concatenate(shortened, axis=1)


def test_truncate_dim_keeps_a_share_of_template_and_residual_however_it_is_set(two_parts):
    model = loaded_by_library(two_parts, trust_remote_code=True)
    wanted = shortened(model.encode(TEXTS), (4, 2))
    shorter = loaded_by_library(two_parts, trust_remote_code=True, truncate_dim=6)
    truncated = [model.encode(TEXTS, truncate_dim=6), shorter.encode(TEXTS)]
    with model.truncate_embeddings(6):
        truncated.append(model.encode(TEXTS))
        assert model.get_embedding_dimension() == 6
    for vectors in truncated:
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)


def test_one_part_keeps_its_first_columns_all_dimensions_stay_and_too_few_for_all_parts_are_refused(two_parts):
    model = loaded_by_library(two_parts, trust_remote_code=True)
    template, meaning = (model.encode(TEXTS, task=name) for name in ("template", "meaning"))
    np.testing.assert_array_equal(model.encode(TEXTS, task="template", truncate_dim=5), template[:, :5])
    for dimensions in (11, 99):
        np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=dimensions), meaning)
    with pytest.raises(ValueError, match=r"1 dimensions can't have some of each part, 7 \+ 4"):
        model.encode(TEXTS, truncate_dim=1)


def test_only_truncation_treats_parts_separately():
    matrix = torch.arange(33.0).view(3, 11)
    parts = side_by_side(matrix, WIDTHS)
    assert isinstance(parts, SideBySide)
    for ordinary in (parts[1], parts[:, 2:5], parts * 2, parts.T, torch.stack([parts])):
        assert type(ordinary) is torch.Tensor
    assert torch.equal(parts[:, 2:5], matrix[:, 2:5])
    assert torch.equal(parts[..., -3:], matrix[..., -3:])
