"""FMDA equals its formulas, written as loops over pairs, tokens and dimensions with plain floats."""

from dataclasses import replace

import pytest
import torch
from fmda_loops import GROUPS, SIDES, SWITCHES, batch_of_pairs, head, loop_embeddings, loop_terms, texts_of
from loops import values
from synthetic import DIM, world
from torch import nn

from disent_core.matmul import set_precision
from disent_core.methods.fmda import METHOD, FmdaConfig, draws
from disent_core.methods.trainer import trainer
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import best_parameters


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_every_term_equals_a_loop_over_pairs_and_tokens(switches):
    model, batch = head(**switches), batch_of_pairs()
    found = values(model(batch))
    assert found == pytest.approx(loop_terms(model, batch), abs=1e-9)


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_embeddings_equal_attention_with_keys_and_values_of_every_token(switches):
    model, batch = head(**switches), batch_of_pairs()
    found = model.embed(texts_of(batch, "source"))
    for name, rows in found.items():
        expected = [one[name] for one in loop_embeddings(model, batch, "source")]
        assert torch.allclose(rows, torch.tensor(expected, dtype=torch.float64), atol=1e-9), name


@pytest.mark.parametrize("group", GROUPS)
def test_without_leaves_out_the_terms_of_its_group_and_no_other(group):
    batch = batch_of_pairs()
    everything, rest = head()(batch), head(without=(group,))(batch)
    assert set(everything) - set(rest) == GROUPS[group]
    assert all(torch.equal(rest[name], everything[name]) for name in rest)


def more_padding(batch, count, value):
    """The same texts with more padding, and all padding of another value."""
    wider = dict(batch)
    for name in [name for name in batch if "_mask_" in name]:
        states = name.replace("_mask_", "_states_")
        wider[name] = nn.functional.pad(batch[name], (0, count))
        padded = nn.functional.pad(batch[states], (0, 0, 0, count))
        wider[states] = padded.masked_fill(~wider[name].unsqueeze(-1), value)
    return wider


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_padding_never_matters(switches):
    model, batch = head(**switches), batch_of_pairs()
    expected = values(model(batch))
    padded = model(more_padding(batch, 4, 100.0))
    assert values(padded) == pytest.approx(expected, abs=1e-9)


def test_gradients_reach_every_parameter_of_the_paper_preset_but_the_keys_bias():
    model = head()
    sum(model(batch_of_pairs()).values()).backward()
    still = {name for name, value in model.named_parameters() if value.grad is None or not value.grad.abs().sum() > 0}
    assert still == {"attention.key.bias"}


def test_the_paper_preset_has_the_papers_settings():
    paper = METHOD.presets["paper"]
    assert (paper.learning_rate, paper.batch_size, paper.patience) == (1e-4, 512, 15)
    assert paper == replace(FmdaConfig(), monitor="dev_retrieval")
    assert METHOD.presets["hinge"] == replace(paper, contrast="hinge", learning_rate=1e-3)


def test_bfloat16_products_move_no_term_by_more_than_their_rounding():
    model, batch = head().float(), batch_of_pairs()
    single = {name: value.float() if value.is_floating_point() else value for name, value in batch.items()}
    expected = values(model(single))
    set_precision(model, "bfloat16")
    found = values(model(single))
    assert found == pytest.approx(expected, abs=0.05)
    assert found != pytest.approx(expected, abs=1e-6)


def test_negatives_are_drawn_only_where_something_is_contrasted():
    assert draws(FmdaConfig()) == ("negative",)
    assert draws(FmdaConfig(without=("contrast",))) == ()


# --- several language pairs: batches mix them, and every language has its own label and negatives -----------

MIXTURES = [("en-de", "en-es"), ("en-de", "en-es", "en-ja")]


def language_pairs(batch):
    """(source, target) languages of the pairs of each seed."""
    by_seed = (batch[f"{side}_language"].tolist() for side in SIDES)
    return [set(zip(*own, strict=True)) for own in zip(*by_seed, strict=True)]


@pytest.mark.parametrize("pairs", MIXTURES, ids="+".join)
def test_a_batch_mixes_the_pairs_of_an_epoch_that_has_all_of_them(pairs):
    data = world(*pairs, train=40).data
    plan = PairSampler(data).plan("dev", 0.1, 42, "cpu")
    batches = [batch for _, batch in plan.training_batches([0, 1], 0, 40)]
    expected = {tuple(map(data.languages.index, pair.split("-"))) for pair in pairs}
    assert language_pairs(batches[0]) == [expected, expected]
    rows = torch.cat([batch["source_language"] for batch in batches], dim=1)
    assert rows.shape == (2, 40 * len(pairs))
    assert len(plan.dev) == 6 * len(pairs)


@pytest.mark.parametrize("pairs", MIXTURES, ids="+".join)
def test_one_model_knows_all_languages_of_the_mixture(pairs, tmp_path):
    data = world(*pairs).data
    config = FmdaConfig(max_epochs=1, batch_size=64, monitor="dev_retrieval")
    epochs = list(trainer(METHOD).fit(data, config, Fit((0,), tmp_path / "c", "mixture")))
    assert 0 <= epochs[0].terms["dev"]["accuracy_at_1"][0] <= 1
    assert best_parameters(tmp_path / "c")[0]["identity.weight"].shape == (len(pairs) + 1, DIM)
