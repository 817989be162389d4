"""Stacked seeds are separate runs, cut-off runs are whole runs, the best epoch is kept, an adversary takes turns."""

import itertools
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from safetensors import safe_open
from synthetic import DIM, world

from disent_core.errors import TrainingError
from disent_core.methods.dream import DreamConfig, MeatConfig
from disent_core.methods.dream_head import DreamHead, MeatHead
from disent_core.methods.facet import FacetFirstConfig
from disent_core.methods.facet_head import FacetFirstHead
from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.fmda_head import FmdaHead
from disent_core.training import stacked as training
from disent_core.training.epoch import Fit, curve_table
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import Head, accuracy_at_1, accuracy_by_pair, best_parameters, fit

FMDA_SAMPLER = {"states": True, "masked": True, "draws": ("negative",)}


def dream(**changes):
    """Settings under which a small head learns fast, and overfits soon."""
    return DreamConfig(
        **{"learning_rate": 0.02, "batch_size": 5, "max_epochs": 3, "patience": 3, "checkpoint_seconds": 0.0} | changes
    )


def sampler(*, dev=True):
    data = world().data
    if not dev:
        nothing = data.splits["dev"].select(torch.arange(0))
        data = replace(data, splits={**data.splits, "dev": nothing})
    return PairSampler(data, draws=("partner",))


def run(path, config, seeds=(0, 1), *, name="run", pairs=None, build=None):
    return fit(build or (lambda: DreamHead(DIM, 2, config)), pairs or sampler(), config, Fit(seeds, path, name))


def untimed(epochs):
    return [replace(epoch, seconds=0.0) for epoch in epochs]


def stack(path, prefix):
    with safe_open(path, framework="pt") as file:
        return {key.removeprefix(prefix): file.get_tensor(key) for key in file.keys() if key.startswith(prefix)}


def total(epochs, seed):
    return [epoch.terms["dev"]["total"][epoch.seeds.index(seed)] for epoch in epochs if seed in epoch.seeds]


