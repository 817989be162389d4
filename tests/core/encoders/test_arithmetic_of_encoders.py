"""What `precision`, `products` and the attention of an encoder do to its weights, products and vectors."""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from word_bert import TEXTS, config, encode, save_model

from disent_core import matmul
from disent_core.encoders import describe_config, layers
from disent_core.encoders.checkpoint import load_model, round_weights
from disent_core.encoders.kinds.huggingface import encoder_fingerprint
from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.encoders.transformer import HuggingFaceEncoder, load
from disent_core.errors import EncoderError
from disent_core.lineage.head_records import encoder_of
from disent_core.matmul import OnednnLinear
from disent_core.storage.tables import fingerprint
from tests.core import tiny_teacher


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("bert"))


def vectors(encoder):
    return encode(encoder, TEXTS)[0]


def test_weights_are_rounded_to_bfloat16_but_not_buffers_nor_layer_norms_on_a_cpu(folder):
    model = load(config(folder, precision="bfloat16"), "cpu")._model
    dtypes = {type(part) is torch.nn.LayerNorm: {weight.dtype for weight in part.parameters(recurse=False)}
             for part in model.modules() if any(True for _ in part.parameters(recurse=False))}  # fmt: skip
    assert dtypes == {True: {torch.float32}, False: {torch.bfloat16}}
    norm = torch.nn.LayerNorm(4)
    round_weights(norm, "cuda")
    assert norm.weight.dtype == torch.bfloat16
    module = torch.nn.Linear(2, 2)
    module.register_buffer("frequencies", torch.tensor([1 / 3]))
    round_weights(module, "cpu")
    assert module.frequencies.dtype == torch.float32


@pytest.mark.parametrize(("precision", "most"), [("bfloat16", 0.02), ("int8", 0.03)])
def test_vectors_are_those_of_float32_up_to_the_rounding_of_the_precision(folder, precision, most):
    exact, rounded = (vectors(load(config(folder, precision=kind), "cpu")) for kind in ("float32", precision))
    difference = np.linalg.norm(exact - rounded, axis=1) / np.linalg.norm(exact, axis=1)
    assert 0 < difference.max() < most


def test_an_encoder_in_float32_has_the_fingerprint_that_it_had_before_weights_were_rounded(folder):
    base = config(folder, precision="float32", products="torch")
    settings = (base.layer, base.pooling, base.max_length, "float32", None)
    stored = (base.vector_dtype, base.states_dtype)
    assert encoder_fingerprint(base, {}) == fingerprint("huggingface", "2", {}, settings, stored)
    autocast = fingerprint("huggingface", "2", {}, (*settings[:3], "bfloat16", None), stored)
    assert encoder_fingerprint(replace(base, precision="bfloat16"), {}) != autocast


def test_products_in_float32_are_computed_through_onednn_by_default_with_vectors_within_1e_5(folder):
    torch_, onednn = load(config(folder, products="torch"), "cpu"), load(config(folder), "cpu")
    assert vectors(onednn) == pytest.approx(vectors(torch_), abs=1e-5)
    kinds = {type(part) for part in onednn._model.modules()}
    assert OnednnLinear in kinds
    assert torch.nn.Linear not in kinds


def test_products_through_onednn_change_no_vector_and_no_fingerprint_in_bfloat16(folder):
    torch_, onednn = (load(config(folder, products=kind, precision="bfloat16"), "cpu") for kind in ("torch", "onednn"))
    assert (vectors(onednn) == vectors(torch_)).all()
    assert onednn.fingerprint == torch_.fingerprint


