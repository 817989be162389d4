"""A head as mteb asks for it; mteb itself is not needed."""

from types import SimpleNamespace

import numpy as np
import pytest
from mteb_models import GivenModel, vector

from disent_core.mteb_bridge.encoder import DisentEncoder, Spoken
from disent_core.mteb_bridge.tasks import task_name

TEXTS = ["one", "two", "eins"]


def encode(encoder, texts=TEXTS, prompt=None, scripts=(), **spoken):
    metadata = SimpleNamespace(hf_subsets_to_langscripts={"s": list(scripts)})
    if spoken:
        metadata.spoken = {"s": Spoken(**spoken)}
    prompt_type = SimpleNamespace(value=prompt) if prompt else None
    batches = [{"text": texts[:2]}, {"text": texts[2:]}]
    return encoder.encode(batches, task_metadata=metadata, hf_split="test", hf_subset="s", prompt_type=prompt_type)


def test_texts_of_batches_and_of_several_languages_keep_their_rows():
    matrix = encode(DisentEncoder(GivenModel(), "language"))
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, np.stack([vector(text, "language") for text in TEXTS]).astype(np.float32))
    model = GivenModel(("de", "en"))
    matrix = encode(DisentEncoder(model), columns=[(TEXTS, ["en", "en", "de"])])
    expected = [vector(text, "meaning", language) for text, language in zip(TEXTS, ["en", "en", "de"], strict=True)]
    assert np.array_equal(matrix, np.stack(expected).astype(np.float32))


def test_the_meaning_is_the_default_and_an_embedding_that_the_head_lacks_is_refused():
    model = GivenModel()
    assert DisentEncoder(model).embedding == "meaning"
    with pytest.raises(ValueError, match="no embedding 'template'; choose one of meaning, language"):
        DisentEncoder(model, "template")
    model.embeddings = ()
    with pytest.raises(ValueError, match="tags slots and has no embedding"):
        DisentEncoder(model)


@pytest.mark.parametrize(
    ("prompt", "languages"),
    [
        ("query", {"prompts": {"query": "en", "document": "de"}}),
        (None, {"columns": [(["x"], ["de"]), (TEXTS, ["en"] * 3)]}),
        (None, {"scripts": ["eng-Latn"]}),
    ],
)
def test_a_head_by_language_gets_the_language_that_the_task_says(prompt, languages):
    model = GivenModel(("de", "en"))
    encode(DisentEncoder(model), prompt=prompt, **languages)
    assert model.calls[-1] == ("en", TEXTS)


def test_a_head_by_language_refuses_texts_of_a_language_that_no_one_says():
    with pytest.raises(ValueError, match="name the language of the texts"):
        encode(DisentEncoder(GivenModel(("de", "en"))), scripts=["eng-Latn", "deu-Latn"])


def test_similarities_are_cosines_whatever_the_lengths():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(4, 8)), rng.normal(size=(3, 8))
    lengths = [np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right)]
    cosines = (left / lengths[0]) @ (right / lengths[1]).T
    encoder = DisentEncoder(GivenModel())
    assert np.allclose(encoder.similarity(left * 7, right), cosines, atol=1e-6)
    assert np.allclose(encoder.similarity_pairwise(left[:3], right), np.diag(cosines[:3]), atol=1e-6)


def test_tasks_are_named_after_ours():
    assert task_name("multi_target_template_retrieval") == "DisentMultiTargetTemplateRetrieval"
