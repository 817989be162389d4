"""DREAM, MEAT and ORACLE equal their formulas, written as loops over pairs and dimensions with plain floats."""

from dataclasses import replace

import pytest
import torch
from loops import (
    DIM,
    LANGUAGES,
    PAIRS,
    SIDES,
    batch_of,
    cosine,
    cross_entropy,
    hinge,
    mean,
    plus,
    split,
    through,
    values,
)
from synthetic import world

from disent_core.methods import method
from disent_core.methods.dream import METHOD as DREAM
from disent_core.methods.dream import DreamConfig, MeatConfig, draws
from disent_core.methods.dream_head import DreamHead, MeatHead
from disent_core.methods.oracle import VARIANTS, DreamOracleConfig, MeatOracleConfig, OracleConfig
from disent_core.methods.trainer import trainer
from disent_core.registry import imported
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler

GROUPS = {
    "language": {"language_embedding", "language_identification"},
    "meaning": {"meaning_parallel", "meaning_random"},
}
PARTNERS = {  # of the meaning loss, of the language loss
    "same_language": ("partner", "partner"),
    "random_batch_row": ("other_pair", "partner"),
    "half_batch": ("second_half", "second_half"),
    "next_in_batch": ("next", "next"),
}


def dream(**switches) -> DreamHead:
    torch.manual_seed(0)
    return DreamHead(DIM, LANGUAGES, DreamConfig(**switches)).double()


def dream_batch(model: DreamHead):
    rows = batch_of(*PairSampler(world().data, draws=draws(model.config)).roles)
    if model.config.partner == "next_in_batch":
        for side in SIDES:
            following = torch.arange(PAIRS).roll(-1)
            rows |= {f"{side}_next_in_batch": following, f"{side}_next_vectors": rows[f"{side}_vectors"][following]}
    return rows


def dream_terms(model: DreamHead, rows) -> dict[str, float]:
    meaning_partner, language_partner = PARTNERS[model.config.partner]
    terms = dict.fromkeys(("reconstruction", *GROUPS["language"], *GROUPS["meaning"], "language_repulsion"), 0.0)
    parts = {
        role: split(model, rows, role)
        for side in SIDES
        for role in (side, *(f"{side}_{kind}" for kind in set(PARTNERS[model.config.partner])))
    }
    for i in range(PAIRS):
        terms["meaning_parallel"] += (1 - cosine(parts["source"][1][i], parts["target"][1][i])) / PAIRS
        terms["language_repulsion"] += hinge(cosine(parts["source"][2][i], parts["target"][2][i])) / PAIRS
        for side in SIDES:
            e, meaning, language = (part[i] for part in parts[side])
            terms["reconstruction"] += (
                sum((a - (b + c)) ** 2 for a, b, c in zip(e, meaning, language, strict=True)) / DIM / PAIRS
            )
            random = parts[f"{side}_{meaning_partner}"][1][i], parts[f"{side}_{language_partner}"][2][i]
            terms["meaning_random"] += hinge(cosine(meaning, random[0])) / PAIRS
            terms["language_embedding"] += (1 - cosine(language, random[1])) / PAIRS
            label = int(rows[f"{side}_language"][i])
            terms["language_identification"] += cross_entropy(through(model.identity, language), label) / PAIRS
    left_out = set().union(*(GROUPS[group] for group in model.config.without))
    left_out |= set() if model.config.language_repulsion else {"language_repulsion"}
    return {name: value for name, value in terms.items() if name not in left_out}


SWITCHES = [
    {"language_repulsion": True},
    *({"without": groups} for groups in (("language",), ("meaning",), ("language", "meaning"))),
    *({"partner": partner} for partner in PARTNERS),
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_every_term_of_dream_equals_a_loop_over_pairs(switches):
    model = dream(**switches)
    rows = dream_batch(model)
    assert values(model(rows)) == pytest.approx(dream_terms(model, rows), abs=1e-9)


@pytest.mark.parametrize("preset", DREAM.presets)
def test_gradients_reach_every_parameter_of_each_preset(preset):
    model = dream(partner=DREAM.presets[preset].partner)
    sum(model(dream_batch(model)).values()).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in model.parameters())


MODES = ("uniform_ce", "grad_reversal", "negative_ce")


def meat(**switches) -> MeatHead:
    torch.manual_seed(0)
    return MeatHead(DIM, LANGUAGES, MeatConfig(**switches)).double()


