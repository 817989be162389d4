"""Lexicon and facet_static: losses equal loops over texts, and heads on disk embed texts without an encoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import contrast, mean, one_pool, unit, values
from synthetic import data_with_mates, world

from disent_core.errors import TrainingError
from disent_core.methods.facet import FACET_STATIC, FacetStaticConfig
from disent_core.methods.facet_head import FacetStaticTask, LanguageGroups
from disent_core.methods.lexicon import METHOD as LEXICON
from disent_core.methods.lexicon import LexiconConfig
from disent_core.methods.lexicon_head import LexiconTask, pair_bags
from disent_core.methods.trainer import trainer
from disent_core.storage.tables import SCHEMAS
from disent_core.targets.parallel_mates import ParallelMateConfig
from disent_core.training.build_data import training_data
from disent_core.training.data import TextFeatures, VectorBank
from disent_core.training.epoch import Fit
from disent_core.training.needs import SIDES

SMALL = LexiconConfig(template_units=5, residual_units=3, batch_size=7, epochs=2, temperature=0.3, at_least=1)
PLAIN = replace(SMALL, without=("parallel_mates",))


WORLD = world("en-de", "en-es")
DATA = data_with_mates(WORLD, ParallelMateConfig())


def task(config=SMALL, data=DATA, seed=0):
    return LexiconTask(pair_bags(data), config, seed)


def facets_of(model, texts):
    facets = []
    for row in model.words(model.data.bags.take(texts)).tolist():
        template, residual = unit(row[: model.config.template_units]), unit(row[model.config.template_units :])
        facets.append({"template": template, "meaning": template + residual})
    return facets


@pytest.mark.parametrize("config", [SMALL, PLAIN, replace(SMALL, without=("template_contrast",))])
def test_both_contrasts_equal_loops_over_pairs_and_candidates(config):
    model = task(config, DATA if config is not PLAIN else replace(DATA, mates={}))
    batch = model.batches(0)[0]
    terms, count = model.loss(batch)
    source, target = (texts.tolist() for texts in batch.pairs.unbind(1))
    sides = [facets_of(model, texts) for texts in batch.pairs.unbind(1)]
    meanings = [[facets["meaning"] for facets in side] for side in sides]
    expected = {"meaning_contrast": contrast(*meanings, source, target, config.temperature)}
    places, mates = range(count), batch.mate_of.tolist()
    if not config.without:
        expected["template_contrast"] = mean([
            contrast(
                [side[i]["template"] for i in places], [side[i]["template"] for i in mates],
                [texts[i] for i in places], [texts[i] for i in mates], config.template_temperature,
            )
            for side, texts in zip(sides, (source, target), strict=True)
        ])  # fmt: skip
    expected["total"] = sum(expected.values())
    assert values(terms) == pytest.approx(expected, abs=1e-5)


def test_all_languages_candidates_include_texts_of_both_sides():
    config = replace(SMALL, candidates="all_languages")
    model = task(config)
    batch = model.batches(0)[0]
    sides = [[row["meaning"] for row in facets_of(model, texts)] for texts in batch.pairs.unbind(1)]
    expected = one_pool(sides, batch.pairs.T.tolist(), config.temperature)
    assert values(model.loss(batch)[0])["meaning_contrast"] == pytest.approx(expected, abs=1e-5)


def test_an_epoch_has_every_training_pair_once_with_one_of_its_mates():
    model, seen = task(), []
    for batch in model.batches(3):
        assert torch.equal(batch.pairs[: len(batch.chosen)], model.data.pairs["train"][batch.chosen])
        seen += batch.chosen.tolist()
        for i, place in enumerate(batch.mate_of.tolist()):
            first, end = model.data.mate_starts[batch.chosen[i] :][:2]
            mates = model.data.mates[first:end].tolist()
            assert batch.pairs[place].tolist() in mates if mates else place == i
    assert sorted(seen) == list(range(len(model.data.pairs["train"])))
    assert any(len(batch.pairs) > len(batch.mate_of) for batch in model.batches(3))


def test_mates_belong_to_the_numbered_pair():
    mates = DATA.mates["train"]
    languages = [
        [DATA.languages[int(DATA.splits["train"].language[side][pair])] for pair in mates.pair] for side in SIDES
    ]
    assert len(mates) > 8
    for source, target, left, right in zip(mates.texts["source"], mates.texts["target"], *languages, strict=True):
        assert source.split()[1:] == [left, target.split()[2]]
        assert target.split()[1] == right
    assert mates.pair.tolist() == sorted(mates.pair.tolist())


def test_dev_words_and_rare_words_are_not_trained():
    model = task(replace(SMALL, at_least=4))
    trained_on = torch.cat([model.data.pairs["train"].flatten(), model.data.mates.flatten()]).unique()
    frequency = model.data.bags.take(trained_on).row_frequencies()
    assert torch.equal(model.words.known, (frequency >= 4).nonzero().squeeze(1))
    assert 0 < len(model.words.known) < len(task().words.known)


def test_a_pair_alone_in_its_batch_is_left_out():
    assert [len(batch.mate_of) for batch in task(replace(SMALL, batch_size=23)).batches(0)] == [23]


def trained(folder, config=SMALL, data=DATA, seeds=(0, 1)):
    epochs = list(trainer(LEXICON).fit(data, config, Fit(seeds, folder / "run", "run")))
    trainer(LEXICON).save(folder / "run", folder / "head.safetensors", {"seeds": list(seeds)})
    return epochs, trainer(LEXICON).load(folder / "head.safetensors", config, "cpu")


def features(*texts):
    return TextFeatures(VectorBank([torch.zeros(1, 2)]), torch.zeros(len(texts), dtype=torch.int64), texts=texts)


def test_a_saved_lexicon_embeds_any_script_as_unit_vectors(tmp_path):
    _, head = trained(tmp_path)
    embedded = head.embed(features("toy en 1", "never seen"), 1)
    assert {name: values.shape for name, values in embedded.items()} == {
        "meaning": (2, 8), "template": (2, 5), "residual": (2, 3)
    }  # fmt: skip
    for rows in embedded.values():
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    both = np.concatenate([embedded["template"], embedded["residual"]], axis=1) * 0.5**0.5
    np.testing.assert_allclose(embedded["meaning"], both, atol=1e-6)
    of_scripts = head.embed(features("明日の天気", "พรุ่งนี้อากาศ", "☂", "مرحبا"), 0)["meaning"]
    assert np.linalg.norm(of_scripts, axis=1) == pytest.approx(1.0)
    assert not np.allclose(head.embed(features("never seen"), 0)["meaning"], embedded["meaning"][1])
    with pytest.raises(ValueError, match="reads texts"):
        head.embed(replace(features("a"), texts=None), 0)


def test_training_brings_translations_together(tmp_path):
    epochs, _ = trained(tmp_path, replace(SMALL, epochs=30, learning_rate=0.05, temperature=0.05), seeds=(0,))
    assert epochs[-1].terms["train"]["meaning_contrast"][0] < epochs[0].terms["train"]["meaning_contrast"][0] / 3


def test_without_mates_or_slots_lexicon_trains_on_translations_only(tmp_path):
    assert "parallel_mates" not in LEXICON.needs_of(PLAIN)
    data = training_data(WORLD.aligned, WORLD.vectors, masked=False, utterances=WORLD.utterances)
    epochs, _ = trained(tmp_path, PLAIN, data, seeds=(0,))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "total"}
    data = training_data(
        WORLD.aligned, WORLD.vectors, masked=False, mates=[SCHEMAS["parallel_mates"].empty_table()],
        utterances=WORLD.utterances,
    )  # fmt: skip
    epochs, _ = trained(tmp_path, SMALL, data, seeds=(0,))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "total"}


STATIC = FacetStaticConfig(
    template_units=5, residual_units=3, batch_size=7, epochs=2, languages_per_step=2, temperature=0.3, at_least=1,
    table_rows=1 << 12, neighbours=3,
)  # fmt: skip
PIVOT = replace(STATIC, candidates="other_language")


BY_SOURCE = ParallelMateConfig(draw="by_source")
SHARED_MATES = data_with_mates(world("en-de", "en-es", "en-ja"), BY_SOURCE)


def static_task(config=STATIC, data=SHARED_MATES):
    bags = pair_bags(data, config.table_rows)
    return FacetStaticTask(bags, LanguageGroups.of(data, bags), config, 0)


@pytest.mark.parametrize("config", [STATIC, PIVOT, replace(STATIC, without=("template_contrast",))])
def test_the_losses_equal_loops_over_the_texts_of_a_step(config):
    model = static_task(config)
    batch = next(batch for batch in model.batches(0) if len(batch.pairs) > len(batch.chosen))
    terms, count = model.loss(batch)
    assert count == len(batch.chosen)
    groups = batch.pairs
    sides = [facets_of(model, texts) for texts in groups.unbind(1)]
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
        for utterances, mates in zip(groups[:count].unbind(1), groups[batch.mate_of].unbind(1), strict=True):
            left, right = ([part["template"] for part in facets_of(model, numbers)] for numbers in (utterances, mates))
            temperature = config.template_temperature
            of_sides.append(contrast(left, right, utterances.tolist(), mates.tolist(), temperature))
        expected["template_contrast"] = mean(of_sides)
    total = expected["meaning_contrast"] + config.template_weight * expected.get("template_contrast", 0)
    assert values(terms) == pytest.approx({**expected, "total": total}, abs=1e-5)


def test_a_step_has_utterances_and_mates_in_all_its_languages():
    model = static_task()
    texts = {number: text for text, number in texts_by_number().items()}
    batches = model.batches(0)
    assert len({tuple(texts[text].split()[1] for text in batch.pairs[0].tolist()) for batch in batches}) > 1
    for batch in batches:
        for row in batch.pairs.tolist():
            languages, numbers = zip(*(texts[text].split()[1:3] for text in row), strict=True)
            assert languages[0] == "en"
            assert len(set(languages)) == 3
            assert len(set(numbers)) == 1
        count = len(batch.chosen)
        assert batch.mate_of[batch.mate_of >= count].tolist() == list(range(count, len(batch.pairs)))
    assert any(len(batch.pairs) > len(batch.chosen) for batch in batches)


def texts_by_number():
    bags = pair_bags(SHARED_MATES, STATIC.table_rows)
    numbers = {}
    pairs, mates = SHARED_MATES.utterances["train"], SHARED_MATES.mates["train"]
    of_row = {
        int(row): text
        for of_language in pairs.values()
        for row, text in zip(of_language.rows.tolist(), of_language.texts, strict=True)
    }
    for side, name in enumerate(("source", "target")):
        rows = SHARED_MATES.splits["train"].text[name].tolist()
        numbers |= {
            of_row[row]: number for row, number in zip(rows, bags.pairs["train"][:, side].tolist(), strict=True)
        }
        numbers |= dict(zip(mates.texts[name], bags.mates[:, side].tolist(), strict=True))
    return numbers


def test_an_epoch_pairs_every_utterance_with_every_language():
    model = static_task(replace(STATIC, languages_per_step=1))
    steps = model.batches(0)
    assert sum(len(batch.chosen) for batch in steps) == 3 * len(model.groups.utterances)
    assert {batch.pairs.shape[1] for batch in steps} == {2}


def test_pairs_from_several_source_languages_are_refused():
    with pytest.raises(TrainingError, match="begin with several languages"):
        static_task(data=data_with_mates(world("en-de", "de-es"), BY_SOURCE))


def test_the_error_of_inconsistent_mates_names_the_setting_to_change():
    mates = SHARED_MATES.mates["train"]
    texts = [*mates.texts["source"]]
    texts[0] += " changed"
    changed = replace(mates, texts={**mates.texts, "source": texts})
    with pytest.raises(TrainingError, match='draw = "by_source"'):
        static_task(data=replace(SHARED_MATES, mates={"train": changed}))


def test_a_saved_head_uses_the_configured_norm_of_untrained_rows(tmp_path):
    list(trainer(FACET_STATIC).fit(SHARED_MATES, STATIC, Fit((0,), tmp_path / "run", "run")))
    trainer(FACET_STATIC).save(tmp_path / "run", tmp_path / "head.safetensors", {"seeds": [0]})
    head = trainer(FACET_STATIC).load(tmp_path / "head.safetensors", STATIC, "cpu")
    assert head.words[0].unseen == 0.25
    embedded = head.embed(features("toy en 1", "never seen"), 0)
    assert {name: rows.shape[1] for name, rows in embedded.items()} == {"meaning": 8, "template": 5, "residual": 3}
    np.testing.assert_allclose(np.linalg.norm(embedded["meaning"], axis=1), 1.0, atol=1e-6)