def test_without_onednn_torch_computes_the_products(folder, monkeypatch):
    monkeypatch.setattr(matmul, "_HAS_ONEDNN", False)
    torch_, onednn = (load(config(folder, products=kind), "cpu") for kind in ("torch", "onednn"))
    assert OnednnLinear not in {type(part) for part in onednn._model.modules()}
    assert (vectors(onednn) == vectors(torch_)).all()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_precision_is_float32_on_every_device(folder, device, monkeypatch):
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
    choices = list(product(("auto", "float32", "bfloat16", "int8"), ("onednn", "torch")))
    prints = {(precision, products): encoder_fingerprint(config(folder, precision=precision, products=products), {})
              for precision, products in choices}  # fmt: skip
    equal = {frozenset(other for other in choices if prints[other] == prints[choice]) for choice in choices}
    alike = {frozenset({(rounded, "onednn"), (rounded, "torch")}) for rounded in ("bfloat16", "int8")}
    assert equal == {*alike, *(frozenset({choice}) for choice in choices if choice[0] in ("auto", "float32"))}


def test_int8_rounds_weights_and_each_row_of_the_input_after_columns_were_made_alike():
    layer, rows = torch.nn.Linear(6, 4), torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    rows[:, 2] *= 50
    weight, bias = layer.weight.detach().tolist(), layer.bias.detach().tolist()
    model = torch.nn.Sequential(layer)
    matmul.use_int8(model, lambda: model(rows))
    factors = [
        math.sqrt(max(abs(row[column]) for row in rows.tolist()) / max(abs(row[column]) for row in weight))
        for column in range(6)
    ]
    for outputs, row in zip(model(rows).tolist(), rows.tolist(), strict=True):
        numbers, scale = in_int8([value / factor for value, factor in zip(row, factors, strict=True)])
        for output, row_of_weights, shift in zip(outputs, weight, bias, strict=True):
            of_weights, unit = in_int8([value * factor for value, factor in zip(row_of_weights, factors, strict=True)])
            whole = sum(left * right for left, right in zip(numbers, of_weights, strict=True))
            assert output == pytest.approx(whole * scale * unit + shift, rel=1e-5)


def in_int8(values):
    scale = max(map(abs, values)) / 127
    return [round(value / scale) for value in values], scale


def test_int8_stays_on_the_cpu_where_there_is_a_gpu(folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert load(config(folder, precision="int8"), "auto")._device == "cpu"


def test_int8_is_refused_on_a_gpu_and_where_products_are_not_exact(folder, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, *_: module)
    with pytest.raises(EncoderError, match=r"int8 needs a CPU. Set precision to 'bfloat16', or device to 'cpu'"):
        HuggingFaceEncoder(config(folder, precision="int8"), folder, "cuda")
    monkeypatch.setattr(torch, "_int_mm", lambda left, right: (left.float() @ right.float()).clamp_max(32_767))
    with pytest.raises(EncoderError, match=r"does not multiply 8-bit numbers exactly. Set precision to 'float32'"):
        load(config(folder, precision="int8"), "cpu")


@pytest.mark.parametrize("products", ["onednn", "torch"])
def test_distilled_and_head_encoders_keep_the_products_setting(tmp_path, products):
    assert tiny_teacher.config(products=products).model(tmp_path).products == products
    settings = config(save_model(tmp_path / "model"), products=products)
    described = describe_config(settings, tmp_path)
    assert encoder_of(tmp_path, described, tmp_path, ()) == settings


def test_distilled_encoders_have_onednns_products_by_default_and_pretrained_ones_torchs(tmp_path):
    made = [settings.model(tmp_path).products for settings in (tiny_teacher.config(), ScratchConfig(name="tiny"))]
    assert made == ["onednn", "torch"]


def test_torch_products_leave_the_fingerprint_unchanged():
    torch_, onednn = (tiny_teacher.config(products=kind) for kind in ("torch", "onednn"))
    assert "products" not in f"{torch_}"
    assert fingerprint(torch_) == fingerprint(repr(onednn))
    assert fingerprint(torch_) != fingerprint(onednn)
    torch_, onednn = (tiny_teacher.config(products=kind).identity(is_student=True) for kind in ("torch", "onednn"))
    assert torch_ == onednn


def test_a_head_older_than_the_products_key_uses_torch(tmp_path):
    settings = config(save_model(tmp_path / "model"), products="torch")
    described = {name: value for name, value in describe_config(settings, tmp_path).items() if name != "products"}
    assert encoder_fingerprint(encoder_of(tmp_path, described, tmp_path, ()), {}) == encoder_fingerprint(settings, {})


MODULE = SimpleNamespace(is_causal=False)


class Counted(TorchFunctionMode):
    """Counts calls of torch's attention, and notes the number format of the last."""

    calls, dtype = 0, None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.scaled_dot_product_attention:
            self.calls, self.dtype = self.calls + 1, args[0].dtype
        return func(*args, **(kwargs or {}))


def inputs(width, dim=32, dtype=torch.float32):
    """Query, key and value of three texts in two heads, as transformers makes them."""
    torch.manual_seed(width)
    return [torch.randn(3, width, 2, dim).to(dtype).transpose(1, 2) for _ in range(3)]


def attended(function, *given, module=MODULE, mask=None, **named):
    with torch.inference_mode(), Counted() as counted:
        states, _ = function(module, *given, mask, **named)
    return states, counted.calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 16, 31])
