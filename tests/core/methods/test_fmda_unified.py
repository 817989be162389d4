"""One FMDA for several language pairs: batches mix them, and every language has its own label and negatives."""

import pytest
import torch
from synthetic import DIM, world

from disent_core.methods.fmda import METHOD, FmdaConfig
from disent_core.methods.trainer import trainer
from disent_core.training.epoch import Fit
from disent_core.training.needs import SIDES
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import best_parameters

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
def test_a_language_that_is_in_every_pair_has_one_pool_without_duplicates(pairs):
    one, mixed = world("en-de").data, world(*pairs).data
    english = mixed.languages.index("en")
    assert len(mixed.negatives[english]) == len(mixed.negatives[english].unique())
    assert len(mixed.negatives[english]) == len(one.negatives[one.languages.index("en")])
    starts = mixed.vectors.starts.tolist()
    for label, pool in enumerate(mixed.negatives):
        assert ((pool >= starts[label]) & (pool < starts[label + 1])).all()


@pytest.mark.parametrize("pairs", MIXTURES, ids="+".join)
def test_one_model_knows_all_languages_of_the_mixture(pairs, tmp_path):
    data = world(*pairs).data
    config = FmdaConfig(max_epochs=1, batch_size=64, monitor="dev_retrieval")
    epochs = list(trainer(METHOD).fit(data, config, Fit((0,), tmp_path / "c", "mixture")))
    assert 0 <= epochs[0].terms["dev"]["accuracy_at_1"][0] <= 1
    assert best_parameters(tmp_path / "c")[0]["identity.weight"].shape == (len(pairs) + 1, DIM)
