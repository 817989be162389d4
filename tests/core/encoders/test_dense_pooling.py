"""The dense layer of sentence-transformers as a pooling: [CLS], dense, tanh, norm 1."""

import numpy as np
import pytest
import torch
from hub_stand_ins import save_dense
from safetensors.torch import load_file, save_file
from word_bert import TEXTS, config, encode, save_model

from disent_core.encoders import LazyEncoder
from disent_core.encoders.checkpoint import load_model
from disent_core.encoders.kinds.huggingface import DENSE, files_fingerprint
from disent_core.encoders.transformer import load, pool_states
from disent_core.errors import EncoderError

POOLING = "cls_dense_norm"


@pytest.fixture
def folder(tmp_path):
    return save_dense(save_model(tmp_path / "model"))


def test_the_vector_equals_the_formula_on_the_first_state(folder):
    vectors, states = encode(load(config(folder, pooling=POOLING), "cpu"), TEXTS)
    weights = load_file(folder / DENSE / "model.safetensors")
    for text_states, vector in zip(states, vectors, strict=True):
        dense = np.tanh(weights["linear.weight"].numpy() @ text_states[0] + weights["linear.bias"].numpy())
        np.testing.assert_allclose(vector, dense / np.linalg.norm(dense), atol=1e-5)


def test_a_model_that_is_tuned_passes_gradients_through_the_dense_layer(folder):
    model = load_model(folder, pooling=POOLING).requires_grad_(True)
    output = model(input_ids=torch.tensor([[1, 5, 2]]), attention_mask=torch.ones(1, 3).long())
    visible = torch.ones(1, 3, dtype=torch.bool)
    pool_states(output.last_hidden_state, output.pooler_output, visible, pooling=POOLING)[0, 0].backward()
    assert model.pooler.linear.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("change", "message"), [
    (lambda folder: (folder / DENSE / "model.safetensors").unlink(), "2_Dense: pooling is 'cls_.*save the model again"),
    (lambda folder: (folder / DENSE / "model.safetensors").write_bytes(b"pickle"), "2_Dense: pooling is 'cls_dense_n"),
    (lambda folder: save_dense(folder, 16), r"shape \(16, 32\) with Tanh, not \(32, 32\)"),
    (lambda folder: save_dense(folder, activation="torch.nn.modules.linear.Identity"), "with Identity, not"),
])  # fmt: skip
def test_a_dense_layer_that_can_not_be_used_is_refused(folder, change, message):
    change(folder)
    with pytest.raises(EncoderError, match=message):
        load(config(folder, pooling=POOLING), "cpu")


def test_another_layer_and_a_missing_pooler_are_refused(folder):
    with pytest.raises(ValueError, match="reads the last layer"):
        config(folder, pooling=POOLING, layer=1)
    with pytest.raises(ValueError, match="loaded without a pooler"):
        pool_states(torch.ones(1, 2, 3), None, torch.ones(1, 2, dtype=torch.bool), pooling="pooler")


def test_the_dense_layer_counts_in_the_fingerprint_only_with_dense_pooling(folder):
    def fingerprints():
        return [LazyEncoder(config(folder, pooling=pooling), folder).fingerprint for pooling in (POOLING, "cls")]

    before = fingerprints()
    assert before == [load(config(folder, pooling=pooling), "cpu").fingerprint for pooling in (POOLING, "cls")]
    weights = load_file(folder / DENSE / "model.safetensors")
    save_file({**weights, "linear.bias": weights["linear.bias"] + 1}, folder / DENSE / "model.safetensors")
    after = fingerprints()
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)
    assert f"{DENSE}/model.safetensors" in files_fingerprint(folder, POOLING)


def test_only_the_dense_module_folder_is_downloaded_from_the_hub(monkeypatch, folder):
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    asked = {}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **given: asked.update(given) or str(folder))
    load(config(folder, path=None, id="a/b", pooling=POOLING), "cpu")
    del asked["revision"], asked["local_files_only"]
    files = ["model.safetensors", "config.json", "pytorch_model.bin", "1_Pooling/config.json", "onnx/model.onnx",
             "2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"]  # fmt: skip
    assert list(filter_repo_objects(files, **asked)) == [
        "model.safetensors", "config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
    ]  # fmt: skip
