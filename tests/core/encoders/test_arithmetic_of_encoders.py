"""What `precision` and `products` of an encoder do to its weights, products and vectors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from word_bert import TEXTS, config, encode, save_model

from disent_core import matmul
from disent_core.encoders.checkpoint import round_weights
from disent_core.encoders.kinds.huggingface import encoder_fingerprint
from disent_core.encoders.transformer import HuggingFaceEncoder, load
from disent_core.matmul import OnednnLinear
from disent_core.storage.tables import fingerprint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("bert"))


def vectors(encoder):
    return encode(encoder, TEXTS)[0]


def test_weights_are_rounded_to_bfloat16_but_not_buffers_nor_layer_norms_on_a_cpu(folder):
    model = load(config(folder, precision="bfloat16"), "cpu")._model
    found = {type(part) is torch.nn.LayerNorm: {weight.dtype for weight in part.parameters(recurse=False)}
             for part in model.modules() if any(True for _ in part.parameters(recurse=False))}  # fmt: skip
    assert found == {True: {torch.float32}, False: {torch.bfloat16}}
    norm = torch.nn.LayerNorm(4)
    round_weights(norm, "cuda")
    assert norm.weight.dtype == torch.bfloat16
    module = torch.nn.Linear(2, 2)
    module.register_buffer("frequencies", torch.tensor([1 / 3]))
    round_weights(module, "cpu")
    assert module.frequencies.dtype == torch.float32


def test_vectors_are_those_of_float32_up_to_its_rounding(folder):
    exact, rounded = (vectors(load(config(folder, precision=one), "cpu")) for one in ("float32", "bfloat16"))
    difference = np.linalg.norm(exact - rounded, axis=1) / np.linalg.norm(exact, axis=1)
    assert 0 < difference.max() < 0.02


def test_an_encoder_in_float32_has_the_fingerprint_that_it_had_before_weights_were_rounded(folder):
    one = config(folder, precision="float32", products="torch")
    settings, stored = (one.layer, one.pooling, one.max_length, "float32", None), (one.vector_dtype, one.states_dtype)
    assert encoder_fingerprint(one, {}) == fingerprint("huggingface", "2", {}, settings, stored)
    autocast = fingerprint("huggingface", "2", {}, (*settings[:3], "bfloat16", None), stored)
    assert encoder_fingerprint(replace(one, precision="bfloat16"), {}) != autocast


def test_products_in_float32_are_computed_through_onednn_by_default_with_vectors_within_1e_5(folder):
    torch_, onednn = load(config(folder, products="torch"), "cpu"), load(config(folder), "cpu")
    assert vectors(onednn) == pytest.approx(vectors(torch_), abs=1e-5)
    kinds = {type(part) for part in onednn._model.modules()}
    assert OnednnLinear in kinds
    assert torch.nn.Linear not in kinds


def test_products_through_onednn_change_no_vector_and_no_fingerprint_in_bfloat16(folder):
    torch_, onednn = (load(config(folder, products=one, precision="bfloat16"), "cpu") for one in ("torch", "onednn"))
    assert (vectors(onednn) == vectors(torch_)).all()
    assert onednn.fingerprint == torch_.fingerprint


def test_without_onednn_products_are_torchs(folder, monkeypatch):
    monkeypatch.setattr(matmul, "_HAS_ONEDNN", False)
    torch_, onednn = (load(config(folder, products=one), "cpu") for one in ("torch", "onednn"))
    assert OnednnLinear not in {type(part) for part in onednn._model.modules()}
    assert (vectors(onednn) == vectors(torch_)).all()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_is_float32_on_every_device_so_that_no_table_mixes_formats(folder, device, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, *_: module)  # a GPU need not be there
    formats = {
        precision: {
            weight.dtype
            for part in HuggingFaceEncoder(config(folder, precision=precision), folder, device)._model.modules()
            for weight in part.parameters(recurse=False)
        }
        for precision in ("auto", "float32", "bfloat16")
    }
    assert formats["auto"] == formats["float32"] == {torch.float32}
    assert torch.bfloat16 in formats["bfloat16"]


def test_the_same_fingerprint_means_the_same_format_and_library_of_products(folder):
    choices = [
        (precision, products) for precision in ("auto", "float32", "bfloat16") for products in ("onednn", "torch")
    ]
    prints = {
        choice: encoder_fingerprint(config(folder, precision=choice[0], products=choice[1]), {}) for choice in choices
    }
    equal = {frozenset(other for other in choices if prints[other] == prints[choice]) for choice in choices}
    in_bfloat16 = frozenset({("bfloat16", "onednn"), ("bfloat16", "torch")})  # equal to the bit, as tested above
    assert equal == {in_bfloat16, *(frozenset({choice}) for choice in choices if choice not in in_bfloat16)}
