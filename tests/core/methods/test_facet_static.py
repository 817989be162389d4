"""facet_static: which texts a step has, its losses as loops over texts, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import contrast, mean, one_pool, unit, values
from synthetic import data_with_mates, world

from disent_core.errors import TrainingError
from disent_core.methods.facet import FACET_STATIC, FacetStaticConfig
from disent_core.methods.facet_head import FacetStaticTask, LanguageGroups
from disent_core.methods.lexicon_head import pair_bags
from disent_core.methods.trainer import trainer
from disent_core.targets.parallel_mates import ParallelMateConfig
from disent_core.training.data import TextFeatures, VectorBank
from disent_core.training.epoch import Fit

SMALL = FacetStaticConfig(
    template_units=5, residual_units=3, batch_size=7, epochs=2, languages_per_step=2, temperature=0.3, at_least=1,
    table_rows=1 << 12, neighbours=3,
)  # fmt: skip
PIVOT = replace(SMALL, candidates="other_language")


BY_SOURCE = ParallelMateConfig(draw="by_source")
DATA = data_with_mates(world("en-de", "en-es", "en-ja"), BY_SOURCE)


def task(config=SMALL, data=DATA):
    bags = pair_bags(data, config.table_rows)
    return FacetStaticTask(bags, LanguageGroups.of(data, bags), config, 0)


def parts_of(model, texts):
    """Return template and meaning of texts, by plain sums."""
    parts = []
    for row in model.words(model.data.bags.take(texts)).tolist():
        template, residual = unit(row[: model.config.template_units]), unit(row[model.config.template_units :])
        parts.append({"template": template, "meaning": [value * 0.5**0.5 for value in template + residual]})
    return parts


# --- losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, PIVOT, replace(SMALL, without=("template_contrast",))])
def test_the_losses_equal_loops_over_the_texts_of_a_step(config):
    model = task(config)
    batch = next(batch for batch in model.batches(0) if len(batch.mates))
    terms, count = model.loss(batch)
    assert count == len(batch.utterances)
    groups = torch.cat([batch.utterances, batch.mates])
    sides = [parts_of(model, texts) for texts in groups.unbind(1)]
    meanings, texts = [[part["meaning"] for part in side] for side in sides], groups.T.tolist()
    if config.candidates == "all_languages":
        expected = {"meaning_contrast": one_pool(meanings, texts, config.temperature)}
    else:
        of_pairs = [
            contrast(meanings[0], meanings[side], texts[0], texts[side], config.temperature)
            for side in range(1, len(texts))
        ]
        expected = {"meaning_contrast": mean(of_pairs)}
    if not config.without:
        of_sides = []
        for utterances, mates in zip(batch.utterances.unbind(1), batch.mate_of.unbind(1), strict=True):
            left, right = ([part["template"] for part in parts_of(model, own)] for own in (utterances, mates))
            temperature = config.template_temperature
            of_sides.append(contrast(left, right, utterances.tolist(), mates.tolist(), temperature))
        expected["template_contrast"] = mean(of_sides)
    total = expected["meaning_contrast"] + config.template_weight * expected.get("template_contrast", 0)
    assert values(terms) == pytest.approx({**expected, "total": total}, abs=1e-5)


# --- steps ------------------------------------------------------------------------------------------------


def test_a_step_has_the_same_utterances_in_the_source_language_and_in_others_with_mates_that_all_have():
    model = task()
    texts = {number: text for text, number in texts_by_number().items()}
    batches = model.batches(0)
    assert len({tuple(texts[text].split()[1] for text in batch.utterances[0].tolist()) for batch in batches}) > 1
    for batch in batches:
        for row in [*batch.utterances.tolist(), *batch.mates.tolist()]:
            languages, numbers = zip(*(texts[text].split()[1:3] for text in row), strict=True)
            assert languages[0] == "en"
            assert len(set(languages)) == 3
            assert len(set(numbers)) == 1
        has_mate = (batch.mate_of != batch.utterances).any(dim=1)
        assert batch.mate_of[has_mate].tolist() == batch.mates.tolist()
    assert any(len(batch.mates) for batch in batches)


def texts_by_number():
    """Return the numbers of texts as `pair_bags` counts them: pairs first, then mates."""
    bags = pair_bags(DATA, SMALL.table_rows)
    numbers = {}
    pairs, mates = DATA.utterances["train"], DATA.mates["train"]
    of_row = {int(row): text for own in pairs.values() for row, text in zip(own.rows.tolist(), own.texts, strict=True)}
    for side, name in enumerate(("source", "target")):
        rows = DATA.splits["train"].text[name].tolist()
        numbers |= {
            of_row[row]: number for row, number in zip(rows, bags.pairs["train"][:, side].tolist(), strict=True)
        }
        numbers |= dict(zip(mates.texts[name], bags.mates[:, side].tolist(), strict=True))
    return numbers


def test_an_epoch_has_every_utterance_in_as_many_steps_as_cover_all_languages():
    model = task(replace(SMALL, languages_per_step=1))
    steps = model.batches(0)
    assert sum(len(batch.utterances) for batch in steps) == 3 * len(model.groups.utterances)
    assert {batch.utterances.shape[1] for batch in steps} == {2}


# --- what is refused --------------------------------------------------------------------------------------


def test_pairs_from_several_source_languages_are_refused():
    with pytest.raises(TrainingError, match="begin with several languages"):
        task(data=data_with_mates(world("en-de", "de-es"), BY_SOURCE))


def test_mates_that_differ_from_pair_to_pair_are_refused_with_the_setting_to_change():
    mates = DATA.mates["train"]
    texts = [*mates.texts["source"]]
    texts[0] += " changed"
    changed = replace(mates, texts={**mates.texts, "source": texts})
    with pytest.raises(TrainingError, match='draw = "by_source"'):
        task(data=replace(DATA, mates={"train": changed}))


# --- heads ------------------------------------------------------------------------------------------------


def test_a_head_on_disk_embeds_with_the_configured_norm_of_rows_that_are_not_trained(tmp_path):
    list(trainer(FACET_STATIC).fit(DATA, SMALL, Fit((0,), tmp_path / "run", "run")))
    trainer(FACET_STATIC).save(tmp_path / "run", tmp_path / "head.safetensors", {"seeds": [0]})
    head = trainer(FACET_STATIC).load(tmp_path / "head.safetensors", SMALL, "cpu")
    assert head.words[0].unseen == 0.25
    texts = ["toy en 1", "never seen"]
    features = TextFeatures(VectorBank([torch.zeros(1, 2)]), torch.zeros(2, dtype=torch.int64), texts=texts)
    embedded = head.embed(features, 0)
    assert {name: rows.shape for name, rows in embedded.items()} == {
        "meaning": (2, 8), "template": (2, 5), "residual": (2, 3)
    }  # fmt: skip
    np.testing.assert_allclose(np.linalg.norm(embedded["meaning"], axis=1), 1.0, atol=1e-6)
