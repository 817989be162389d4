"""Fine-tuning: an untrained encoder is the frozen one, training keeps what it says, and files give the vectors back."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from synthetic import world
from tiny_encoder import tiny_encoder
from worlds import sentence_pair

from disent_core.encoders.fine_tunable import TunableEncoder, VectorMap, embed_all
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import load
from disent_core.errors import EncoderError, TrainingError
from disent_core.losses.contrastive import symmetric_softmax
from disent_core.methods import emu_head, infonce_head
from disent_core.methods import method as method_named
from disent_core.methods.spec import HeadFiles, HeadSpec
from disent_core.methods.trainer import train_head, trainer
from disent_core.registry import imported
from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.storage.weights import read_weights
from disent_core.training.build_data import training_data
from disent_core.training.data import TextFeatures
from disent_core.training.epoch import Fit
from disent_core.training.needs import SIDES, Need
from disent_core.training.stacked import accuracy_by_pair

NAMES = (
    "emu", "emu_no_discriminator", "emu_no_discriminator_no_center", "emu_parallel", "softmax", "contrastive", "npair",
    "fine_tuned",
)  # fmt: skip
METHODS = {name: method_named(name) for name in NAMES}
TEXTS = ["toy en 1", "toy de 2 3 4 5 6 7", "toy", "toy es 9", "en en en en en en en en en", "unheard"]


@pytest.fixture(autouse=True)
def a_small_discriminator(monkeypatch):
    monkeypatch.setattr(emu_head, "_HIDDEN", 12)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def data(files):
    return replace(world("en-de", dim=16).data, encoder=files)


def settings(name, *, tune="encoder", **changes):
    base = METHODS[name].presets["paper"]
    fast = {"batch_size": 5, "epochs": 2, "learning_rate": 1e-3, "checkpoint_seconds": 0.0}
    return replace(base, **(fast | ({} if name == "fine_tuned" else {"tune": tune}) | changes))


def run(name, data, config, path, seeds=(0, 1)):
    return trainer(METHODS[name]).fit(data, config, Fit(seeds, path, "run"))


def kept(folder):
    by_seed = {path.stem: read_weights(path)[0] for path in folder.glob("*.safetensors")}
    return {f"{seed}.{name}": value for seed, weights in by_seed.items() for name, value in weights.items()}


def features(data, texts, language="en"):
    utterances = data.utterances["dev"][language]
    return TextFeatures(data.vectors, utterances.rows, texts=utterances.texts if texts else None)


@pytest.mark.parametrize(("pooling", "layer"), [("mean", -1), ("pooler", -1), ("cls", 0), ("mean", (0, 1))])
def test_an_untuned_encoder_gives_the_vectors_of_the_frozen_one(files, pooling, layer):
    untuned = HuggingFaceConfig(name="tiny", path=str(files.folder), pooling=pooling, layer=layer, max_length=8)
    source = TunableEncoder(replace(files, pooling=pooling, layer=layer, max_length=8), "cpu")
    frozen = np.zeros((len(TEXTS), source.dim), np.float32)
    for batch in load(untuned, "cpu").encode(TEXTS, states=False):
        frozen[batch.indices] = batch.vectors
    vectors = embed_all(source, source.prepare(TEXTS), torch.arange(len(TEXTS)))
    np.testing.assert_allclose(vectors.numpy(), frozen, atol=1e-6)


def test_groups_of_similar_length_change_nothing_and_keep_the_order(files, monkeypatch):
    source = TunableEncoder(files, "cpu").eval()
    inputs, rows = source.prepare(TEXTS), torch.tensor([4, 0, 2, 2, 1, 5])
    whole = source(inputs, rows)
    monkeypatch.setattr("disent_core.encoders.fine_tunable._GROUP", {"cpu": 2})
    assert torch.allclose(source(inputs, rows), whole, atol=1e-6)


def test_every_weight_gets_a_gradient_except_frozen_token_embeddings(files):
    for train_embeddings in (True, False):
        source = TunableEncoder(files, "cpu", train_embeddings=train_embeddings)
        source(source.prepare(TEXTS), torch.arange(3)).square().sum().backward()
        without = {name for name, value in source.named_parameters() if value.grad is None}
        assert without == (set() if train_embeddings else {"model.embeddings.word_embeddings.weight"})


def test_recomputation_gives_the_whole_batch_gradient_with_equal_dropout(files, monkeypatch):
    monkeypatch.setattr("disent_core.encoders.fine_tunable._GROUP", {"cpu": 2})
    texts, gradients = torch.tensor([[0, 1], [2, 3], [4, 5]]), {}
    for recompute in (False, True):
        torch.manual_seed(1)
        source = TunableEncoder(files, "cpu", recompute=recompute).train()
        left, right = source(source.prepare(TEXTS), texts.T.flatten()).chunk(2)
        none_equal = torch.eye(3, dtype=torch.bool)
        symmetric_softmax(left, right, none_equal, temperature=0.05).mean().backward(inputs=list(source.parameters()))
        gradients[recompute] = [value.grad for value in source.parameters()]
    for whole, cached in zip(gradients[False], gradients[True], strict=True):
        torch.testing.assert_close(cached, whole, rtol=1e-6, atol=1e-8)


def test_recomputation_runs_every_group_twice(files, monkeypatch):
    source, runs = TunableEncoder(files, "cpu", recompute=True).train(), []
    run = source._run
    monkeypatch.setattr(source, "_run", lambda inputs, rows: runs.append(len(rows)) or run(inputs, rows))
    loss = source(source.prepare(TEXTS), torch.arange(5)).square().sum()
    assert runs == [5]
    loss.backward()
    assert runs == [5, 5]


def test_bfloat16_is_near_float32_and_its_vectors_and_weights_are_float32(files):
    rows, vectors = torch.arange(len(TEXTS)), {}
    for precision in ("float32", "bfloat16"):
        source = TunableEncoder(files, "cpu", precision=precision)
        vectors[precision] = embed_all(source, source.prepare(TEXTS), rows)
        assert vectors[precision].dtype == next(source.parameters()).dtype == torch.float32
    assert 0 < (vectors["float32"] - vectors["bfloat16"]).abs().max() < 0.05


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_map_starts_as_the_identity(kind):
    inputs = torch.randn(5, 8)
    assert torch.allclose(VectorMap(8, kind)(inputs, torch.tensor([3, 1])), inputs[[3, 1]], atol=1e-6)


def test_overlong_texts_are_logged_and_an_excessive_max_length_is_refused(files, caplog):
    with pytest.raises(EncoderError, match="max_length is 33, but the model reads at most 32 tokens"):
        TunableEncoder(replace(files, max_length=33), "cpu")
    TunableEncoder(replace(files, max_length=4), "cpu").prepare(TEXTS)
    assert "4 of 6 texts are longer than 4 tokens and were cut" in caplog.text


def test_dropout_is_on_in_training_unless_disabled(files):
    rows = torch.arange(len(TEXTS))
    for dropout in (True, False):
        source = TunableEncoder(files, "cpu", dropout=dropout)
        inputs = source.prepare(TEXTS)
        settled, moving = source.eval()(inputs, rows), source.train()(inputs, rows)
        assert torch.equal(settled, moving) != dropout


CASES = [("emu", "encoder"), ("softmax", "head"), ("contrastive", "head"), ("npair", "head"), ("fine_tuned", "encoder")]


@pytest.mark.parametrize(("name", "tune"), CASES)
def test_training_lowers_its_loss(name, tune, data, tmp_path):
    config = settings(name, tune=tune, epochs=8, learning_rate=5e-3, monitor="last")
    losses = [epoch.terms["train"]["total"][0] for epoch in run(name, data, config, tmp_path / "run", (0,))]
    assert losses[-1] < losses[0]


def test_layers_above_the_configured_one_are_not_tuned(data, files, tmp_path):
    inner = replace(data, encoder=replace(files, layer=1))
    list(run("fine_tuned", inner, settings("fine_tuned"), tmp_path / "run", (0,)))
    before = dict(TunableEncoder(files, "cpu").named_parameters())
    moved = {key: not torch.equal(value, before[key.split(".", 1)[1]]) for key, value in kept(tmp_path / "run").items()}
    assert {key for key, is_moved in moved.items() if not is_moved} == {key for key in moved if ".layer.1." in key}


def test_seeds_are_the_same_runs_alone_and_one_after_another(data, tmp_path):
    config = settings("emu", tune="head")
    list(run("emu", data, config, tmp_path / "both", (3, 4)))
    list(run("emu", data, config, tmp_path / "alone", (4,)))
    together, alone = kept(tmp_path / "both"), kept(tmp_path / "alone")
    assert all(torch.equal(together[key], alone[key]) for key in alone)
    assert not torch.equal(together["3.map.weight"], together["4.map.weight"])


@pytest.mark.parametrize("name", ["emu_no_discriminator", "emu"])
def test_gamma_has_an_effect_only_with_a_discriminator(name, data, tmp_path):
    for folder, gamma in (("small", 0.0), ("large", 100.0)):
        list(run(name, data, settings(name, tune="head", gamma=gamma), tmp_path / folder, (0,)))
    small, large = kept(tmp_path / "small"), kept(tmp_path / "large")
    assert all(torch.equal(small[key], large[key]) for key in small) == (name == "emu_no_discriminator")


def test_epochs_count_the_steps_of_all_seeds_and_the_total_is_of_weighted_terms(data, tmp_path):
    epochs = list(run("emu", data, settings("emu", tune="head"), tmp_path / "run"))
    assert [(epoch.seeds, epoch.number, epoch.steps) for epoch in epochs] == [
        ((0,), 1, 3), ((0,), 2, 6), ((1,), 1, 9), ((1,), 2, 12)
    ]  # fmt: skip
    assert set(epochs[0].terms["train"]) == {"classification", "center", "adversary", "discriminator", "total"}
    assert set(epochs[0].terms["dev"]) == {"classification", "center", "accuracy_at_1", "total"}
    for terms in epochs[0].terms.values():
        weighted = (value for name, (value,) in terms.items() if name in ("classification", "center", "adversary"))
        assert terms["total"][0] == pytest.approx(sum(weighted), abs=1e-5)


@pytest.mark.parametrize(("monitor", "best"), [("last", [3]), ("loss", [0, 1]), ("dev_accuracy", [0, 2])])
def test_the_monitored_epoch_is_kept_and_patience_ends_a_seed(monitor, best, data, tmp_path, monkeypatch):
    dev = iter([(3.0, 0.1), (2.0, 0.1), (2.5, 0.2), (2.5, 0.2)] * 2)
    names = ("total", "accuracy_at_1")
    monkeypatch.setattr(infonce_head.TranslationTask, "validate", lambda _: dict(zip(names, next(dev), strict=True)))
    config = settings("fine_tuned", monitor=monitor, epochs=4, patience=2)
    epochs = list(run("fine_tuned", data, config, tmp_path / "run", (0,)))
    best_epochs = [epoch.number - 1 for epoch in epochs if epoch.is_best[0]]
    assert best_epochs == (list(range(4)) if monitor == "last" else best)
    assert len(epochs) == 4
    short = list(run("fine_tuned", data, replace(config, patience=1), tmp_path / "short", (0,)))
    assert len(short) == {"last": 4, "loss": 3, "dev_accuracy": 2}[monitor]


def saved(name, data, config, tmp_path):
    epochs = list(run(name, data, config, tmp_path / "checkpoint"))
    known = {"seeds": [0, 1], "dim": data.dim, "encoder_fingerprint": "tiny"}
    content = trainer(METHODS[name]).save(tmp_path / "checkpoint", tmp_path / "weights", known)
    return epochs, content


@pytest.mark.parametrize(("name", "tune"), [("emu", "head"), ("fine_tuned", "encoder")])
def test_what_is_saved_embeds_as_what_was_trained(name, tune, data, files, tmp_path, monkeypatch):
    last = {}  # the tasks, to compare with
    task = type(imported(METHODS[name].tasks)(data, settings(name, tune=tune), "cpu")(0))
    original = task.validate
    monkeypatch.setattr(task, "validate", lambda self: last.update({self.seed: self}) or original(self))
    config = settings(name, tune=tune, monitor="last", **({"train_embeddings": False} if tune == "encoder" else {}))
    saved(name, data, config, tmp_path)
    loaded = trainer(METHODS[name]).load(tmp_path / "weights", config, "cpu", files)
    for seed in (1, 0):
        embeddings = loaded.embed(features(data, texts=True), seed)
        assert list(embeddings) == list(METHODS[name].embeddings)
        (matrix,) = embeddings.values()
        source = last[seed].source
        inputs = data.vectors.take(data.utterances["dev"]["en"].rows) if tune == "head" else None
        inputs = source.prepare(data.utterances["dev"]["en"].texts) if inputs is None else inputs
        expected = embed_all(source, inputs, torch.arange(len(matrix)))
        np.testing.assert_allclose(matrix, expected.numpy(), atol=1e-6)
        assert matrix.dtype == np.float32
    names = read_weights(tmp_path / "weights")[0]
    assert not any("word_embeddings" in name or "classifier" in name for name in names)


def test_loading_with_another_encoder_or_embedding_without_seed_or_texts_fails(data, files, tmp_path):
    config = settings("fine_tuned")
    saved("fine_tuned", data, config, tmp_path)
    method = METHODS["fine_tuned"]
    with pytest.raises(TrainingError, match="another encoder"):
        trainer(method).load(tmp_path / "weights", config, "cpu", replace(files, fingerprint="other"))
    with pytest.raises(TrainingError, match="no encoder to tune"):
        trainer(method).load(tmp_path / "weights", config, "cpu")
    loaded = trainer(method).load(tmp_path / "weights", config, "cpu", files)
    with pytest.raises(ValueError, match="not None"):
        loaded.embed(features(data, texts=True), None)
    with pytest.raises(ValueError, match="have none"):
        loaded.embed(features(data, texts=False), 0)


def test_pairs_find_their_texts_and_equal_texts_are_one_row(data):
    listed = infonce_head.pair_texts(data)
    assert len(set(listed.texts)) == len(listed.texts)
    for split, rows in listed.pairs.items():
        pairs = data.splits[split]
        for row, source, target in zip(rows.tolist(), *(pairs.text[side].tolist() for side in SIDES), strict=True):
            left, right = (listed.texts[number] for number in row)
            assert left.split()[::2] == right.split()[::2]
            assert (left.split()[1], right.split()[1]) == ("en", "de")
            assert source != target


def test_pairs_of_a_bitext_find_their_texts_as_well():
    toy, other = world("en-de"), "zh-TW"
    entries = [row | {"pair": f"en-{other}", "target_language": other} for row in toy.aligned[0].to_pylist()]
    rows = [row for row in entries if row["split"] != "test"]
    bitext = rows_table(
        [
            sentence_pair(
                f"{other}-en", row["utterance_id"], f"text of {row['target_key']}", f"text of {row['source_key']}",
                split=row["split"], source_key=row["target_key"], target_key=row["source_key"],
            )
            for row in rows
        ],
        "sentence_pairs",
    )  # fmt: skip
    none = [SCHEMAS["utterances"].empty_table()]
    aligned, vectors = [rows_table(entries, "aligned_pairs")], {"en": toy.vectors["en"], other: toy.vectors["de"]}
    data = training_data(aligned, vectors, masked=False, utterances=none, sentences=[bitext])
    listed = infonce_head.pair_texts(data)
    for split, pairs in listed.pairs.items():
        expected = [row for row in rows if row["split"] == split]
        assert len(pairs) == len(expected)
        for (source, target), row in zip(pairs.tolist(), expected, strict=True):
            assert listed.texts[source] == f"text of {row['source_key']}"
            assert listed.texts[target] == f"text of {row['target_key']}"


def test_translation_accuracy_is_the_mean_of_both_ways():
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    # There: 0 and 1 find theirs, 2 finds 1 (equal, the lowest index). Back: all of 1 and 2 find 1.
    pair = torch.zeros(3, dtype=torch.int64)
    assert accuracy_by_pair(torch.nn.functional.normalize(left), right, pair) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", METHODS)
def test_only_a_map_over_frozen_vectors_needs_no_encoder(name):
    method = METHODS[name]
    left = {preset: method.needs_of(config) for preset, config in method.presets.items()}
    assert left.pop("head", {Need.UTTERANCES}) == {Need.UTTERANCES}
    assert set(left.values()) == {method.needs}


def test_a_tuned_head_is_trained_saved_and_reused(data, tmp_path):
    head = HeadSpec(
        name="emu", method=METHODS["emu"], settings=settings("emu", tune="head"), encoder="tiny", trained_on="en-de",
        seeds=(0, 1), data_fingerprint="data", encoder_fingerprint="tiny",
    )  # fmt: skip
    written = HeadFiles(*(tmp_path / part for part in ("weights.safetensors", "curve.parquet", "checkpoint")))
    first, again = (train_head(head, written, lambda: data, device="cpu") for _ in range(2))
    assert (first.steps, first.epochs, first.is_reused, again.is_reused) == (12, 4, False, True)
    assert first.content == again.content
    assert not written.checkpoint.exists()
