"""Attention of frozen models: which of the two ways is taken, and that they agree."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from word_bert import config, save_model

from disent_core.encoders import layers
from disent_core.encoders.checkpoint import load_model
from disent_core.encoders.transformer import load

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
@pytest.mark.parametrize("width", [1, 5, 15, 16, 17, 31])
def test_both_ways_agree_up_to_rounding(width, dtype):
    given = inputs(width, dtype=dtype)
    (exact, called), (batched, not_called) = (
        attended(one, *given, scaling=0.2) for one in (layers._exact, layers._batched)
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
def test_whatever_is_not_short_and_plain_is_torchs_attention(width, dim, changed):
    given = inputs(width, dim)
    (exact, _), (batched, called) = (attended(one, *given, **changed) for one in (layers._exact, layers._batched))
    assert called == 1
    assert torch.equal(batched, exact)


@pytest.mark.parametrize("width", [7, 32])
def test_only_short_texts_without_gradients_take_one_thread(monkeypatch, width):
    given, taken = [one.requires_grad_() for one in inputs(width)], []
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


def test_a_model_with_other_attention_keeps_it_and_a_saved_one_does_not_name_ours(tmp_path):
    load_model(save_model(tmp_path / "model"), pooling="cls").save_pretrained(tmp_path / "saved")
    assert "disent" not in (tmp_path / "saved" / "config.json").read_text(encoding="utf-8")
    model = load_model(save_model(tmp_path), pooling="cls")
    model.set_attn_implementation("eager")
    layers.use_attention(model, batched=True)
    assert model.config._attn_implementation == "eager"
