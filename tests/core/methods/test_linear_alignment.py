"""Procrustes, CCA and plain InfoNCE against scikit-learn and scipy, loops and their own laws."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from sklearn.cross_decomposition import CCA as ReferenceCca
from synthetic import world

from disent_core.errors import TrainingError
from disent_core.methods.closed_form import CCA, PROCRUSTES, CcaConfig, ProcrustesConfig
from disent_core.methods.closed_form_head import parallel_rows, pivot_of
from disent_core.methods.families.unseeded import Solved
from disent_core.methods.infonce import InfoNceConfig
from disent_core.methods.infonce_head import InfoNceHead
from disent_core.methods.trainer import trainer
from disent_core.registry import imported
from disent_core.training.data import TextFeatures, VectorBank


def solved(method, data, config):
    return Solved(imported(method.apply), imported(method.solve)(data, config), config)


def embedded(head, rows, language):
    bank = VectorBank([rows.float()])
    return head.embed(TextFeatures(bank, torch.arange(len(rows)), language=language), None)["sentence"]


def translations(data):
    """Unit vectors of German texts and of their English translations."""
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


def test_dev_pairs_are_measured_with_fewer_directions_than_the_encoder_has():
    data = world("en-de").data
    head = solved(CCA, data, CcaConfig(width=3))
    terms = trainer(CCA)._dev_terms(head.solution, data, head.config)
    pairs, cosines = data.splits["dev"], []
    for source, target, left, right in zip(*pairs.text.values(), *pairs.language.values(), strict=True):
        sides = [
            embedded(head, data.vectors.take(text[None]), data.languages[language])[0]
            for text, language in ((source, left), (target, right))
        ]
        cosines.append(sides[0] @ sides[1] / np.linalg.norm(sides[0]) / np.linalg.norm(sides[1]))
    assert terms["total"] == pytest.approx(1 - np.mean(cosines), abs=1e-5)


def test_cca_refuses_a_mixture_of_pairs():
    with pytest.raises(TrainingError, match="two languages, not en, de, es"):
        solved(CCA, world("en-de", "en-es").data, CcaConfig())


# --- InfoNCE ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["linear", "mlp"])
def test_the_contrast_equals_a_loop_that_leaves_out_pairs_with_an_equal_text(layers):
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