def test_batched_and_exact_attention_agree_up_to_rounding(width, dtype):
    given = inputs(width, dtype=dtype)
    (exact, called), (batched, not_called) = (
        attended(way, *given, scaling=0.2) for way in (layers._exact, layers._batched)
    )
    assert (called, not_called) == (1, 0)
    assert (batched.dtype, batched.shape, batched.is_contiguous()) == (dtype, (3, width, 2, 32), True)
    torch.testing.assert_close(batched, exact, atol=1e-6 if dtype == torch.float32 else 1e-2, rtol=0)


@pytest.mark.parametrize(("width", "dim", "changed"), [
    (32, 32, {}),
    (7, 8, {}),
    (7, 32, {"mask": torch.tensor([True] * 6 + [False]).expand(3, 1, 7, 7)}),
    (7, 32, {"is_causal": True}),
    (7, 32, {"module": SimpleNamespace(is_causal=True)}),
    (7, 32, {"position_bias": torch.arange(98.0).view(1, 2, 7, 7)}),
], ids=str)  # fmt: skip
def test_unsupported_attention_inputs_fall_back_to_torch(width, dim, changed):
    given = inputs(width, dim)
    (exact, _), (batched, called) = (attended(way, *given, **changed) for way in (layers._exact, layers._batched))
    assert called == 1
    assert torch.equal(batched, exact)


@pytest.mark.parametrize("width", [7, 32])
def test_only_short_texts_without_gradients_take_one_thread(monkeypatch, width):
    given, taken = [tensor.requires_grad_() for tensor in inputs(width)], []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    layers._exact(MODULE, *given, None)
    assert taken == []
    with torch.no_grad():
        layers._exact(MODULE, *given, None)
    assert taken == ([1, 2] if width < 32 else [])


@pytest.mark.parametrize(("autocast", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
def test_a_model_in_bfloat16_attends_in_float32_and_autocast_in_bfloat16(autocast, dtype):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast), Counted() as counted:
        states, _ = layers._exact(MODULE, *inputs(7, dtype=torch.bfloat16), None)
    assert (counted.dtype, states.dtype) == (dtype, torch.bfloat16)


@pytest.mark.parametrize(("precision", "name"), [("bfloat16", "disent_batched"), ("float32", "disent_exact")])
def test_models_in_bfloat16_take_the_products_of_all_heads_at_once(tmp_path, precision, name):
    encoder = load(config(save_model(tmp_path), precision=precision), "cpu")
    assert encoder._model.config._attn_implementation == name


def test_other_attention_is_kept_and_ours_is_not_saved(tmp_path):
    load_model(save_model(tmp_path / "model"), pooling="cls").save_pretrained(tmp_path / "saved")
    assert "disent" not in (tmp_path / "saved" / "config.json").read_text(encoding="utf-8")
    model = load_model(save_model(tmp_path), pooling="cls")
    model.set_attn_implementation("eager")
    layers.use_attention(model, batched=True)
    assert model.config._attn_implementation == "eager"
