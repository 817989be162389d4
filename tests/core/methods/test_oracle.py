"""ORACLE's regularisers equal their formulas, written as loops over pairs of rows, over every base."""

from dataclasses import replace

import pytest
import torch
from loops import DIM, LANGUAGES, SIDES, batch_of, cosine, hinge, mean, split, values
from synthetic import world

from disent_core.methods import METHODS, method
from disent_core.methods.dream import draws
from disent_core.methods.oracle import VARIANTS, DreamOracleConfig, MeatOracleConfig, OracleConfig
from disent_core.methods.trainer import trainer
from disent_core.registry import imported
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler

NAMES = ("oracle", "dream_oracle", "meat_oracle")
CONFIGS = {"oracle": OracleConfig, "dream_oracle": DreamOracleConfig, "meat_oracle": MeatOracleConfig}
FORMS = {"hinge": hinge, "abs": abs, "square": lambda value: value**2}
LONE = {"oracle_old": 0, "alone1": 0, "alone2": 2, "alone3": 3, "alone4": 1, "alone5": 3}


def head(name="oracle", **switches):
    torch.manual_seed(0)
    return imported(method(name).head)(DIM, LANGUAGES, CONFIGS[name](**switches)).double()


def batch(model):
    roles = PairSampler(world().data, draws=draws(model.config)).roles if hasattr(model.config, "partner") else SIDES
    return batch_of(*roles)


def rows_of(model, rows, side):
    """Language label, meaning and language embedding of every pair's text, both halves of a halved batch."""
    halves = [side, *([f"{side}_second_half"] if f"{side}_second_half_vectors" in rows else [])]
    labels, meaning, language = [], [], []
    for role in halves:
        _, own_meaning, own_language = split(model.base, rows, role)
        labels += rows[f"{role}_language"].tolist()
        meaning += own_meaning
        language += own_language
    return labels, meaning, language


def loop_intra(model, sides):
    config, total = model.config, 2.0
    for labels, _, language in sides:
        per_row = []
        for i, one in enumerate(language):
            others = [
                cosine(one, other)
                for j, other in enumerate(language)
                if (config.intra_class_scope == "batch" or labels[i] == labels[j])
                and (config.intra_class_diagonal or i != j)
            ]
            per_row.append(mean(others) if others else 1.0)
        total -= mean(per_row)
    return total


def loop_terms(model, rows):
    """What the variants add, from the table of the specification."""
    config, form = model.config, FORMS.get(model.config.separation)
    sides = [rows_of(model, rows, side) for side in SIDES]
    (_, s_m, s_l), (_, t_m, t_l) = sides

    def leakage(default):
        hold = form or FORMS[default]
        return sum(mean([hold(cosine(m, x)) for m, x in zip(*two, strict=True)]) for two in ((s_m, s_l), (t_m, t_l)))

    def languages(default):
        return mean([(form or FORMS[default])(cosine(a, b)) for a, b in zip(s_l, t_l, strict=True)])

    intra, parallel = loop_intra(model, sides), mean([1 - cosine(a, b) for a, b in zip(s_m, t_m, strict=True)])
    old = (intra + parallel, leakage("abs") + languages("hinge"))
    added = {
        "paper": (intra, leakage("hinge")),
        "oracle_new": (intra, languages("hinge")),
        "oracle_abs": (intra, languages("abs")),
        "oracle_old": old,
        "oracle_pair": (intra, None),
        "oracle_orth": (None, languages("hinge")),
        "oracle_main": (None, leakage("hinge") / 2),
        "oracle_all": (None, (leakage("hinge") + languages("hinge")) / 3),
        "alone1": old, "alone2": (None, old[1]), "alone3": (None, old[1]), "alone4": old, "alone5": old,
    }  # fmt: skip
    named = zip(("intra_class", "inter_class"), added[config.variant], strict=True)
    return {name: value for name, value in named if value is not None and name not in config.without}


def check(model):
    rows = batch(model)
    found = {name: value for name, value in values(model(rows)).items() if name in ("intra_class", "inter_class")}
    assert found == pytest.approx(loop_terms(model, rows), abs=1e-9)


@pytest.mark.parametrize("separation", [None, *FORMS])
@pytest.mark.parametrize("variant", [name for name, terms in VARIANTS.items() if not terms.keeps])
def test_every_variant_equals_a_loop_over_pairs(variant, separation):
    check(head(variant=variant, separation=separation))


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("scope", ["same_language", "batch"])
@pytest.mark.parametrize("partner", ["same_language", "random_batch_row", "half_batch"])
def test_clusters_equal_a_loop_over_rows_with_any_partners(partner, scope, diagonal):
    check(head("dream_oracle", partner=partner, intra_class_scope=scope, intra_class_diagonal=diagonal))


