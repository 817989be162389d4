"""Verdicts on claims follow from tests of the cells that count."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from claim_worlds import Cell, Claim, Z, random_claim, twin, warehouse_rows, write_sql
from scipy.stats import norm

from disent_core.evaluation.metrics.statistics import holm

RELATIONS = ("claim_verdicts",)
ABOVE, BELOW, LEVEL = Cell(0.6, 0.5), Cell(0.4, 0.5), Cell(0.505, 0.5)


def on(cells, **changes):
    """The cells on problems of their own."""
    return [replace(cell, problem=f"en-{place}", **changes) for place, cell in enumerate(cells)]


@pytest.fixture
def judge(warehouse, tmp_path):
    def judge(*claims, causes=()):
        """Verdict and standings by claim, from the warehouse."""
        sql = write_sql(tmp_path / "claims_sql", claims, causes)
        warehouse.build(sql, scored_embeddings=[], **warehouse_rows(claims))
        standings = {}
        for row in warehouse.ask("select * from claim_cells order by claim, evaluated_on"):
            standings.setdefault(row["claim"], []).append(row["standing"])
        rows = warehouse.ask("select claim, verdict from claim_verdicts order by claim")
        return {row["claim"]: (row["verdict"], standings.get(row["claim"], [])) for row in rows}

    return judge


# --- the papers' claims ---------------------------------------------------------------------------------------


def test_an_unmeasured_claim_is_marked_not_measured(published):
    assert published.ask("select distinct verdict from claim_verdicts") == [{"verdict": "not measured"}]


def test_every_claim_has_one_name_and_a_verdict(published):
    (counts,) = published.ask("""
        select (select count(*) from parts.claims) as claims, (select count(distinct claim) from parts.claims) as names,
            (select count(distinct claim) from claim_verdicts) as verdicts
    """)
    assert len(set(counts.values())) == 1
    assert counts["claims"] > 60


def test_every_figure_of_a_claim_is_a_cell_of_the_papers_table(published):
    for side in ("left", "right"):
        missing = published.ask(f"""
            select claim, published_{side} from parts.claims as claims
            where published_{side} is not null and not exists (
                from published_metrics as cells
                where cells.paper = claims.paper and cells."table" = claims.place
                    and cells.method = claims.{side}_method and cells.embedding = claims.{side}_embedding
                    and cells.metric = claims.metric and cells.value = claims.published_{side}
            )
        """)
        assert missing == []


def test_the_papers_figures_agree_with_the_papers_claims(published):
    contradicted = published.ask("""
        with figures as (
            select *, case statistic when 'ratio' then published_left / published_right
                else published_left - published_right end as found
            from parts.claims
        )
        select claim, found from figures where not (found >= coalesce(low, found) and found <= coalesce(high, found))
    """)
    assert contradicted == []


def test_the_sides_of_claims_are_known(published):
    unknown = published.ask("""
        select claim from parts.claims
        where not exists (from parts.methods where split_part(left_method, '-', 1) = methods.method)
            or not exists (from parts.methods where split_part(right_method, '-', 1) = methods.method)
            or not exists (from parts.scored_embeddings as scored where scored.task = claims.task)
            or not coalesce(low, high) is not null
            or (over not in ('cells', 'average') or statistic not in ('difference', 'ratio'))
            or training not in ('same', 'mixture')
    """)
    assert unknown == []


def test_every_cause_belongs_to_a_claim_and_is_one_of_four(published):
    odd = published.ask("""
        select claim, encoder from parts.claim_causes as causes
        group by claim, encoder
        having count(*) > 1 or any_value(claim) not in (select claim from parts.claims) or any_value(why) is null
            or any_value(cause) not in ('data', 'encoder', 'training', 'reading')
    """)
    assert odd == []


@pytest.mark.parametrize("setting", ["contrast=hinge", "tune=encoder", "max_positive_pairs=50000"])
def test_claims_use_the_method_settings_of_the_paper(published, setting):
    method = {"contrast": "fmda%", "tune": "emu%", "max_positive_pairs": "twosl%"}[setting.partition("=")[0]]
    others = published.ask(f"""
        select claim, setting from parts.claims
        where setting is distinct from '{setting}' and paper != 'ours'
            and (left_method like '{method}' or right_method like '{method}')
    """)
    assert others == []


# --- one cell, and several ----------------------------------------------------------------------------------


LOSS = {"statistic": "ratio", "high": 0.5}
SAME = {"low": -0.01, "high": 0.01}
CLOSE = replace(LEVEL, paired=(0.002, 0.01))
LEAK = Cell(0.0045, 0.0047, 0.002, 0.002, n=2974)
EQUAL = Cell(0.5, 0.5, 0.05, 0.05, paired=(0.0, 1.0), n=100)
BETTER, WORSE = replace(ABOVE, left=0.7), replace(BELOW, left=0.3)
AVERAGE = {"low": 0.0, "over": "average"}
VERDICTS = {  # an example of each rule; `twin` draws hundreds
    "a difference above": ([ABOVE], {"low": 0.0}, "held"),
    "a difference below": ([BELOW], {"low": 0.0}, "not held"),
    "the paired test decides where there is one": ([CLOSE], {"low": 0.0}, "held"),
    **{
        f"the same within a point needs an interval inside of the point: {by}": (
            [replace(ABOVE, left=0.5 + by, paired=(0.002, 0.5))], SAME, verdict,
        )
        for by, verdict in ((0.0, "held"), (0.009, "undecided"), (0.05, "not held"), (-0.05, "not held"))
    },
    "a ratio": ([Cell(0.05, 0.2)], LOSS, "held"),
    "a ratio of a base below zero has no premise": ([Cell(-0.06, -0.08)], LOSS, "premise absent"),
    "a leak too small to be cut has no premise": ([LEAK], {**LOSS, "premise_low": 0.02}, "premise absent"),
    **{
        f"what a method loses needs a method above the encoder, which is at {premise}": (
            [replace(BELOW, left=0.1, premise=premise)], {**LOSS, "has_premise": True}, verdict,
        )
        for premise, verdict in ((0.3, "held"), (0.485, "premise absent"), (None, "undecided"))
    },
    "equal items do not make a difference certain": ([EQUAL], SAME, "undecided"),
    "many equal items do": ([replace(EQUAL, n=1000)], SAME, "held"),
    "most cells and none against it": (on([ABOVE, ABOVE, LEVEL]), {"low": 0.0}, "held"),
    "most cells and one against it": (on([ABOVE, ABOVE, BELOW]), {"low": 0.0}, "undecided"),
    "an average may have cells against it": (on([BETTER, BELOW]), AVERAGE, "held"),
    "an average below may have cells for it": (on([WORSE, ABOVE]), AVERAGE, "not held"),
    "cells that agree do not narrow the interval of their average": (on([Cell(0.53, 0.5)] * 20), AVERAGE, "undecided"),
}  # fmt: skip
NEAR, OPEN = replace(LEVEL, paired=(0.002, 0.02)), replace(LEVEL, paired=(0.002, 0.9))
PREMISE = replace(LEVEL, paired=(0.002, 0.03), premise=0.1)
STANDINGS = {
    "a side that was cut short is refused": ([replace(ABOVE, is_cut_short=True)], {}, "undecided", ["cut short"]),
    "values without intervals are not judged": (
        [replace(ABOVE, left_half=None, right_half=None)], {}, "undecided", ["untested"],
    ),
    "one cell has its p value": ([NEAR], {}, "held", ["for"]),
    "p values are corrected over two cells": (on([NEAR, OPEN]), {}, "undecided", ["for", "open"]),
    "p values are corrected over three cells": (on([NEAR, OPEN, OPEN]), {}, "undecided", ["open"] * 3),
    "cells that can't be judged take no part in the correction": (
        on([PREMISE, *[replace(PREMISE, premise=0.9)] * 2]), {"has_premise": True}, "held",
        ["for", "premise absent", "premise absent"],
    ),
    "the same head under another training set counts once": (
        [ABOVE, replace(ABOVE, trained_on="en-es"), replace(BELOW, trained_on="en-ja", head="b")], {}, "undecided",
        ["for", "against"],
    ),
}  # fmt: skip


def test_verdicts_follow_from_the_counted_cells(judge):
    judged = judge(*(Claim(f"c{at:02}", cells, **claim) for at, (cells, claim, _) in enumerate(VERDICTS.values())))
    verdicts = dict(zip(VERDICTS, (verdict for verdict, _ in judged.values()), strict=True))
    assert verdicts == {name: expected for name, (*_, expected) in VERDICTS.items()}


def test_uncounted_cells_state_the_reason(judge):
    cases = enumerate(STANDINGS.values())
    judged = judge(*(Claim(f"c{at:02}", cells, low=0.0, **claim) for at, (cells, claim, *_) in cases))
    assert dict(zip(STANDINGS, judged.values(), strict=True)) == {
        name: (verdict, standings) for name, (*_, verdict, standings) in STANDINGS.items()
    }


def test_causes_are_shown_only_for_claims_not_held_on_their_encoder(judge, warehouse):
    causes = [f"{name},minilm,training,too few epochs" for name in ("kept", "lost")]
    causes.append("other,another,training,too few epochs")
    judge(*(Claim(name, [cell], low=0.0) for name, cell in {"kept": ABOVE, "lost": BELOW, "other": BELOW}.items()),
          causes=causes)  # fmt: skip
    assert warehouse.rows("select claim, cause, why from claim_verdicts order by claim") == [
        ("kept", None, None), ("lost", "training", "too few epochs"), ("other", None, None),
    ]  # fmt: skip


# --- which figures are the sides ------------------------------------------------------------------------------


def metric(method, value, **changes):
    interval = {"ci_low": value - 0.01, "ci_high": value + 0.01}
    return {"method": method, "value": value, "n": 1000, **interval, **changes}


RAW = {"trained_on": "", "embedding": "sentence"}


def papers_verdict(warehouse, claim, *metrics, **tables):
    warehouse.build(metrics=list(metrics), **tables)
    (row,) = warehouse.ask(f"select verdict, cells, found from claim_verdicts where claim = '{claim}'")
    return row["verdict"], row["cells"]


def test_a_mixture_is_compared_with_the_pairs_in_it(warehouse):
    on_pair = {"evaluated_on": "ja-en"}
    mixture, pair, foreign = (
        metric("fmda", value, trained_on=trained_on, **on_pair)
        for value, trained_on in ((0.6, "en-de+en-ja"), (0.5, "en-ja"), (0.9, "en-es"))
    )
    assert papers_verdict(warehouse, "unified_helps_japanese", mixture, pair, foreign) == ("held", 1)
    named = {"training_set": "all", "pairs": ["en-de", "en-ja"], "languages": ["en", "de", "ja"]}
    of_set = mixture | {"trained_on": "all"}
    verdict = papers_verdict(warehouse, "unified_helps_japanese", of_set, pair, foreign, training_sets=[named])
    assert verdict == ("held", 1)
    assert papers_verdict(warehouse, "unified_helps_japanese", of_set, pair, foreign)[0] == "not measured"


def test_claims_on_fmda_are_read_on_the_contrast_with_the_hinge(warehouse):
    kinds = {"fmda": "linear", "fmda_softmax": "softmax", "fmda_hinge": "hinge"}
    variants = [configured(name, "fmda", f'{{"contrast": "{kind}"}}') for name, kind in kinds.items()]
    metrics = [metric(name, value) for name, value in zip(("dream", *kinds), (0.5, 0.1, 0.9, 0.6), strict=True)]
    assert papers_verdict(warehouse, "fmda_beats_dream", *metrics, configured_methods=variants) == ("held", 1)
    sides = warehouse.ask("select left_side, right_side from claim_verdicts where claim = 'fmda_beats_dream'")
    assert sides == [{"left_side": "fmda_hinge meaning", "right_side": "dream meaning"}]


def configured(name, base, settings="{}"):
    return {"method": name, "base_method": base, "settings": settings}


SOFTMAX, LEAN = configured("fmda_softmax", "fmda"), configured("lean", "fmda", '{"without": ["contrast"]}')
KNN = {"task": "intent_knn", "embedding": "sentence"}
TUNED = metric("emu", 0.6, **KNN), metric("raw", 0.5, **RAW | KNN)
STS = [{"task": "sts", "metric": "pearson", "evaluated_on": place} for place in ("en-de", "en-en", "es")]
SIMILAR = [row for at in STS for row in (metric("dream", 0.6, **at), metric("raw", 0.5, **RAW | at))]
SLOTS = {"task": "slot_labelling", "metric": "micro_f1", "embedding": "sentence", "evaluated_on": "de"}
SPANS = {"twosl": 0.7, "twosl_no_contrastive": 0.4}
SIDES = {
    "a trained method is compared with the encoder that it stands on": (
        "dream_beats_raw", [metric("dream", 0.6), metric("raw", 0.5, **RAW), metric("raw", 0.9, encoder="x", **RAW)],
        [], ("held", 1),
    ),
    "methods trained on other pairs are not compared": (
        "fmda_beats_dream", [metric("fmda", 0.6), metric("dream", 0.5, trained_on="en-de+en-es")],
        [], ("not measured", None),
    ),
    "a variant stands for a method that was not run under its own name": (
        "fmda_needs_contrast", [metric("lean", 0.1), metric("fmda", 0.6), metric("raw", 0.2, **RAW)],
        [LEAN], ("held", 1),
    ),
    "a variant does not count where the method itself was run": (
        "fmda_beats_dream", [metric("fmda", 0.1), metric("fmda_softmax", 0.9), metric("dream", 0.5)],
        [SOFTMAX], ("not held", 1),
    ),
    "a head over frozen vectors is not emu": (
        "emu_beats_raw", TUNED, [configured("emu", "emu", '{"tune": "head"}')], ("not measured", None),
    ),
    "a tuned encoder is emu": ("emu_beats_raw", TUNED, [configured("emu", "emu", '{"tune": "encoder"}')], ("held", 1)),
    "similarity across languages is a claim": ("dream_helps_sts", SIMILAR, [], ("held", 1)),
    "similarity within languages is another": ("dream_helps_sts_within", SIMILAR, [], ("held", 2)),
    "slots are compared between equal numbers of examples": (
        "contrastive_stage_helps", [metric(f"{name}_{n}", SPANS[name], **SLOTS) for name in SPANS for n in (50, 100)],
        [configured(f"{name}_{n}", name, f'{{"examples": {n}}}') for name in SPANS for n in (50, 100)], ("held", 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("claim", "metrics", "methods", "verdict"), SIDES.values(), ids=SIDES)
def test_claim_sides_are_the_figures_compared_in_the_papers(warehouse, claim, metrics, methods, verdict):
    tables = {"configured_methods": methods} if methods else {}
    assert papers_verdict(warehouse, claim, *metrics, **tables) == verdict


# --- the same by another way ----------------------------------------------------------------------------------


def test_verdicts_and_standings_equal_a_cell_by_cell_evaluation(judge):
    """Whatever the order of rows, and with every head twice."""
    draw = np.random.default_rng(5)
    claims = [random_claim(f"c{number:03}", draw) for number in range(400)]
    twice = [
        replace(claim, cells=[*reversed(claim.cells), *(replace(cell, trained_on="en-xx") for cell in claim.cells)])
        for claim in reversed(claims)
    ]
    actual, expected = judge(*twice), {claim.name: twin(claim) for claim in claims}
    assert {name: pair for name, pair in actual.items() if pair != expected[name]} == {}
    verdicts = Counter(verdict for verdict, _ in actual.values())
    standings = Counter(standing for _, of_claim in actual.values() for standing in of_claim)
    assert (len(verdicts), len(standings)) == (5, 6)  # each occurs often enough to be tested
    assert min(*verdicts.values(), *standings.values()) > 15


def test_p_values_are_those_of_the_normal_distribution(judge, warehouse):
    judge(Claim("c", on([Cell(0.5 + step / 400, 0.5, n=10**6) for step in range(-30, 31)]), low=0.0))
    for row in warehouse.ask("select margin_low / error_low as z, p_value from claim_cells"):
        assert row["p_value"] == pytest.approx(2 * norm.sf(abs(row["z"])), abs=2e-7)


def test_p_page_is_the_holm_correction_over_all_judged_cells(judge, warehouse):
    draw = np.random.default_rng(7)
    judge(*(random_claim(f"c{number:03}", draw) for number in range(120)))
    columns = "claim, p_value, p_holm, p_page, standing, margin_low, margin_high"
    cells = warehouse.ask(f"select {columns} from claim_cells where p_value is not null")
    expected = holm(np.array([cell["p_value"] for cell in cells]))
    assert [cell["p_page"] for cell in cells] == pytest.approx(expected.tolist())
    assert warehouse.rows("select count(p_page) from claim_cells where p_value is null") == [(0,)]
    changed = Counter()
    for row in warehouse.ask("select * from claim_verdicts"):
        verdict = row["verdict"]
        if verdict in ("held", "not held") and row["over"] == "cells":
            standing = {"held": "for", "not held": "against"}[verdict]
            left = sum(cell["claim"] == row["claim"] and cell["standing"] == standing and cell["p_page"] < 0.05
                       for cell in cells)  # fmt: skip
            verdict = verdict if 2 * left > row["judged"] else "undecided"
        elif verdict in ("held", "not held"):
            error = (row["margin_high"] - row["margin_low"]) / (2 * Z)
            p = 2 * norm.sf(abs(row["margin"]) / error)
            verdict = verdict if p * len(cells) < 0.05 else "undecided"
        assert row["verdict_page"] == verdict
        changed[row["verdict"], verdict] += row["verdict"] in ("held", "not held")
    assert changed["held", "undecided"] > 3
    assert changed["held", "held"] > 3