OVERFITTED, SEEDS = dream(max_epochs=60, learning_rate=0.2, patience=2), (0, 1, 2)
SHRINKING = replace(OVERFITTED, max_epochs=8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    known = {}

    def made_once(config, seeds=(0, 1)):
        if (name := f"{config} {seeds}") not in known:
            path = tmp_path_factory.mktemp("made") / "run"
            known[name] = path, list(run(path, config, seeds))
        return known[name]

    return made_once


@pytest.fixture
def copied(made, tmp_path):
    path, epochs = made(dream())
    return shutil.copytree(path.parent, tmp_path / "copied") / path.name, epochs


@pytest.mark.parametrize("cached", [1, 1_000_000], ids=["one at a time", "all at once"])
def test_stacked_seeds_equal_separate_runs(made, tmp_path, cached, monkeypatch):
    monkeypatch.setattr(training, "_CACHED", cached)
    together = list(run(tmp_path / "together", dream(), (3, 4)))
    stacked = best_parameters(tmp_path / "together")
    for seed in (3, 4):
        path, alone = made(dream(), (seed,))
        assert total(alone, seed) == pytest.approx(total(together, seed), abs=1e-5)
        for name, value in best_parameters(path)[seed].items():
            assert torch.allclose(value, stacked[seed][name], atol=1e-5), name


@pytest.mark.parametrize(
    ("weight_decay", "reference"), [(0.0, torch.optim.Adam), (0.1, torch.optim.AdamW)], ids=["adam", "adamw"]
)
def test_optimiser_steps_equal_those_of_torch(tmp_path, weight_decay, reference):
    config, pairs = dream(weight_decay=weight_decay), sampler()
    list(run(tmp_path / "run", config, (7,), pairs=pairs))
    torch.manual_seed(7)
    head = DreamHead(DIM, 2, config)
    optimiser = reference(head.parameters(), lr=config.learning_rate, weight_decay=weight_decay)
    plan = pairs.plan("dev", 0.1, config.split_seed, "cpu")
    for epoch in range(config.max_epochs):
        for _, batch in plan.training_batches([7], epoch, config.batch_size):
            optimiser.zero_grad()
            sum(head({name: value[0] for name, value in batch.items()}).values()).backward()
            optimiser.step()
    for name, value in stack(tmp_path / "run", "now.").items():
        assert torch.allclose(value[0], head.get_parameter(name), atol=1e-6), name


@pytest.mark.parametrize("done", [1, 7, 8], ids=["first epoch", "a seed has left", "finished"])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(made, tmp_path, done, monkeypatch):
    path, whole = made(SHRINKING, SEEDS)  # a seed leaves the stack after seven epochs
    cut = run(tmp_path / "cut", SHRINKING, SEEDS)
    list(itertools.islice(cut, done))
    cut.close()
    computed, original = [], training._one_epoch
    monkeypatch.setattr(training, "_one_epoch", lambda *given: computed.append(1) or original(*given))
    again = list(run(tmp_path / "cut", SHRINKING, SEEDS))
    assert untimed(again) == untimed(whole)
    assert [epoch.is_replayed for epoch in again] == [number < done for number in range(len(whole))]
    assert len(computed) == len(whole) - done
    for prefix in ("now.", "best.", "first.", "second."):
        expected, actual = stack(path, prefix), stack(tmp_path / "cut", prefix)
        assert all(torch.equal(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "other",
    [{"name": "other data"}, {"config": dream(learning_rate=0.01)}, {"seeds": (1, 0)}],
    ids=["data", "config", "seeds"],
)
def test_a_checkpoint_of_another_run_is_not_used(copied, other):
    path, epochs = copied
    arguments = {"config": dream(), "seeds": (0, 1), "name": "run"} | other
    again = list(run(path, **arguments))
    assert not any(epoch.is_replayed for epoch in again)
    assert (untimed(again) == untimed(epochs)) == ("name" in other)  # nothing but the name is the same run


FOREIGN = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file of nobody."""


def test_a_damaged_checkpoint_is_not_used(copied):
    path, epochs = copied
    content = path.read_bytes()
    for damaged in (b"", b"no safetensors", FOREIGN, content[: len(content) // 2]):
        path.write_bytes(damaged)
        again = list(run(path, dream()))
        assert untimed(again) == untimed(epochs)
        assert not again[0].is_replayed


def test_checkpoints_are_written_no_more_often_than_asked_but_at_the_end(tmp_path):
    epochs = run(tmp_path / "run", dream(checkpoint_seconds=1e6))
    next(epochs)
    assert not (tmp_path / "run").exists()
    list(epochs)
    assert (tmp_path / "run").is_file()


def test_each_seed_stops_after_its_patience_and_marks_every_new_lowest_loss(made):
    _, epochs = made(OVERFITTED, SEEDS)
    trained = {seed: len(total(epochs, seed)) for seed in SEEDS}
    assert len(set(trained.values())) > 1, "the seeds must stop at different epochs for this test to say something"
    for seed in SEEDS:
        losses = total(epochs, seed)
        assert trained[seed] == losses.index(min(losses)) + 1 + OVERFITTED.patience
        assert [seed in epoch.seeds for epoch in epochs] == [number < trained[seed] for number in range(len(epochs))]
        marks = [epoch.is_best[epoch.seeds.index(seed)] for epoch in epochs if seed in epoch.seeds]
        lowest = [float("inf"), *itertools.accumulate(losses, min)]
        assert marks == [loss < before for loss, before in zip(losses, lowest, strict=False)]


def test_best_parameters_are_those_of_each_seeds_best_epoch(made, tmp_path):
    path, epochs = made(OVERFITTED, SEEDS)
    losses = total(epochs, 0)
    best = losses.index(min(losses)) + 1
    assert best < len(losses)
    list(run(tmp_path / "alone", replace(OVERFITTED, max_epochs=best), (0,)))
    for name, value in stack(tmp_path / "alone", "now.").items():
        assert torch.allclose(best_parameters(path)[0][name], value[0], atol=1e-5), name


def naive_accuracies(head, data):
    dev = data.splits["dev"].text
    with torch.no_grad():
        meanings = [head.embed({"vectors": data.vectors.take(dev[side])})["meaning"] for side in ("source", "target")]
    sources, targets = (torch.nn.functional.normalize(meaning, dim=-1) for meaning in meanings)
    hits = [[int((pool @ query).argmax() == i) for i, query in enumerate(queries)]
            for queries, pool in ((sources, targets), (targets, sources))]  # fmt: skip
    return [sum(of_direction) / len(of_direction) for of_direction in hits]


def test_dev_retrieval_averages_meaning_accuracy_over_both_directions(tmp_path):
    data, config, seeds = world(dev=40).data, dream(monitor="dev_retrieval", max_epochs=1), range(4)
    epochs = list(run(tmp_path / "run", config, seeds, pairs=PairSampler(data, draws=("partner",))))
    now, directions = stack(tmp_path / "run", "now."), []
    for index in seeds:
        head = DreamHead(DIM, 2, config)
        head.load_state_dict({name: value[index] for name, value in now.items()})
        directions.append(naive_accuracies(head, data))
    assert any(forth != back for forth, back in directions), "for this test to say something"
    expected = [sum(both) / 2 for both in directions]
    assert epochs[-1].terms["dev"]["accuracy_at_1"] == pytest.approx(expected)


def test_accuracy_by_pair_is_unchanged_by_copies_under_other_languages():
    random = torch.Generator().manual_seed(0)
    source = torch.randn(40, DIM, generator=random)
    sides = [torch.nn.functional.normalize(side) for side in (source, source + torch.randn(40, DIM, generator=random))]
    alone = sum(accuracy_at_1(*way) for way in (sides, sides[::-1])) / 2
    assert accuracy_by_pair(*sides, torch.zeros(40, dtype=torch.int64)) == alone
    copies = [side.repeat(3, 1) for side in sides]
    assert accuracy_by_pair(*copies, torch.arange(3).repeat_interleave(40)) == pytest.approx(alone)
    assert accuracy_at_1(*copies) == pytest.approx(accuracy_at_1(*sides) / 3), "what one pool would give"


def test_monitoring_dev_retrieval_keeps_the_first_epoch_of_the_highest_accuracy(tmp_path):
    config = dream(monitor="dev_retrieval", learning_rate=0.05)
    epochs, ties = list(run(tmp_path / "run", config)), 0
    for index in (0, 1):
        accuracies = [epoch.terms["dev"]["accuracy_at_1"][index] for epoch in epochs]
        ties += accuracies.count(max(accuracies)) - 1
        last_best = max(number for number, epoch in enumerate(epochs) if epoch.is_best[index])
        assert last_best == accuracies.index(max(accuracies))
    assert ties, "for this test to say something"


def test_terms_are_means_over_pairs_whatever_the_batch(tmp_path):
    by_size = {}
    for size in (4, 100):
        config = dream(batch_size=size, max_epochs=1)
        by_size[size] = next(iter(run(tmp_path / str(size), replace(config, learning_rate=1e-9)))).terms["dev"]
    for name, values in by_size[4].items():
        assert values == pytest.approx(by_size[100][name], abs=1e-5)


class Broken(Head):
    """A loss that has no value."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, batch):
        return {"broken": self.scale * batch["source_vectors"].sum() * float("nan")}


def test_non_finite_loss_terms_and_missing_validation_pairs_are_errors(tmp_path):
    with pytest.raises(TrainingError, match=r"'broken' is not finite .*Lower the learning rate"):
        next(iter(run(tmp_path / "run", dream(), build=Broken)))
    with pytest.raises(TrainingError, match=r"0 validation pairs.*dev split, or set validation = 'train_fraction'"):
        next(iter(run(tmp_path / "run", dream(), pairs=sampler(dev=False))))
    assert len(list(run(tmp_path / "run", dream(validation="train_fraction"), pairs=sampler(dev=False)))) > 0


def test_the_curve_has_a_row_for_every_term_of_every_epoch_and_seed(made):
    _, epochs = made(OVERFITTED, SEEDS)
    curve = curve_table(epochs, method="dream", encoder="toy", trained_on="en-de").to_pylist()
    expected = {
        (epoch.number, seed, split, term): values[index]
        for epoch in epochs
        for split, terms in epoch.terms.items()
        for term, values in terms.items()
        for index, seed in enumerate(epoch.seeds)
    }
    assert {(row["epoch"], row["seed"], row["split"], row["term"]): row["value"] for row in curve} == expected
    assert len(curve) == len(expected)


class HalvedConfig(DreamConfig):
    def in_epoch(self, epoch):
        return replace(self, learning_rate=self.learning_rate / 2**epoch)


def test_steps_use_the_learning_rate_of_their_epoch(tmp_path):
    """The second of two epochs, of one step each, moves half as far as it would at the full rate."""
    full = dream(batch_size=50, max_epochs=2)
    ends = {}
    for config in (full, HalvedConfig(**asdict(full))):
        for epochs in (1, 2):
            path = tmp_path / f"{type(config).__name__}{epochs}"
            list(itertools.islice(run(path, config), epochs))
            ends[type(config), epochs] = stack(path, "now.")["meaning.bias"]
    start = ends[DreamConfig, 1]
    assert torch.equal(start, ends[HalvedConfig, 1])
    assert torch.allclose(ends[DreamConfig, 2] - start, 2 * (ends[HalvedConfig, 2] - start), atol=1e-6)


UPDATED = {f"{part}.{kind}" for part in ("discriminator", "meaning", "language") for kind in ("weight", "bias")}


def adversarial(**changes):
    return MeatConfig(
        **{"learning_rate": 0.02, "batch_size": 5, "max_epochs": 2, "patience": 9, "checkpoint_seconds": 0.0} | changes
    )


def run_adversary(path, settings, seeds=(0, 1)):
    sampler = PairSampler(world().data)
    return fit(lambda: MeatHead(DIM, 2, settings), sampler, settings, Fit(seeds, path, "run"))


@pytest.mark.parametrize(("mode", "rate"), [("uniform_ce", None), ("negative_ce", 0.3)])
def test_adversarial_training_equals_two_alternating_torch_optimisers(tmp_path, mode, rate):
    settings = adversarial(adversarial=mode, adversary_learning_rate=rate)
    list(run_adversary(tmp_path / "run", settings, (7,)))
    torch.manual_seed(7)
    head = MeatHead(DIM, 2, settings)
    adversary_adam = torch.optim.Adam(head.discriminator.parameters(), lr=rate or settings.learning_rate)
    maps = torch.optim.Adam([*head.meaning.parameters(), *head.language.parameters()], lr=settings.learning_rate)
    plan = PairSampler(world().data).plan("dev", 0.1, 42, "cpu")
    for epoch in range(settings.max_epochs):
        for _, stacked in plan.training_batches([7], epoch, settings.batch_size):
            batch = {name: value[0] for name, value in stacked.items()}
            for optimiser, loss in ((adversary_adam, adversary_loss), (maps, total_loss)):
                head.zero_grad()
                loss(head, batch).backward()
                optimiser.step()
    for name, value in stack(tmp_path / "run", "now.").items():
        assert torch.allclose(value[0], head.get_parameter(name), atol=1e-6), name


def adversary_loss(head, batch):
    return sum(head.adversary_terms(head.encode(batch)).values())


def total_loss(head, batch):
    return sum(head(batch).values())


def test_reversal_updates_everything_at_once(tmp_path, monkeypatch):
    updates = []
    monkeypatch.setattr(training.TrainingState, "update", lambda state, given, **_: updates.append(given.keys()))
    list(run_adversary(tmp_path / "run", adversarial(max_epochs=1, adversarial="grad_reversal")))
    assert updates == [UPDATED] * 3


SMALL = {"learning_rate": 0.01, "batch_size": 6, "max_epochs": 1}
FACET = FacetFirstConfig(**SMALL, template_units=4, residual_units=3, precision="float32")
OTHERS = {
    "maxima": (FACET, FacetFirstHead, {"states": True, "draws": ("slot_swap",)}),
    "states": (FmdaConfig(**SMALL), FmdaHead, FMDA_SAMPLER),
    "adversary": (adversarial(), MeatHead, {}),
}


@pytest.mark.parametrize(("config", "head", "asked"), OTHERS.values(), ids=OTHERS)
def test_stacked_seeds_of_other_heads_equal_separate_runs(tmp_path, config, head, asked):
    given = {"pairs": PairSampler(world().data, **asked), "build": lambda: head(DIM, 2, config)}
    epochs = list(run(tmp_path / "together", config, (3, 4), **given))
    together = stack(tmp_path / "together", "now.")
    for index, seed in enumerate((3, 4)):
        alone = list(run(tmp_path / str(seed), config, (seed,), **given))
        assert total(alone, seed) == pytest.approx(total(epochs, seed), abs=1e-5)
        for name, value in stack(tmp_path / str(seed), "now.").items():
            assert torch.allclose(value[0], together[name][index], atol=1e-5), name


def test_the_adversarys_loss_is_logged_but_no_part_of_the_total(tmp_path):
    for terms in next(run_adversary(tmp_path / "run", adversarial())).terms.values():
        names = set(terms) - {"total", "discriminator"}
        assert names == {"reconstruction", "cross_reconstruction", "language_repulsion", "adversarial"}
        assert terms["total"] == pytest.approx([sum(values) for values in zip(*(terms[n] for n in names), strict=True)])


@pytest.mark.parametrize("monitor", ["loss", "loss_without_adversarial"])
def test_the_best_epoch_is_that_of_the_monitored_loss(tmp_path, monitor):
    settings = adversarial(monitor=monitor, learning_rate=1.0, max_epochs=3, weights={"adversarial": 3.0})
    epochs = list(run_adversary(tmp_path / "run", settings, (0,)))
    dev = [epoch.terms["dev"] for epoch in epochs]
    scores = {
        "loss": [terms["total"][0] for terms in dev],
        "loss_without_adversarial": [terms["total"][0] - 3 * terms["adversarial"][0] for terms in dev],
    }
    lowest = {name: values.index(min(values)) for name, values in scores.items()}
    assert lowest["loss"] != lowest["loss_without_adversarial"], "for this test to say something"
    assert max(number for number, epoch in enumerate(epochs) if epoch.is_best[0]) == lowest[monitor]