def distance(kind, actual, wanted):
    if kind == "cosine":
        return 1 - cosine(actual, wanted)
    return mean([(a - b) ** 2 for a, b in zip(actual, wanted, strict=True)])


def meat_terms(model: MeatHead, batch) -> dict[str, float]:
    parts, kind = {side: split(model, batch, side) for side in SIDES}, model.config.reconstruction
    terms = dict.fromkeys(("reconstruction", "cross_reconstruction", "language_repulsion", "adversarial"), 0.0)
    for i in range(PAIRS):
        (e_s, s_m, s_l), (e_t, t_m, t_l) = ([part[i] for part in parts[side]] for side in SIDES)
        terms["reconstruction"] += (distance(kind, plus(s_m, s_l), e_s) + distance(kind, plus(t_m, t_l), e_t)) / PAIRS
        crossed = distance(kind, plus(s_m, t_l), e_t) + distance(kind, plus(t_m, s_l), e_s)
        terms["cross_reconstruction"] += crossed / PAIRS
        terms["language_repulsion"] += hinge(cosine(s_l, t_l)) / PAIRS
        for side, meaning in (("source", s_m), ("target", t_m)):
            logits, label = through(model.discriminator, meaning), int(batch[f"{side}_language"][i])
            to_uniform = mean([cross_entropy(logits, language) for language in range(LANGUAGES)])
            owed = {
                "uniform_ce": to_uniform,
                "grad_reversal": cross_entropy(logits, label),
                "negative_ce": -cross_entropy(logits, label),
            }
            terms["adversarial"] += owed[model.config.adversarial] / PAIRS
    return terms


@pytest.mark.parametrize("reconstruction", ["cosine", "mse"])
@pytest.mark.parametrize("adversarial", MODES)
def test_every_term_of_meat_equals_a_loop_over_pairs(adversarial, reconstruction):
    model, batch = meat(adversarial=adversarial, reconstruction=reconstruction), batch_of(*SIDES)
    assert values(model(batch)) == pytest.approx(meat_terms(model, batch), abs=1e-9)


def test_the_discriminator_minimises_its_cross_entropy():
    model, batch = meat(), batch_of(*SIDES)
    expected = sum(
        cross_entropy(through(model.discriminator, meaning), int(label)) / PAIRS
        for side in SIDES
        for meaning, label in zip(split(model, batch, side)[1], batch[f"{side}_language"], strict=True)
    )
    assert values(model.adversary_terms(model.encode(batch))) == pytest.approx({"discriminator": expected})


def gradients(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    derivatives = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: value for name, value in zip(names, derivatives, strict=True) if value is not None}


def test_gradient_reversal_negates_the_gradient_of_the_maps_only():
    batch = batch_of(*SIDES)
    reversed_, negative = meat(adversarial="grad_reversal"), meat(adversarial="negative_ce")
    actual = gradients(reversed_, reversed_(batch)["adversarial"])
    expected = gradients(negative, negative(batch)["adversarial"])
    assert actual.keys() == expected.keys() > {"discriminator.weight", "meaning.weight"}
    for name, value in expected.items():
        sign = -1 if name.startswith("discriminator") else 1
        assert torch.allclose(actual[name], sign * value), name


def test_gradient_reversal_has_no_adversary_to_train():
    with pytest.raises(ValueError, match=r"adversary_learning_rate has no effect with adversarial = 'grad_reversal'"):
        MeatConfig(adversarial="grad_reversal", adversary_learning_rate=1e-4)


NAMES = ("oracle", "dream_oracle", "meat_oracle")
CONFIGS = {"oracle": OracleConfig, "dream_oracle": DreamOracleConfig, "meat_oracle": MeatOracleConfig}
FORMS = {"hinge": hinge, "abs": abs, "square": lambda value: value**2}


def oracle(name="oracle", **switches):
    torch.manual_seed(0)
    return imported(method(name).head)(DIM, LANGUAGES, CONFIGS[name](**switches)).double()


def oracle_batch(model):
    roles = PairSampler(world().data, draws=draws(model.config)).roles if hasattr(model.config, "partner") else SIDES
    return batch_of(*roles)


