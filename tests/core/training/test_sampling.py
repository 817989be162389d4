"""What is drawn: every pair once an epoch, and partners that are of the language but never the text itself."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import world

from disent_core.errors import TrainingError
from disent_core.training.sampling import PairSampler, draw_slot_swaps, draw_texts, next_of_its_language

SIDES = ("source", "target")


def plan(data=None, *, validation="dev", fraction=0.25, split_seed=42, **asked):
    return PairSampler(data or world().data, **asked).plan(validation, fraction, split_seed, "cpu")


def rows_of(vectors, bank):
    everything = torch.cat(bank.parts)
    return [int((everything == vector).all(dim=1).nonzero()) for vector in vectors]


def epoch_rows(batch_plan, seeds, epoch, batch_size=5, name="source_vectors"):
    batches = [batch[name] for _, batch in batch_plan.training_batches(seeds, epoch, batch_size)]
    stacked = torch.cat(batches, dim=1)
    return [rows_of(vectors, batch_plan.sampler.data.vectors) for vectors in stacked]


def test_an_epoch_has_each_pair_once_for_each_seed_with_its_source_and_target_together():
    batch_plan = plan()
    pairs = sorted(zip(*(batch_plan.train.text[side].tolist() for side in SIDES), strict=True))
    sides = (epoch_rows(batch_plan, [0, 1], 0, name=f"{side}_vectors") for side in SIDES)
    assert [sorted(zip(*of_seed, strict=True)) for of_seed in zip(*sides, strict=True)] == [pairs, pairs]


def test_the_last_smaller_batch_can_be_dropped_unless_it_is_the_only_one():
    sizes = [(rows, len(batch["source_vectors"][0])) for rows, batch in plan().training_batches([0], 0, 5)]
    assert sizes == [(5, 5), (5, 5), (2, 2)]
    batch_plan = plan()
    sizes = [[rows for rows, _ in batch_plan.training_batches([0], 0, size, drop_last=True)] for size in (5, 6, 50)]
    assert sizes == [[5, 5], [6, 6], [12]]


def test_seeds_and_epochs_see_different_orders():
    batch_plan = plan()
    orders = [*epoch_rows(batch_plan, [0, 1], 0), *epoch_rows(batch_plan, [0, 1], 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_draws_of_a_seed_do_not_depend_on_other_seeds_or_batch_size():
    batch_plan = plan(draws=("partner",))
    for name in ("source_vectors", "target_partner_vectors"):
        (alone,) = epoch_rows(batch_plan, [1], 4, name=name)
        assert epoch_rows(batch_plan, [0, 1, 2], 4, name=name)[1] == alone
        for size in (3, 50):
            assert epoch_rows(batch_plan, [1], 4, batch_size=size, name=name) == [alone]


def test_validation_batches_are_the_same_but_for_draws_that_depend_on_the_epoch():
    batch_plan = plan(draws=("partner",), states=True, masked=True)
    first, second = (list(batch_plan.validation_batches(4)) for _ in range(2))
    assert [rows for rows, _ in first] == [4, 2]
    for (_, batch), (_, again) in zip(first, second, strict=True):
        assert batch.keys() == again.keys()
        assert all(torch.equal(batch[name], again[name]) for name in batch)
    batch_plan = plan(draws=("partner",))
    epochs = [next(batch_plan.validation_batches(6, epoch))[1] for epoch in (0, 0, 1)]
    for name, changes in (("source_vectors", False), ("source_partner_vectors", True)):
        assert torch.equal(epochs[0][name], epochs[1][name])
        assert torch.equal(epochs[0][name], epochs[2][name]) != changes


def test_role_vectors_stack_the_texts_of_a_step_in_role_order():
    batch_plan = plan(draws=("other_pair", "partner"))
    _, batch = next(batch_plan.training_batches([0, 1], 0, 5))
    roles = ("source", "target", "source_other_pair", "target_other_pair", "source_partner", "target_partner")
    assert batch_plan.sampler.roles == roles
    for index, role in enumerate(roles):
        assert torch.equal(batch["role_vectors"][:, index], batch[f"{role}_vectors"])
    vectors = batch_plan.sampler.data.vectors.take(batch["role_texts"].flatten())
    assert torch.equal(vectors, batch["role_vectors"].flatten(0, 2))


def test_validation_texts_are_those_of_the_dev_split_in_order():
    batch_plan = plan()
    for side in SIDES:
        blocks = [batch["vectors"] for batch in batch_plan.validation_texts(side, batch_size=4)]
        assert rows_of(torch.cat(blocks), batch_plan.sampler.data.vectors) == batch_plan.dev.text[side].tolist()


LARGE = world(train=40, dev=2).data


@settings(max_examples=25, deadline=None)
@given(st.integers(10, 40), st.floats(0.01, 0.9), st.integers(0, 5))
def test_a_validation_fraction_and_the_rest_are_the_training_pairs(count, fraction, split_seed):
    data = replace(LARGE, splits={**LARGE.splits, "train": LARGE.splits["train"].select(torch.arange(count))})
    batch_plan = plan(data, validation="train_fraction", fraction=fraction, split_seed=split_seed)
    train, dev = batch_plan.train.text["source"].tolist(), batch_plan.dev.text["source"].tolist()
    assert sorted(train + dev) == sorted(data.splits["train"].text["source"].tolist())
    assert not set(train) & set(dev)
    assert len(dev) == max(1, round(fraction * count))


def test_the_split_seed_alone_fixes_the_validation_fraction():
    def held_out(split_seed):
        return plan(validation="train_fraction", split_seed=split_seed).dev.text["source"].tolist()

    assert held_out(1) == held_out(1)
    assert len({tuple(sorted(held_out(split_seed))) for split_seed in range(5)}) > 1


def test_all_training_pairs_held_out_is_an_error():
    data = world().data
    single_pair = replace(data, splits={**data.splits, "train": data.splits["train"].select(torch.arange(1))})
    with pytest.raises(TrainingError, match="0 training and 1 validation pairs"):
        plan(single_pair, validation="train_fraction")


def test_other_pairs_are_training_pairs_except_the_anchor_pair():
    batch_plan = plan(world("en-de", "en-es").data, draws=("other_pair",))
    pairs = set(zip(batch_plan.train.text["source"].tolist(), batch_plan.train.text["target"].tolist(), strict=True))
    languages = set()
    for epoch in range(4):
        rows = {
            role: epoch_rows(batch_plan, [0], epoch, name=f"{role}_vectors")[0]
            for role in ("source", "target", "source_other_pair", "target_other_pair")
        }
        others = list(zip(rows["source_other_pair"], rows["target_other_pair"], strict=True))
        assert set(others) <= pairs
        assert all(
            other != pair for other, pair in zip(others, zip(rows["source"], rows["target"], strict=True), strict=True)
        )
        start = batch_plan.sampler.data.vectors.starts[2].item()
        languages |= {(a >= start, b >= start) for a, b in zip(rows["target"], rows["target_other_pair"], strict=True)}
    assert len(languages) == 4, "of any language, whatever the anchor's"


def test_second_half_draws_pair_the_first_half_with_the_second():
    data = world("en-de", "en-es").data
    whole, halved = plan(data), plan(data, draws=("second_half",))
    for (count, batch), (pairs, half) in zip(
        whole.training_batches([0, 1], 0, 7), halved.training_batches([0, 1], 0, 7), strict=True
    ):
        assert pairs == count // 2
        for side in SIDES:
            for name in ("vectors", "language"):
                assert torch.equal(half[f"{side}_{name}"], batch[f"{side}_{name}"][:, :pairs])
                second = batch[f"{side}_{name}"][:, pairs : 2 * pairs]
                assert torch.equal(half[f"{side}_second_half_{name}"], second)
    assert [pairs for pairs, _ in plan(draws=("second_half",)).training_batches([0], 0, 11)] == [5]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_next_of_its_language_cycles_through_the_language(labels):
    following = next_of_its_language(torch.tensor([labels]))[0].tolist()
    for row, label in enumerate(labels):
        seen, at = [], row
        for _ in labels:
            at = following[at]
            seen.append(at)
            if at == row:
                break
        assert sorted(seen) == [i for i, other in enumerate(labels) if other == label]


def test_the_next_in_a_batch_is_any_other_pair_over_time():
    batch_plan, met = plan(draws=("next_in_batch",)), set()
    for epoch in range(60):
        for count, batch in batch_plan.training_batches([0], epoch, 5):
            vectors, following = batch["source_vectors"][0], batch["source_next_in_batch"][0]
            assert count == 1 or (following != torch.arange(count)).all()
            rows = rows_of(vectors, batch_plan.sampler.data.vectors)
            met |= {(rows[i], rows[j]) for i, j in enumerate(following.tolist())}
    assert len(met) == len(batch_plan.train) * (len(batch_plan.train) - 1)


@pytest.mark.parametrize(("draw", "pool"), [("partner", "sentences"), ("negative", "negatives")])
def test_draws_are_of_the_language_and_the_pool_but_never_the_anchor(draw, pool):
    data = world("en-de", "en-es").data
    batch_plan = plan(data, draws=(draw,))
    pools = [set(rows.tolist()) for rows in getattr(data, pool)]
    for epoch in range(6):
        for side in SIDES:
            anchors = epoch_rows(batch_plan, [0], epoch, name=f"{side}_vectors")[0]
            drawn = epoch_rows(batch_plan, [0], epoch, name=f"{side}_{draw}_vectors")[0]
            languages = [
                int(x) for _, batch in batch_plan.training_batches([0], epoch, 5) for x in batch[f"{side}_language"][0]
            ]
            assert all(anchor != other for anchor, other in zip(anchors, drawn, strict=True))
            assert all(text in pools[language] for text, language in zip(drawn, languages, strict=True))


def test_source_and_target_negatives_are_independent():
    batch_plan = plan(draws=("negative",))
    start = batch_plan.sampler.data.vectors.starts[1].item()
    sources, targets = (epoch_rows(batch_plan, [0], 0, name=f"{side}_negative_vectors")[0] for side in SIDES)
    assert len({(a, b - start) for a, b in zip(sources, targets, strict=True)}) > len(set(sources))


def draw(pools, language, anchors, seed=0):
    tensors = [torch.tensor(pool, dtype=torch.long) for pool in pools]
    generator = torch.Generator().manual_seed(seed)
    names = [f"language{number}" for number in range(len(pools))]
    rows = torch.tensor(language), torch.tensor(anchors)
    return draw_texts(tensors, *rows, generator, draw="partner", names=names).tolist()


@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.integers(0, 1_000), st.data())
def test_a_draw_is_a_different_text_from_the_pool_of_the_anchor(sizes, seed, data):
    pools, start = [], 0
    for size in sizes:
        pools.append(list(range(start, start + size)))
        start += size
    language = data.draw(st.lists(st.integers(0, len(pools) - 1), min_size=1, max_size=30))
    anchors = [data.draw(st.sampled_from(pools[label])) for label in language]
    drawn = draw(pools, language, anchors, seed)
    assert all(
        text in pools[label] and text != anchor for text, label, anchor in zip(drawn, language, anchors, strict=True)
    )
    assert drawn == draw(pools, language, anchors, seed)


def test_draws_are_uniform_over_the_other_texts_of_the_pool():
    rows, pools = 8_000, [[7, 8], [10, 11, 12, 13, 14]]
    drawn = draw(pools, [1] * rows, [12] * rows)
    counts = [drawn.count(text) for text in (10, 11, 13, 14)]
    assert sum(counts) == rows
    chi_square = sum((count - rows / 4) ** 2 / (rows / 4) for count in counts)
    assert chi_square < 16.3  # 99.9 % point for 3 degrees of freedom


def test_anchors_outside_the_pool_draw_any_text_and_unused_pools_may_be_empty():
    assert set(draw([[1, 2, 3]], [0] * 200, [99] * 200)) == {1, 2, 3}
    assert draw([[1, 2], []], [0], [1]) == [2]


@pytest.mark.parametrize(("pool", "message"), [
    ([5], r"language1 has just one partner, the anchor itself\. Add sentences"),
    ([], r"no partner to draw\. .* language0 2, language1 0\..*negatives\.threshold"),
])  # fmt: skip
def test_a_language_without_another_text_is_an_error_with_a_remedy(pool, message):
    with pytest.raises(TrainingError, match=message):
        draw([[1, 2], pool], [0, 1], [1, 5])


def test_slot_swaps_are_targets_of_the_anchors_template_pairs_or_the_anchor_itself():
    data = world().data
    batch_plan = plan(data, draws=("slot_swap",))
    pairs = [(pairs.text["source"].tolist(), pairs.text["target"].tolist()) for pairs in data.template_pairs.values()]
    target = {source: target for sources, targets in pairs for source, target in zip(sources, targets, strict=True)}
    for batches in (batch_plan.training_batches([0], 0, 5), batch_plan.validation_batches(5)):
        for _, batch in batches:
            source, target_side, *slot_swaps = (
                batch["role_texts"].view(-1, 4, batch["role_texts"].shape[-1])[0].tolist()
            )
            for anchors, drawn in zip((source, target_side), slot_swaps, strict=True):
                assert drawn == [target.get(anchor, anchor) for anchor in anchors]


def test_every_slot_swap_of_a_text_is_drawn_and_without_template_pairs_is_an_error():
    pairs = plan().train.select(torch.arange(4))
    text = {"source": torch.tensor([7, 3, 7, 7]), "target": torch.tensor([70, 30, 71, 72])}
    drawn = draw_slot_swaps(
        [replace(pairs, text=text)], torch.tensor([7] * 200 + [3, 5, 9]), torch.Generator().manual_seed(0)
    ).tolist()
    assert set(drawn[:200]) == {70, 71, 72}
    assert drawn[200:] == [30, 5, 9]
    data = replace(world().data, template_pairs={})
    with pytest.raises(TrainingError, match="there are no template pairs"):
        next(plan(data, draws=("slot_swap",)).training_batches([0], 0, 5))
