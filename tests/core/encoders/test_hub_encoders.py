"""The encoders of configs/hub_encoders.toml, on small random models in the layouts of the hub."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hub_stand_ins import DIM, save_body
from word_bert import encode, save_model

from disent_core.config.load import load_config
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import encoder_fingerprint
from disent_core.encoders.transformer import load
from disent_core.errors import TrainingError
from disent_core.export.encoder import exact_encoder
from disent_core.lineage.saved_heads import SavedHead

TEXTS = ["wake me up at nine", "play jazz", "up", "play some jazz on friday at nine", "spiel jazz"]
BERT_BODIES = {"labse", "e5_small", "minilm_paraphrase"}
ENCODERS = load_config(Path(__file__).parents[3] / "configs" / "hub_encoders.toml").encoders


def config_of(name, folder="folder"):
    return replace(ENCODERS[name], id=None, path=str(folder))


def saved_pipeline(name, folder):
    """Save the encoder as the hub has it and return the pipeline of sentence-transformers that the folder is."""
    library = pytest.importorskip("sentence_transformers", reason="the extra 'bench' is not installed")
    modules = library.sentence_transformer.modules if hasattr(library, "sentence_transformer") else library.models
    body = folder.with_name(f"{name}_body")
    save_model(body) if name == "labse" else save_body(body, is_bert=name in BERT_BODIES)
    if name == "xlmr_base":  # no folder of sentence-transformers on the hub: transformers' files alone
        shutil.copytree(body, folder)
        parts = [modules.Transformer(str(body)), modules.Pooling(DIM, pooling_mode="mean")]
        return library.SentenceTransformer(modules=parts, device="cpu")
    is_labse = name == "labse"
    parts = [modules.Transformer(str(body)), modules.Pooling(DIM, pooling_mode="cls" if is_labse else "mean")]
    if is_labse:
        parts.append(modules.Dense(DIM, DIM, activation_function=torch.nn.Tanh()))
    if name != "minilm_paraphrase":
        parts.append(modules.Normalize())
    library.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    assert (folder / "modules.json").is_file()
    assert (folder / "1_Pooling" / "config.json").is_file()
    return library.SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_those_of_sentence_transformers_with_the_prefix_before_every_text(name, tmp_path):
    pipeline = saved_pipeline(name, tmp_path / name)
    config = config_of(name, tmp_path / name)
    vectors, states = encode(load(replace(config, states_dtype="float32"), "cpu"), TEXTS)
    expected = pipeline.encode([config.prefix + text for text in TEXTS], show_progress_bar=False)
    if name.startswith("e5"):  # the pipeline scales to norm 1, which changes no cosine
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=2e-5)
    assert len(states[1]) == len(pipeline.tokenizer(config.prefix + TEXTS[1])["input_ids"])
    tuned = TunableEncoder(config.files(tmp_path), "cpu").embed(TEXTS).numpy()
    np.testing.assert_allclose(tuned, encode(load(config, "cpu"), TEXTS)[0], atol=2e-5)


def test_a_prefix_changes_the_fingerprint_and_an_empty_one_does_not():
    config = config_of("e5_small")
    without = replace(config, prefix="")
    assert encoder_fingerprint(config, {}) != encoder_fingerprint(without, {})
    assert encoder_fingerprint(without, {}) == encoder_fingerprint(replace(config_of("xlmr_base"), path="x"), {})


def test_a_head_on_an_encoder_with_a_prefix_is_not_exported():
    head = Mock(spec=SavedHead, path="head", description={"name": "mine"})
    head.source = Mock(saved_config=config_of("e5_small"))
    with pytest.raises(TrainingError, match="'query: ' before every text"):
        exact_encoder(head)