@pytest.mark.parametrize(("variant", "base"), [("alone2", "dream_oracle"), ("alone3", "dream_oracle"),
                                               ("alone4", "meat_oracle"), ("alone5", "dream_oracle")])  # fmt: skip
def test_the_authors_lone_objectives_keep_some_terms_of_the_base(variant, base):
    model = head(base, variant=variant)
    check(model)
    kept = set(model(batch(model))) - {"intra_class", "inter_class"}
    assert len(kept) == LONE[variant]


def test_a_lone_objective_that_the_base_lacks_is_rejected():
    with pytest.raises(ValueError, match=r"variant = 'alone4' needs a base with the terms adversarial"):
        OracleConfig(variant="alone4")
    with pytest.raises(ValueError, match=r"variant = 'alone2' needs a base with the terms meaning_parallel"):
        MeatOracleConfig(variant="alone2")


@pytest.mark.parametrize("name", ["dream_oracle", "meat_oracle"])
def test_the_base_keeps_its_terms(name):
    model = head(name)
    rows = batch(model)
    found = model(rows)
    for term, value in model.base(rows).items():
        assert torch.equal(found.pop(term), value)
    assert found.keys() == {"intra_class", "inter_class"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["intra_class", "inter_class"])
def test_either_part_can_be_left_out(name, part):
    model = head(name, without=(part,))
    assert {"intra_class", "inter_class"} - model(batch(model)).keys() == {part}
    check(model)


def test_nothing_to_minimise_and_a_weight_of_an_unknown_term_are_errors(tmp_path):
    nothing = OracleConfig(without=("intra_class", "inter_class"))
    with pytest.raises(ValueError, match="no loss term is left"):
        next(trainer(method("oracle")).fit(world().data, nothing, Fit((0,), tmp_path / "c", "run")))
    config = OracleConfig(weights={"inner_class": 2.0})
    with pytest.raises(ValueError, match=r"weights names \['inner_class'\], but the loss terms are"):
        next(trainer(method("oracle")).fit(world().data, config, Fit((0,), tmp_path / "c", "run")))


def test_weights_multiply_the_named_terms_in_the_total(tmp_path):
    totals = {}
    for weight in (1.0, 5.0):
        config = OracleConfig(weights={"intra_class": weight}, max_epochs=1, learning_rate=1e-9)
        epoch = next(trainer(method("oracle")).fit(world().data, config, Fit((0,), tmp_path / str(weight), "r")))
        totals[weight] = epoch.terms["dev"]
    difference = totals[5.0]["total"][0] - totals[1.0]["total"][0]
    assert difference == pytest.approx(4 * totals[1.0]["intra_class"][0], abs=1e-5)


def test_regularisers_alone_leave_no_gradient_in_what_they_do_not_read():
    model = head("meat_oracle", variant="alone1")
    sum(model(batch(model)).values()).backward()
    reached = {name for name, value in model.named_parameters() if value.grad is not None}
    assert reached == {f"base.{part}.{kind}" for part in ("meaning", "language") for kind in ("weight", "bias")}


@pytest.mark.parametrize("preset", ["paper", "official_code"])
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_trains_on_a_mixture(tmp_path, name, preset):
    model, data = method(name), world("en-de", "en-es").data
    config = replace(model.presets[preset], max_epochs=3, batch_size=7, learning_rate=0.01)
    epochs = list(trainer(model).fit(data, config, Fit((0, 1), tmp_path / "c", "run")))
    assert len({epoch.terms["train"]["total"] for epoch in epochs}) == 3


def test_presets_have_the_published_settings():
    for name in NAMES:
        paper, official = (method(name).presets[preset] for preset in ("paper", "official_code"))
        assert (paper.learning_rate, paper.batch_size, paper.patience, paper.max_epochs) == (1e-5, 512, 10, 10_000)
        assert (paper.variant, paper.intra_class_scope, paper.intra_class_diagonal) == ("paper", "same_language", False)
        assert (official.intra_class_scope, official.intra_class_diagonal) == ("batch", True)
        assert official.variant == ("alone1" if name == "oracle" else "oracle_new")
    assert method("dream_oracle").presets["official_code"].partner == "half_batch"
    assert set(NAMES) < set(METHODS)
