"""FMDA equals its formulas, written as loops with plain floats; in two stages, what stage 1 has made stays as it is."""

import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from fmda_loops import (
    DIM,
    GROUPS,
    SIDES,
    SWITCHES,
    batch_of_pairs,
    head,
    loop_embeddings,
    loop_terms,
    squared_error,
    texts_of,
)
from loops import values
from synthetic import DIM as WORLD_DIM
from synthetic import world
from torch.nn.functional import normalize

from disent_core.matmul import set_precision
from disent_core.methods.fmda import TWO_STAGE, FmdaConfig, FmdaTwoStageConfig, draws
from disent_core.methods.fmda_head import MeaningStage, TemplateStage
from disent_core.methods.trainer import trainer
from disent_core.training import stacked
from disent_core.training.data import text_features
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import accuracy_by_pair, best_parameters


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_terms_and_embeddings_equal_loops_over_pairs_and_tokens(switches):
    model, batch = head(**switches), batch_of_pairs()
    assert values(model(batch)) == pytest.approx(loop_terms(model, batch), abs=1e-9)
    embeddings = model.embed(texts_of(batch, "source"))
    for name, rows in embeddings.items():
        expected = [text[name] for text in loop_embeddings(model, batch, "source")]
        assert torch.allclose(rows, torch.tensor(expected, dtype=torch.float64), atol=1e-9), name


@pytest.mark.parametrize("group", GROUPS)
def test_without_removes_exactly_the_terms_of_its_group(group):
    batch = batch_of_pairs()
    everything, rest = head()(batch), head(without=(group,))(batch)
    assert set(everything) - set(rest) == GROUPS[group]
    assert all(torch.equal(rest[name], everything[name]) for name in rest)


def test_gradients_reach_every_parameter_except_the_key_bias():
    model = head()
    sum(model(batch_of_pairs()).values()).backward()
    still = {name for name, value in model.named_parameters() if value.grad is None or not value.grad.abs().sum() > 0}
    assert still == {"attention.key.bias"}


def test_bfloat16_products_change_terms_only_by_rounding():
    model, batch = head().float(), batch_of_pairs()
    single = {name: value.float() if value.is_floating_point() else value for name, value in batch.items()}
    expected = values(model(single))
    set_precision(model, "bfloat16")
    actual = values(model(single))
    assert actual == pytest.approx(expected, abs=0.05)
    assert actual != pytest.approx(expected, abs=1e-6)


def test_negatives_are_drawn_only_with_a_contrast_term():
    assert draws(FmdaConfig()) == ("negative",)
    assert draws(FmdaConfig(without=("contrast",))) == ()


WORLD = world("en-de", train=10, dev=6)
DATA = WORLD.data
SEEDS = (0, 1)
TEMPLATE_ENCODER = {"attention.query", "attention.key", "attention.template_value"}
OF_STAGE_1 = TEMPLATE_ENCODER | {"language", "identity"}
OF_STAGE_2 = {"attention.residual_value", "language", "identity", "meaning", "utterance"}


def config(**changes):
    small = {"learning_rate": 0.03, "batch_size": 9, "max_epochs": 2, "patience": 1, "checkpoint_seconds": 0.0}
    return FmdaTwoStageConfig(**small | {"weight_decay": 0.1} | changes)