def rows_of_side(model, rows, side):
    """Language label, meaning and language embedding of every pair's text, both halves of a halved batch."""
    halves = [side, *([f"{side}_second_half"] if f"{side}_second_half_vectors" in rows else [])]
    labels, meaning, language = [], [], []
    for role in halves:
        _, role_meaning, role_language = split(model.base, rows, role)
        labels += rows[f"{role}_language"].tolist()
        meaning += role_meaning
        language += role_language
    return labels, meaning, language


def loop_intra(model, sides):
    config, total = model.config, 2.0
    for labels, _, language in sides:
        per_row = []
        for i, vector in enumerate(language):
            others = [
                cosine(vector, other)
                for j, other in enumerate(language)
                if (config.intra_class_scope == "batch" or labels[i] == labels[j])
                and (config.intra_class_diagonal or i != j)
            ]
            per_row.append(mean(others) if others else 1.0)
        total -= mean(per_row)
    return total


def oracle_terms(model, rows):
    """What the variants add, from the table of the specification."""
    config, form = model.config, FORMS.get(model.config.separation)
    sides = [rows_of_side(model, rows, side) for side in SIDES]
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
    rows = oracle_batch(model)
    actual = {name: value for name, value in values(model(rows)).items() if name in ("intra_class", "inter_class")}
    assert actual == pytest.approx(oracle_terms(model, rows), abs=1e-9)


@pytest.mark.parametrize("separation", [None, *FORMS])
@pytest.mark.parametrize("variant", [name for name, terms in VARIANTS.items() if not terms.keeps])
def test_every_variant_equals_a_loop_over_pairs(variant, separation):
    check(oracle(variant=variant, separation=separation))


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("scope", ["same_language", "batch"])
@pytest.mark.parametrize("partner", ["same_language", "random_batch_row", "half_batch"])
def test_cluster_terms_equal_a_loop_for_every_partner_setting(partner, scope, diagonal):
    check(oracle("dream_oracle", partner=partner, intra_class_scope=scope, intra_class_diagonal=diagonal))


@pytest.mark.parametrize(
    ("variant", "base", "kept"),
    [("alone2", "dream_oracle", 2), ("alone3", "dream_oracle", 3), ("alone4", "meat_oracle", 1),
     ("alone5", "dream_oracle", 3)],
)  # fmt: skip
def test_single_objective_variants_keep_some_base_terms(variant, base, kept):
    model = oracle(base, variant=variant)
    check(model)
    assert len(set(model(oracle_batch(model))) - {"intra_class", "inter_class"}) == kept


def test_a_lone_objective_that_the_base_lacks_is_rejected():
    with pytest.raises(ValueError, match=r"variant = 'alone4' needs a base with the terms adversarial"):
        OracleConfig(variant="alone4")
    with pytest.raises(ValueError, match=r"variant = 'alone2' needs a base with the terms meaning_parallel"):
        MeatOracleConfig(variant="alone2")


@pytest.mark.parametrize("name", ["dream_oracle", "meat_oracle"])
def test_the_base_keeps_its_terms(name):
    model = oracle(name)
    rows = oracle_batch(model)
    terms = model(rows)
    for term, value in model.base(rows).items():
        assert torch.equal(terms.pop(term), value)
    assert terms.keys() == {"intra_class", "inter_class"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["intra_class", "inter_class"])
def test_either_part_can_be_left_out(name, part):
    check(oracle(name, without=(part,)))


def test_nothing_to_minimise_and_a_weight_of_an_unknown_term_are_errors(tmp_path):
    nothing = OracleConfig(without=("intra_class", "inter_class"))
    with pytest.raises(ValueError, match="no loss term is left"):
        next(trainer(method("oracle")).fit(world().data, nothing, Fit((0,), tmp_path / "c", "run")))
    config = OracleConfig(weights={"inner_class": 2.0})
    with pytest.raises(ValueError, match=r"weights names inner_class, but the loss terms are"):
        next(trainer(method("oracle")).fit(world().data, config, Fit((0,), tmp_path / "c", "run")))


@pytest.mark.parametrize("preset", ["paper", "official_code"])
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_trains_on_a_mixture(tmp_path, name, preset):
    model, data = method(name), world("en-de", "en-es").data
    config = replace(model.presets[preset], max_epochs=2, batch_size=7, learning_rate=0.01)
    epochs = list(trainer(model).fit(data, config, Fit((0, 1), tmp_path / "c", "run")))
    assert len({epoch.terms["train"]["total"] for epoch in epochs}) == 2
