"""Centering, projection, Procrustes, CCA and plain InfoNCE against sums, scikit-learn, scipy and their own laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from sklearn.cross_decomposition import CCA as ReferenceCca
from synthetic import DIM, world

from disent_core.errors import TrainingError
from disent_core.methods import closed_form_head
from disent_core.methods.closed_form import (
    CCA,
    CENTERED,
    PROCRUSTES,
    PROJECTION,
    CcaConfig,
    CenteredConfig,
    ProcrustesConfig,
    ProjectionConfig,
)
from disent_core.methods.closed_form_head import parallel_rows, pivot_of
from disent_core.methods.families import unseeded
from disent_core.methods.infonce import InfoNceConfig
from disent_core.methods.infonce_head import InfoNceHead
from disent_core.methods.spec import HeadFiles, HeadSpec
from disent_core.methods.trainer import train_head, trainer
from disent_core.methods.untrained import RAW, RawConfig
from disent_core.registry import imported
from disent_core.training.data import TextFeatures, VectorBank
from disent_core.training.epoch import Fit

METHODS = {"centered": CENTERED, "projection": PROJECTION}


def language_rows(data, language, split="train"):
    pairs, label = data.splits[split], data.languages.index(language)
    rows = []
    for side, other_side in (("source", "target"), ("target", "source")):
        chosen = pairs.language[side] == label
        rows += list(zip(pairs.text[side][chosen].tolist(), pairs.text[other_side][chosen].tolist(), strict=True))
    vectors = data.vectors.take(torch.arange(int(data.vectors.starts[-1]))).double().numpy()
    side, other_side = np.array(rows).T
    return vectors[side], vectors[other_side]


def features(matrix, language):
    rows = torch.as_tensor(np.asarray(matrix, dtype=np.float32))
    return TextFeatures(VectorBank([rows]), torch.arange(len(rows)), language=language)


def solved(method, data, config):
    return unseeded.Solved(imported(method.apply), imported(method.solve)(data, config), config)


def embedded(head, rows, language):
    return head.embed(features(rows, language), None)["sentence"]


def random_matrix(seed, rows=7, dim=DIM):
    return np.random.default_rng(seed).normal(size=(rows, dim)) + 3


def test_centering_subtracts_the_mean_of_training_texts():
    data = world("en-de", "en-es").data
    training = np.unique(language_rows(data, "en")[0], axis=0)  # English is in both pairs, and counts once
    texts = random_matrix(1)
    centred = embedded(solved(CENTERED, data, CenteredConfig()), texts, "en")
    np.testing.assert_allclose(centred, texts - training.mean(axis=0), atol=1e-5)


def test_transductive_centering_subtracts_the_mean_of_embedded_texts():
    texts = random_matrix(0)
    solution = unseeded.Solved(closed_form_head.subtract_mean, {}, CenteredConfig(source="test"))
    np.testing.assert_allclose(embedded(solution, texts, "xx"), texts - texts.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize(("pairs", "ridge"), [(40, 0.0), (40, 2.5), (4, 0.0)], ids=["plain", "ridge", "least norm"])
def test_the_map_equals_scikit_learns(pairs, ridge):
    from sklearn.linear_model import LinearRegression, Ridge

    data = world(train=pairs).data
    german, english = language_rows(data, "de")
    reference = (Ridge(alpha=ridge) if ridge else LinearRegression()).fit(german, english)
    texts = random_matrix(2)
    mapped = embedded(solved(PROJECTION, data, ProjectionConfig(ridge=ridge)), texts, "de")
    np.testing.assert_allclose(mapped, reference.predict(texts.astype(np.float32)), atol=1e-5)


def test_the_map_does_not_depend_on_the_size_of_blocks(monkeypatch):
    data = world(train=40).data
    whole = closed_form_head.least_squares_maps(data, ProjectionConfig())
    for module in (unseeded, closed_form_head):
        monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    for name, value in closed_form_head.least_squares_maps(data, ProjectionConfig()).items():
        torch.testing.assert_close(value, whole[name])


@pytest.mark.parametrize(("pair", "pivot"), [("en-de", "en"), ("de-en", "en"), ("fr-de", "fr")])
def test_the_pivot_language_is_unchanged_and_is_english_by_preference(pair, pivot):
    solution, texts = solved(PROJECTION, world(pair).data, ProjectionConfig()), random_matrix(3)
    np.testing.assert_array_equal(embedded(solution, texts, pivot), texts.astype(np.float32))
    assert not np.allclose(embedded(solution, texts, "de"), texts)


def test_a_mixture_has_the_map_of_each_pair():
    mixed = closed_form_head.least_squares_maps(world("en-de", "en-es").data, ProjectionConfig())
    for pair, language in (("en-de", "de"), ("en-es", "es")):
        alone = closed_form_head.least_squares_maps(world(pair).data, ProjectionConfig())
        torch.testing.assert_close(mixed[f"weight.{language}"], alone[f"weight.{language}"])


def test_a_language_without_pairs_with_the_pivot_is_an_error():
    with pytest.raises(TrainingError, match="'fr' has no training pair with 'en'"):
        closed_form_head.least_squares_maps(world("en-de", "de-fr").data, ProjectionConfig())


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_transductive_map_gives_both_sides_the_mean_zero_and_else_the_same(language):
    data, texts = world().data, random_matrix(4)
    plain, centred = (
        embedded(solved(PROJECTION, data, config), texts, language)
        for config in (ProjectionConfig(), ProjectionConfig(center="test"))
    )
    np.testing.assert_allclose(centred, plain - plain.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_error_of_an_untrained_language_lists_the_known_ones(method):
    solution = solved(method, world().data, method.presets["paper"])
    with pytest.raises(TrainingError, match=r"'ja', only of de, en\. Train it on a pair"):
        solution.embed(features(random_matrix(0), "ja"), None)


def head(method):
    known = {"encoder": "toy", "trained_on": "en-de", "data_fingerprint": "d", "encoder_fingerprint": "e"}
    return HeadSpec(name=method.name, method=method, settings=method.presets["paper"], seeds=(0,), **known)


@pytest.fixture
def files(tmp_path):
    return HeadFiles(tmp_path / "weights.safetensors", tmp_path / "curve.parquet", tmp_path / "checkpoint")


def test_a_closed_form_head_is_solved_once_and_reloads_identically(files):
    method, data = PROJECTION, world().data
    run = head(method)
    reports = [train_head(run, files, lambda: data, device="cpu") for _ in range(2)]
    assert [(report.steps, report.is_reused) for report in reports] == [(1, False), (0, True)]
    assert reports[0].content == reports[1].content
    inputs = features(random_matrix(5), "de")
    loaded = trainer(method).load(files.weights, run.settings, "cpu").embed(inputs, None)["sentence"]
    np.testing.assert_array_equal(loaded, solved(method, data, run.settings).embed(inputs, None)["sentence"])
    assert loaded.dtype == np.float32


def test_only_a_checkpoint_of_the_same_run_is_replayed(files):
    path = files.checkpoint

    def fit(run):
        (epoch,) = trainer(CENTERED).fit(world().data, CenteredConfig(), Fit((0,), path, run))
        return epoch

    first, again = fit("a"), fit("a")
    assert (first.is_replayed, again.is_replayed, again) == (False, True, first)
    assert not fit("b").is_replayed
    path.write_bytes(b"torn")
    assert not fit("b").is_replayed


@pytest.mark.parametrize(("method", "config"), [(CENTERED, CenteredConfig()), (CCA, CcaConfig(width=3))])
def test_dev_terms_are_those_of_a_loop_over_dev_pairs(tmp_path, method, config):
    data = world(dev=9).data
    solution = solved(method, data, config)
    german, english = map(embedded, [solution] * 2, language_rows(data, "de", "dev"), ("de", "en"))
    cosine = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in english] for a in german])
    (epoch,) = trainer(method).fit(data, config, Fit((0,), tmp_path / "checkpoint", "r"))
    hits = [np.mean(scores.argmax(axis=1) == np.arange(9)) for scores in (cosine, cosine.T)]
    assert epoch.terms["dev"]["total"] == pytest.approx((1 - np.mean(np.diag(cosine)),), abs=1e-5)
    assert epoch.terms["dev"]["accuracy_at_1"] == pytest.approx((np.mean(hits),))


def test_no_dev_pairs_are_an_error_with_a_remedy(files):
    data = world().data
    none = data.splits["dev"].select(torch.arange(0))
    data = replace(data, splits={**data.splits, "dev": none})
    with pytest.raises(TrainingError, match="Give the corpus a dev split"):
        train_head(head(CENTERED), files, lambda: data, device="cpu")


def test_an_untrained_method_has_no_epochs_and_no_weights(tmp_path):
    assert list(trainer(RAW).fit(world().data, RawConfig(), Fit((0,), tmp_path, "r"))) == []
    with pytest.raises(ValueError, match="raw has no weights"):
        trainer(RAW).save(tmp_path, tmp_path, {})


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_presets_that_use_test_texts_are_marked_transductive(method):
    is_transductive = {name: method.is_transductive(preset) for name, preset in method.presets.items()}
    assert is_transductive == {name: name != "paper" for name in method.presets}


def translations(data):
    label = data.languages.index("de")
    rows = parallel_rows(data, label, pivot_of(data))
    return [torch.nn.functional.normalize(data.vectors.take(side).double(), dim=1) for side in rows]


def test_procrustes_rotates_onto_the_pivot_as_scipy_does():
    data = world("en-de").data
    german, english = translations(data)
    head = solved(PROCRUSTES, data, ProcrustesConfig())
    rotation, _ = orthogonal_procrustes(german - german.mean(0), english - english.mean(0))
    np.testing.assert_allclose(head.solution["weight.de"], rotation, atol=1e-8)
    np.testing.assert_allclose(embedded(head, german, "de"), (german - german.mean(0)) @ rotation, atol=1e-5)
    np.testing.assert_allclose(embedded(head, english, "en"), english - english.mean(0), atol=1e-5)


def test_directions_of_cca_are_correlated_as_those_of_scikit_learn():
    data = world("en-de").data
    german, english = translations(data)
    head = solved(CCA, data, CcaConfig(width=3, power=0.0, floor=1e-12))
    ours = [embedded(head, rows, language) for rows, language in ((german, "de"), (english, "en"))]
    reference = ReferenceCca(n_components=3, scale=False, max_iter=5000, tol=1e-10).fit_transform(
        german.numpy(), english.numpy()
    )
    for sides in (ours, reference):
        assert sides[0].shape[1] == 3
    correlations = [
        [np.corrcoef(a, b)[0, 1] for a, b in zip(*(s.T for s in sides), strict=True)] for sides in (ours, reference)
    ]
    np.testing.assert_allclose(correlations[0], correlations[1], atol=1e-3)


def test_a_direction_of_cca_is_weighted_by_its_correlation():
    data = world("en-de").data
    german, english = translations(data)
    plain, weighted = (solved(CCA, data, CcaConfig(width=4, power=power, floor=1e-12)) for power in (0.0, 1.0))
    left, right = (embedded(plain, rows, language) for rows, language in ((german, "de"), (english, "en")))
    correlations = (left * right).mean(axis=0)
    np.testing.assert_allclose(embedded(weighted, german, "de"), left * correlations, atol=1e-4)


def test_cca_refuses_a_mixture_of_pairs():
    with pytest.raises(TrainingError, match="two languages, not en, de, es"):
        solved(CCA, world("en-de", "en-es").data, CcaConfig())


@pytest.mark.parametrize("layers", ["linear", "mlp"])
def test_the_contrast_equals_a_loop_without_equal_texts(layers):
    torch.manual_seed(0)
    head = InfoNceHead(6, 2, InfoNceConfig(layers=layers, units=5, temperature=0.5))
    vectors = torch.randn(2, 4, 6)
    texts = torch.tensor([[0, 1, 2, 1], [5, 6, 7, 8]])  # pairs 1 and 3 share their source
    batch = {"role_vectors": vectors, "role_texts": texts}
    (loss,) = head.terms(head.encode(batch)).values()
    meanings = [head.embed({"vectors": side})["meaning"].detach().numpy() for side in vectors]
    total = 0.0
    for queries, candidates in (meanings, meanings[::-1]):
        for i, query in enumerate(queries):
            logits = {
                j: query @ candidate / np.linalg.norm(query) / np.linalg.norm(candidate) / 0.5
                for j, candidate in enumerate(candidates)
                if j == i or {i, j} != {1, 3}
            }
            total += math.log(sum(math.exp(value) for value in logits.values())) - logits[i]
    assert loss.item() == pytest.approx(total / 8, abs=1e-5)
