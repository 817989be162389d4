"""Lexicon: its losses equal loops over pairs and candidates, and a head on disk embeds texts without an encoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import contrast, mean, one_pool, unit, values
from safetensors.torch import load_file
from synthetic import data_with_mates, world

from disent_core.methods.lexicon import METHOD, LexiconConfig
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
    """Template, residual and meaning of texts, by plain sums."""
    found = []
    for row in model.words(model.data.bags.take(texts)).tolist():
        parts = row[: model.config.template_units], row[model.config.template_units :]
        template, residual = map(unit, parts)
        found.append({"template": template, "meaning": template + residual})
    return found


# --- losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, PLAIN, replace(SMALL, without=("template_contrast",))])
def test_both_contrasts_equal_loops_over_pairs_and_candidates(config):
    model = task(config, DATA if config is not PLAIN else replace(DATA, mates={}))
    batch = model.batches(0)[0]
    terms, count = model.loss(batch)
    source, target = (texts.tolist() for texts in batch.pairs.unbind(1))
    sides = [facets_of(model, texts) for texts in batch.pairs.unbind(1)]
    meanings = [[one["meaning"] for one in side] for side in sides]
    expected = {"meaning_contrast": contrast(*meanings, source, target, config.temperature)}
    own, mates = range(count), batch.mate_of.tolist()
    if not config.without:
        expected["template_contrast"] = mean([
            contrast(
                [side[i]["template"] for i in own], [side[i]["template"] for i in mates],
                [texts[i] for i in own], [texts[i] for i in mates], config.template_temperature,
            )
            for side, texts in zip(sides, (source, target), strict=True)
        ])  # fmt: skip
    expected["total"] = sum(expected.values())
    assert values(terms) == pytest.approx(expected, abs=1e-5)


def test_translations_are_contrasted_with_the_texts_of_both_languages_if_all_are_candidates():
    config = replace(SMALL, candidates="all_languages")
    model = task(config)
    batch = model.batches(0)[0]
    sides = [[row["meaning"] for row in facets_of(model, texts)] for texts in batch.pairs.unbind(1)]
    expected = one_pool([[unit(row) for row in side] for side in sides], batch.pairs.T.tolist(), config.temperature)
    assert values(model.loss(batch)[0])["meaning_contrast"] == pytest.approx(expected, abs=1e-5)


def test_a_pass_has_every_training_pair_once_with_one_of_its_own_mates():
    model = task()
    seen = []
    for batch in model.batches(3):
        for i, place in enumerate(batch.mate_of.tolist()):
            pair = model.data.pairs["train"].tolist().index(batch.pairs[i].tolist())
            seen.append(pair)
            own = model.data.mates[model.data.mates_of.take(torch.tensor([pair])).values].tolist()
            assert batch.pairs[place].tolist() in own if own else place == i
    assert sorted(seen) == list(range(len(model.data.pairs["train"])))
    assert any(len(batch.pairs) > len(batch.mate_of) for batch in model.batches(3))


def test_mates_are_translations_of_the_pair_that_they_are_numbered_by():
    own = DATA.mates["train"]
    languages = [
        [DATA.languages[int(DATA.splits["train"].language[side][pair])] for pair in own.pair] for side in SIDES
    ]
    assert len(own) > 8
    for source, target, left, right in zip(own.texts["source"], own.texts["target"], *languages, strict=True):
        assert source.split()[1:] == [left, target.split()[2]]
        assert target.split()[1] == right
    assert own.pair.tolist() == sorted(own.pair.tolist())


def test_words_of_dev_and_of_too_few_texts_are_not_trained():
    model = task(replace(SMALL, at_least=4))
    trained_on = torch.cat([model.data.pairs["train"].flatten(), model.data.mates.flatten()]).unique()
    frequency = model.data.bags.take(trained_on).row_frequencies()
    assert torch.equal(model.words.known, (frequency >= 4).nonzero().squeeze(1))
    assert 0 < len(model.words.known) < len(task().words.known)


def test_a_pair_alone_in_its_batch_is_left_out():
    assert [len(batch.mate_of) for batch in task(replace(SMALL, batch_size=23)).batches(0)] == [23]


# --- heads ------------------------------------------------------------------------------------------------


def trained(folder, config=SMALL, data=DATA, seeds=(0, 1)):
    epochs = list(trainer(METHOD).fit(data, config, Fit(seeds, folder / "run", "run")))
    trainer(METHOD).save(folder / "run", folder / "head.safetensors", {"seeds": list(seeds)})
    return epochs, trainer(METHOD).load(folder / "head.safetensors", config, "cpu")


def features(*texts):
    return TextFeatures(VectorBank([torch.zeros(1, 2)]), torch.zeros(len(texts), dtype=torch.int64), texts=texts)


def test_a_head_on_disk_embeds_texts_as_unit_vectors_of_which_the_meaning_has_both(tmp_path):
    _, head = trained(tmp_path)
    embedded = head.embed(features("toy en 1", "never seen"), 1)
    assert {name: values.shape for name, values in embedded.items()} == {
        "meaning": (2, 8), "template": (2, 5), "residual": (2, 3)
    }  # fmt: skip
    for rows in embedded.values():
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    both = np.concatenate([embedded["template"], embedded["residual"]], axis=1) * 0.5**0.5
    np.testing.assert_allclose(embedded["meaning"], both, atol=1e-6)


def test_training_brings_translations_together(tmp_path):
    epochs, _ = trained(tmp_path, replace(SMALL, epochs=30, learning_rate=0.05, temperature=0.05), seeds=(0,))
    assert epochs[-1].terms["train"]["meaning_contrast"][0] < epochs[0].terms["train"]["meaning_contrast"][0] / 3


def test_equal_seeds_give_equal_heads_and_other_seeds_others(tmp_path):
    for name in ("one", "other"):
        trained(tmp_path / name)
    one, other = (load_file(tmp_path / name / "head.safetensors") for name in ("one", "other"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["0.table"], one["1.table"])


def test_any_pair_of_scripts_is_trained_and_needs_texts(tmp_path):
    _, head = trained(tmp_path, seeds=(0,))
    with pytest.raises(ValueError, match="reads texts"):
        head.embed(replace(features("a"), texts=None), 0)
    _, head = trained(tmp_path, seeds=(0,))
    embedded = head.embed(features("明日の天気", "พรุ่งนี้อากาศ", "☂", "مرحبا"), 0)["meaning"]
    assert np.isfinite(embedded).all()
    assert np.linalg.norm(embedded, axis=1) == pytest.approx(1.0)


def test_without_mates_it_reads_no_table_of_them_and_trains_on_translations_alone(tmp_path):
    assert "parallel_mates" not in METHOD.needs_of(PLAIN)
    data = training_data(WORLD.aligned, WORLD.vectors, masked=False, utterances=WORLD.utterances)
    epochs, _ = trained(tmp_path, PLAIN, data, seeds=(0,))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "total"}


def test_a_corpus_without_slots_has_no_mates_and_no_template_contrast(tmp_path):
    data = training_data(
        WORLD.aligned, WORLD.vectors, masked=False, mates=[SCHEMAS["parallel_mates"].empty_table()],
        utterances=WORLD.utterances,
    )  # fmt: skip
    epochs, _ = trained(tmp_path, SMALL, data, seeds=(0,))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "total"}