def run(folder, settings, *, data=DATA, seeds=SEEDS):
    folder.mkdir(exist_ok=True)
    return trainer(TWO_STAGE).fit(data, settings, Fit(seeds, folder / "c", "run"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, list(run(folder, config()))


def untimed(epochs):
    return [replace(epoch, seconds=0.0) for epoch in epochs]


def is_first(epoch):
    return any(name.startswith("stage_1_") for name in epoch.terms["dev"])


def maps_that_moved(before, after):
    return {
        name.rpartition(".")[0]
        for seed in SEEDS
        for name in before[seed]
        if not torch.equal(before[seed][name], after[seed][name])
    }


def fresh(settings):
    parameters = {}
    for seed in SEEDS:
        torch.manual_seed(seed)
        head = TemplateStage(WORLD_DIM, 2, settings)
        parameters[seed] = {name: value.detach() for name, value in head.named_parameters()}
    return parameters


def stage(kind, **switches):
    torch.manual_seed(0)
    return kind(DIM, 2, FmdaTwoStageConfig(**switches)).double()


@pytest.mark.parametrize(
    "switches",
    [{}, {"contrast": "softmax", "ffn": "mlp2", "reconstruction_mlp": "all"}, {"without": ("contrast",)}],
)
@pytest.mark.parametrize(
    ("kind", "left_out"),
    [
        (TemplateStage, {"template_cross_reconstruction", "utterance", "residual", "meaning"}),
        (MeaningStage, {"template"}),
    ],
)
def test_terms_of_a_stage_equal_the_loops(kind, left_out, switches):
    model, batch = stage(kind, **switches), batch_of_pairs()
    expected = {name: value for name, value in loop_terms(model, batch).items() if not name.startswith(tuple(left_out))}
    assert values(model(batch)) == pytest.approx(expected, abs=1e-9)


def test_without_language_training_the_template_is_compared_with_its_target():
    model, batch = stage(TemplateStage, stage1_train_language=False), batch_of_pairs()
    expected = sum(
        squared_error(text["template"], target) / 4
        for side in SIDES
        for text, target in zip(
            loop_embeddings(model, batch, side), batch[f"{side}_template_vectors"].tolist(), strict=True
        )
    )
    terms = model(batch)
    assert set(terms) == {"template_reconstruction", "template_contrast"}
    assert terms["template_reconstruction"].item() == pytest.approx(expected, abs=1e-9)


def moved_in_stage_2(folder):
    return maps_that_moved(best_parameters(folder / "stage_1_c"), best_parameters(folder / "c"))


def test_stage_1_trains_the_template_encoder_and_its_language_and_stage_2_the_rest_to_the_bit(whole):
    assert maps_that_moved(fresh(config()), best_parameters(whole[0] / "stage_1_c")) == OF_STAGE_1
    assert moved_in_stage_2(whole[0]) == OF_STAGE_2


def test_stage_1_trains_the_template_encoder_alone_without_its_language(tmp_path):
    settings = config(stage1_train_language=False)
    next(run(tmp_path, settings))
    assert maps_that_moved(fresh(settings), best_parameters(tmp_path / "stage_1_c")) == TEMPLATE_ENCODER


def test_stage_2_freezes_the_configured_parts_and_no_others(tmp_path):
    list(run(tmp_path, config(stage2_freeze=("language",), max_epochs=1)))
    assert moved_in_stage_2(tmp_path) == (OF_STAGE_2 | TEMPLATE_ENCODER) - {"language"}


def test_stage_1_sees_template_pairs_only_and_stage_2_translations(whole, tmp_path):
    fewer = {split: pairs.select(torch.arange(4)) for split, pairs in DATA.splits.items()}
    first, second = untimed(run(tmp_path, config(max_epochs=1), data=replace(DATA, splits=fewer)))
    assert first == untimed(whole[1])[0]
    assert second.steps - first.steps == 1  # 4 pairs, where the whole run has 10 and the templates have more


def test_dev_retrieval_is_of_templates_in_stage_1_and_of_meanings_in_stage_2(tmp_path):
    settings, data = config(monitor="dev_retrieval", max_epochs=1), world("en-de", train=15, dev=40).data
    for epoch, kind, checkpoint, name, pairs in zip(
        run(tmp_path, settings, data=data, seeds=(0,)),
        (TemplateStage, MeaningStage),
        ("stage_1_c", "c"),
        ("template", "meaning"),
        (data.template_pairs["dev"], data.splits["dev"]),
        strict=True,
    ):
        head = kind(WORLD_DIM, 2, settings)
        head.load_state_dict(best_parameters(tmp_path / checkpoint)[0])
        with torch.no_grad():
            sides = [head.embed(PairSampler(data, states=True).text(pairs.text[side])) for side in SIDES]
        accuracy = {
            part: accuracy_by_pair(*(normalize(side[part], dim=-1) for side in sides), pairs.language_pair)
            for part in ("template", "meaning")
        }
        assert accuracy["template"] != accuracy["meaning"], "for this test to say something"
        assert epoch.terms["dev"]["accuracy_at_1"] == pytest.approx((accuracy[name],))


def test_the_curve_numbers_epochs_across_stages_and_prefixes_stage_1_terms(whole):
    _, epochs = whole
    assert [epoch.number for epoch in epochs] == list(range(1, len(epochs) + 1))
    steps = [epoch.steps for epoch in epochs]
    assert steps == sorted(set(steps))
    stages = [is_first(epoch) for epoch in epochs]
    assert stages == sorted(stages, reverse=True)
    assert set(stages) == {True, False}
    of_stage_1 = {"language_identification", "template_reconstruction", "template_contrast"}
    assert set(epochs[0].terms["dev"]) == {f"stage_1_{name}" for name in of_stage_1} | {"total"}
    assert "total" in epochs[-1].terms["train"]
    assert not any(name.startswith("stage_1_") for name in epochs[-1].terms["train"])


def test_each_stage_applies_patience_per_seed(tmp_path):
    epochs = list(run(tmp_path, config(max_epochs=60, learning_rate=0.7)))
    for wanted in (True, False):
        of_stage = [epoch for epoch in epochs if is_first(epoch) == wanted]
        for seed in SEEDS:
            losses = [epoch.terms["dev"]["total"][epoch.seeds.index(seed)] for epoch in of_stage if seed in epoch.seeds]
            assert len(losses) == losses.index(min(losses)) + 1 + 1


@pytest.mark.parametrize("place", [-1, 1], ids=["in stage 1", "in stage 2"])
def test_a_run_that_was_cut_off_in_either_stage_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch, place):
    epochs = untimed(whole[1])
    done = sum(map(is_first, epochs)) + place
    cut = run(tmp_path, config())
    list(itertools.islice(cut, done))
    cut.close()
    computed, original = [], stacked._one_epoch
    monkeypatch.setattr(stacked, "_one_epoch", lambda *given: computed.append(1) or original(*given))
    again = untimed(run(tmp_path, config()))
    assert again == epochs
    assert [epoch.is_replayed for epoch in again] == [number < done for number in range(len(epochs))]
    assert len(computed) == len(epochs) - done
    for name in ("c", "stage_1_c"):
        assert maps_that_moved(best_parameters(tmp_path / name), best_parameters(whole[0] / name)) == set()


def test_term_weights_use_the_names_of_the_curve(tmp_path):
    settings = config(weights={"stage_1_template_contrast": 0.0, "meaning_contrast": 2.0}, max_epochs=1)
    first, second = run(tmp_path, settings)
    for epoch, weights in ((first, {"stage_1_template_contrast": 0.0}), (second, {"meaning_contrast": 2.0})):
        terms = epoch.terms["dev"]
        parts = [
            [weights.get(name, 1.0) * value for value in values] for name, values in terms.items() if name != "total"
        ]
        assert terms["total"] == pytest.approx([sum(values) for values in zip(*parts, strict=True)], abs=1e-5)


def test_the_weights_that_are_saved_are_those_of_stage_2_and_embed(whole, tmp_path):
    settings = config()
    for name in ("c", "stage_1_c"):
        shutil.copy(whole[0] / name, tmp_path / name)
    expected = best_parameters(tmp_path / "c")[1]
    description = {"dim": WORLD_DIM, "languages": DATA.languages, "seeds": SEEDS}
    trainer(TWO_STAGE).save(tmp_path / "c", tmp_path / "w", description)
    assert not (tmp_path / "stage_1_c").exists()
    trained = trainer(TWO_STAGE).load(tmp_path / "w", settings, "cpu")
    assert all(torch.equal(value, expected[name]) for name, value in trained.heads[1].state_dict().items())
    keys = [key.decode() for key in WORLD.vectors["de"].keys[:9]]
    embedded = trained.embed(text_features(keys, (WORLD.vectors["de"], WORLD.states["de"])), 1)
    assert {name: rows.shape for name, rows in embedded.items()} == dict.fromkeys(TWO_STAGE.embeddings, (9, WORLD_DIM))
    assert all(np.isfinite(rows).all() for rows in embedded.values())


def test_a_stage_1_that_has_nothing_to_learn_is_rejected():
    without = ("template_reconstruction", "contrast")
    assert FmdaTwoStageConfig(without=without)
    with pytest.raises(ValueError, match=r"without must leave stage 1 something to learn, found template"):
        FmdaTwoStageConfig(without=without, stage1_train_language=False)
