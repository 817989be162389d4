"""Pretraining an encoder: it learns, it resumes, and what it leaves is a model like any other."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_encoders import are_equal, killed

from disent_core import text
from disent_core.encoders import LazyEncoder, transformer
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.kinds.scratch import ScratchConfig, pretraining
from disent_core.encoders.kinds.scratch.pretraining import (
    MASK_ID,
    ORDINARY,
    PAD,
    PretrainingTask,
    Sequences,
    mask_tokens,
    plan_epoch,
    pretrain,
)
from disent_core.errors import EncoderError
from disent_core.storage import text_columns
from disent_core.storage.text_columns import PairColumn, TextColumn

TIMES, VERBS = ["nine", "noon", "ten", "five"], ["wake me up", "weck mich", "call mum", "ruf mama an"]
TEXTS = [f"{verb} at {time}" for verb in VERBS for time in TIMES] * 3
PAIRS = [(f"wake me up at {time}", f"weck mich um {time}") for time in TIMES]


def config(**changed):
    small = {"vocab_size": 120, "hidden_size": 32, "layers": 2, "heads": 4, "intermediate_size": 64}
    rest = {"name": "scratch", "max_length": 32, "batch_tokens": 256, "max_steps": 6, "dropout": 0.1}
    return ScratchConfig(**(small | rest | changed))


def test_the_loss_falls(tmp_path):
    epochs = list(pretrain(TEXTS, config(max_steps=60, dropout=0.0), tmp_path / "model", "cpu"))
    losses = [epoch.terms["train"]["total"] for epoch in epochs]
    assert epochs[-1].steps == 60
    assert np.mean(losses[-2:]) < 0.8 * np.mean(losses[:2])


def cut_off(folder):
    with killed(PretrainingTask, after=4):
        list(pretrain(TEXTS, config(checkpoint_seconds=0.0), folder, "cpu"))


def computed(epochs):
    epochs = list(epochs)
    return epochs[-1].steps - max((epoch.steps for epoch in epochs if epoch.is_replayed), default=0)


def test_texts_and_pairs_in_columns_give_the_weights_of_lists(tmp_path, monkeypatch):
    settings = config(max_steps=3, translation=True)
    list(pretrain(TEXTS, settings, tmp_path / "lists", "cpu", pairs=PAIRS))
    monkeypatch.setattr(text_columns, "BLOCK", 7)
    texts, left, right = (TextColumn.whole(pa.array(side)) for side in (TEXTS, *map(list, zip(*PAIRS, strict=True))))
    list(pretrain(texts, settings, tmp_path / "columns", "cpu", pairs=PairColumn(left, right)))
    assert are_equal(tmp_path / "lists", tmp_path / "columns")


def test_the_result_is_loaded_like_any_other_model_without_a_pooler(tmp_path):
    settings = config(pooling="mean")
    list(pretrain(TEXTS, settings, tmp_path / "model", "cpu"))
    encoder = transformer.load(settings.model(tmp_path / "model"), "cpu")
    masked = f"{text.SUBWORD_MASK_OPEN}wake me{text.SUBWORD_MASK_CLOSE} up {text.MASK}"
    batches = list(encoder.encode(["wake me up", masked, "日本"], states=True))
    assert (encoder.dim, np.concatenate([batch.vectors for batch in batches]).shape) == (32, (3, 32))
    ids = encoder._tokenise([masked]).ids
    assert (ids[0], ids[-1], ids[-2]) == (0, 2, MASK_ID)
    list(pretrain(TEXTS, config(), tmp_path / "model", "cpu"))
    asked = HuggingFaceConfig(name="s", path=str(tmp_path / "model"), pooling="pooler", max_length=32)
    with pytest.raises(EncoderError, match="the checkpoint has no pooler"):
        transformer.load(asked, "cpu")


def test_weights_depend_on_the_seed_and_the_global_generator_is_neither_read_nor_moved(tmp_path):
    for number, (name, seed) in enumerate((("a", 0), ("b", 0), ("c", 1))):
        torch.manual_seed(number)
        list(pretrain(TEXTS, config(seed=seed), tmp_path / name, "cpu"))
        assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(number)))
    assert are_equal(tmp_path / "a", tmp_path / "b")
    assert not are_equal(tmp_path / "a", tmp_path / "c")


def test_a_run_killed_before_publishing_recomputes_nothing(tmp_path, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "_publish", dies)
        with pytest.raises(KeyboardInterrupt):
            list(pretrain(TEXTS, config(), tmp_path / "killed", "cpu"))
    assert computed(pretrain(TEXTS, config(), tmp_path / "killed", "cpu")) == 0
    list(pretrain(TEXTS, config(), tmp_path / "whole", "cpu"))
    for name in ("model.safetensors", "pretraining_loss.txt"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_finished_folder_is_left_alone_until_texts_or_configuration_change(tmp_path):
    folder = tmp_path / "model"
    list(pretrain(TEXTS, config(), folder, "cpu"))
    assert list(pretrain(TEXTS, config(name="renamed", pooling="cls"), folder, "cpu")) == []
    assert computed(pretrain(TEXTS[1:], config(), folder, "cpu")) == 6
    assert computed(pretrain(TEXTS[1:], config(max_steps=2), folder, "cpu")) == 2


def test_a_killed_run_whose_tokeniser_was_damaged_starts_anew_ends_alike_and_leaves_only_the_model(tmp_path, caplog):
    cut_off(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    (file,) = tmp_path.glob("*/tokenizer.json")
    file.write_bytes(file.read_bytes()[:100])
    list(pretrain(TEXTS, config(), tmp_path / "model", "cpu"))
    assert "tokenizer.json: this file is not as it was written" in caplog.text
    list(pretrain(TEXTS, config(), tmp_path / "undisturbed", "cpu"))
    assert are_equal(tmp_path / "model", tmp_path / "undisturbed")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "undisturbed"}


def test_translation_pairs_count_only_if_the_configuration_says_so(tmp_path):
    plain, with_pairs = (
        computed(pretrain(TEXTS, config(max_steps=None, epochs=1, translation=is_read), tmp_path / f"{is_read}", "cpu",
                          pairs=PAIRS * 20))
        for is_read in (False, True)
    )  # fmt: skip
    assert with_pairs > plain + 80 * 6 / 256


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_both_tokenisers_read_scripts_without_spaces(tmp_path, algorithm):
    settings = config(tokeniser=algorithm, max_steps=1)
    list(pretrain(["明日の天気", "明日の朝", "今日の天気", "天気"] * 5, settings, tmp_path / "model", "cpu"))
    encoder = transformer.load(settings.model(tmp_path / "model"), "cpu")
    assert encoder._tokenise(["今日の朝"]).lengths[0] > 3


def test_invalid_numbers_of_heads_and_layers_are_refused():
    with pytest.raises(ValueError, match="hidden_size 30 must be a multiple of heads 4"):
        config(hidden_size=30)
    with pytest.raises(ValueError, match=r"there is no layer 3; choose 0 \(embeddings\) to 2"):
        config(layers=2, layer=(-3, 2, 3))


@pytest.mark.parametrize("use", [lambda lazy: lazy.fingerprint, lambda lazy: lazy.files, lambda lazy: lazy.load("en")])
def test_the_error_of_an_unpretrained_encoder_names_the_asset_to_materialise(tmp_path, use):
    lazy = LazyEncoder(config(name="mine"), tmp_path / "mine", "cpu")
    with pytest.raises(EncoderError, match=r"not been made yet\. Materialise the asset embeddings/mine/mine_encoder"):
        use(lazy)


def test_pretraining_on_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no texts"):
        list(pretrain([], config(), tmp_path / "model", "cpu"))


@given(lengths=st.lists(st.integers(2, 40), min_size=1, max_size=80), budget=st.integers(40, 300))
def test_an_epoch_has_every_text_once_within_the_budget(lengths, budget):
    lengths = np.array(lengths)
    batches = plan_epoch(lengths, budget, (0, 1))
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert all(lengths[batch].max() * len(batch) <= budget for batch in batches)
    assert len(batches) == len(plan_epoch(lengths, budget, (0, 2)))


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_masks_follow_the_published_shares_and_spare_special_tokens(seed):
    ids = torch.randint(ORDINARY, 500, (200, 50), generator=torch.Generator().manual_seed(seed))
    ids[:, 0], ids[:, -1] = 0, PAD
    generator = torch.Generator().manual_seed(seed)
    seen, chosen = mask_tokens(ids, vocab_size=500, probability=0.15, generator=generator)
    assert not chosen[:, [0, -1]].any()
    assert torch.equal(seen[~chosen], ids[~chosen])
    of_chosen = seen[chosen]
    masked, kept = (of_chosen == MASK_ID).float().mean(), (of_chosen == ids[chosen]).float().mean()
    assert abs(chosen.float().mean() - 0.15 * 0.96) < 0.02
    assert abs(masked - 0.8) < 0.06
    assert abs(kept - 0.1) < 0.05


def test_something_is_predicted_even_in_the_smallest_batch():
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        _, chosen = mask_tokens(torch.tensor([[0, 7, 2]]), vocab_size=9, probability=0.01, generator=generator)
        assert chosen.tolist() == [[False, True, False]]


def task_on(device):
    random = np.random.default_rng(0)
    ids = [np.array([0, *random.integers(5, 200, length), 2]) for length in random.integers(1, 12, 30)]
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 32, "vocab_size": 200}
    settings = ScratchConfig(name="small", batch_tokens=64, dropout=0.1, **sizes)
    lengths = np.array([len(sequence) for sequence in ids])
    return PretrainingTask(settings, Sequences(np.concatenate(ids).astype(np.int32), lengths, 200), device)


def test_a_pretraining_step_never_synchronises_with_the_gpu():
    """torch's device without values stands in: reading one raises."""
    task = task_on("meta").train()
    for batch in task.batches(0):
        terms, predicted = task.step(batch)
        assert predicted > 0
        assert terms["total"].device.type == "meta"


def test_a_mask_of_pairs_of_positions_gives_the_states_of_a_mask_of_positions():
    model = task_on("cpu").eval().model.roberta
    seen = torch.tensor([[0, 7, 8, 2], [0, 9, 2, PAD]])
    visible = seen != PAD
    pairs = visible[:, None, None].expand(-1, 1, 4, -1)
    flat, full = (model(input_ids=seen, attention_mask=mask).last_hidden_state for mask in (visible.long(), pairs))
    assert torch.equal(flat[visible], full[visible])
