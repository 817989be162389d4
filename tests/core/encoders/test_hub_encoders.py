"""The encoders of configs/hub_encoders.toml, on small random models in the layouts of the hub."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from word_bert import encode, save_model

from disent_core.config.load import load_config
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import encoder_fingerprint
from disent_core.encoders.transformer import load
from disent_core.errors import TrainingError
from disent_core.export.encoder import exact_encoder
from disent_core.lineage.saved_heads import SavedHead

ROOT = Path(__file__).parents[3]
TEXTS = ["wake me up at nine", "play jazz", "up", "play some jazz on friday at nine", "spiel jazz"]
BERT_BODIES, DIM = {"labse", "e5_small", "minilm_paraphrase"}, 32
PREFIXES = {"e5_small": "query: ", "e5_base": "query: "}
CONFIG = load_config(ROOT / "configs" / "hub_encoders.toml")


def save_tokeniser(folder):
    """A tokeniser as XLM-R has it: Unigram pieces that begin with the space before them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = ["▁", *"abcdefghijklmnopqrstuvwxyz:", "▁wake", "▁me", "▁up", "▁at", "▁play", "▁jazz", "▁query", "▁some"]
    scores = [(piece, 0.0) for piece in special] + [(piece, -3.0 / len(piece)) for piece in pieces]
    tokeniser = Tokenizer(models.Unigram(scores, unk_id=3))
    tokeniser.pre_tokenizer = pre_tokenizers.Metaspace()
    tokeniser.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    roles = dict(zip(names, special, strict=True)) | {"cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=64, **roles).save_pretrained(folder)
    return len(scores)


def save_body(name, folder):
    """A random model of the architecture of an encoder, with its tokeniser."""
    from transformers import BertConfig, BertModel, XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    if name == "labse":
        return save_model(folder)
    size = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
            "vocab_size": save_tokeniser(folder), "initializer_range": 0.3, "pad_token_id": 1}  # fmt: skip
    if name in BERT_BODIES:
        BertModel(BertConfig(**size, max_position_embeddings=64)).save_pretrained(folder)
    else:  # positions begin after that of padding; the checkpoint has no pooler, as that of xlm-roberta-base
        XLMRobertaModel(XLMRobertaConfig(**size, max_position_embeddings=66), add_pooling_layer=False).save_pretrained(
            folder
        )
    return folder


def saved_pipeline(name, folder):
    """Save the encoder as the hub has it and return the pipeline of sentence-transformers that the folder is."""
    library = pytest.importorskip("sentence_transformers", reason="the extra 'bench' is not installed")
    modules = library.sentence_transformer.modules if hasattr(library, "sentence_transformer") else library.models
    body = save_body(name, folder.with_name(f"{name}_body"))
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


@pytest.mark.parametrize("name", CONFIG.encoders)
def test_vectors_are_those_of_sentence_transformers_with_the_prefix_before_every_text(name, tmp_path):
    pipeline = saved_pipeline(name, tmp_path / name)
    text = (ROOT / "configs" / "hub_encoders.toml").read_text(encoding="utf-8")
    pointed = text.replace(f'id = "{CONFIG.encoders[name].id}"', f'path = "{tmp_path / name}"')
    (tmp_path / "hub.toml").write_text(pointed, encoding="utf-8")
    config = load_config(tmp_path / "hub.toml").encoders[name]
    assert config.prefix == PREFIXES.get(name, "")
    vectors, states = encode(load(replace(config, states_dtype="float32"), "cpu"), TEXTS)
    expected = pipeline.encode([config.prefix + text for text in TEXTS], show_progress_bar=False)
    if name.startswith("e5"):  # the pipeline scales to norm 1, which changes no cosine
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=2e-5)
    assert len(states[1]) == len(pipeline.tokenizer(config.prefix + TEXTS[1])["input_ids"])
    tuned = TunableEncoder(config.files(tmp_path), "cpu").embed(TEXTS).numpy()
    np.testing.assert_allclose(tuned, encode(load(config, "cpu"), TEXTS)[0], atol=2e-5)


def test_a_prefix_is_part_of_the_fingerprint_and_none_leaves_it_as_it_was():
    config = CONFIG.encoders["e5_small"]
    without = replace(config, prefix="")
    assert encoder_fingerprint(config, {}) != encoder_fingerprint(without, {})
    assert encoder_fingerprint(without, {}) == encoder_fingerprint(replace(CONFIG.encoders["xlmr_base"], id="x"), {})


def test_a_head_on_an_encoder_with_a_prefix_is_not_exported():
    head = Mock(spec=SavedHead, path="head", description={"name": "mine"})
    head.source = Mock(saved_config=CONFIG.encoders["e5_small"])
    with pytest.raises(TrainingError, match="'query: ' before every text"):
        exact_encoder(head)


def test_the_encoders_are_measured_as_in_the_other_configuration():
    other = load_config(ROOT / "configs" / "massive_measures.toml")
    assert set(other.experiment.methods) < set(CONFIG.experiment.methods)
    assert CONFIG.evaluation == other.evaluation
