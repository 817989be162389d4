"""Tests that the report is one file that shows the results of a run as text and never as markup."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from disent_core.report.document import Picture, RunReport, document, standings
from disent_core.report.style import figure, png

HOSTILE = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>"
IDENTITY = {"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "tiny", "evaluated_on": "en-de",
            "metric": "accuracy_at_1", "settings": "{}"}  # fmt: skip
SECTIONS = ("leaderboard", "run", "leakage", "curves", "clouds", "papers", "coverage", "claims", "cases")
EMPTY = "Nothing of this was measured in this run."


def scored(method, value, rank, embedding="meaning"):
    reads_as = "higher is better" if rank else "leakage, lower is better"
    return {**IDENTITY, "method": method, "value": value, "rank": rank, "embedding": embedding, "trained_on": "en-de",
            "ci_low": value - 0.01, "ci_high": value + 0.01, "n": 1000, "seeds": 2, "seed_std": 0.01,
            "converged": method != "dream", "reads_as": reads_as}  # fmt: skip


def compared(first, second, difference, *, stands, lower_is_better=False):
    sides = {f"{name}_{side}": value for side, method in (("a", first), ("b", second))
             for name, value in (("method", method), ("trained_on", "en-de"), ("embedding", "meaning"))}  # fmt: skip
    return {**IDENTITY, **sides, "difference": difference, "stands": stands, "lower_is_better": lower_is_better}


def case(method, text, *, is_gold):
    return {"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "tiny", "place": 1, "query_id": "7",
            "evaluated_on": "en-de", "query_text": HOSTILE, "gold_text": "weck mich", "method": method,
            "top_text": text, "is_gold": is_gold}  # fmt: skip


def claimed(verdict, **changes):
    return {
        **{"paper": "fmda", "place": "T2", "says": HOSTILE, "dataset": "sample", "encoder": "tiny", "n": 299},
        **{"left_side": "a", "left_value": 0.2, "right_side": "b", "right_value": 0.1, "cells": 2, "judged": 0},
        **{"statistic": "ratio", "found": 2.0, "margin": -0.1, "margin_low": -0.2, "margin_high": -0.05},
        **{"cells_for": 0, "cells_against": 0, "without_premise": 0, "cut_short": 0, "verdict": verdict, **changes},
    }


def views():
    board = [scored("dream", 0.6, 1), scored(HOSTILE, 0.59, 2), scored("raw", 0.2, 3)]
    leaks = [scored("dream", 0.01, None, "language"), scored(HOSTILE, 0.3, None, "language")]
    curve = [
        {"encoder": "tiny", "method": HOSTILE, "trained_on": "en-de", "seed": 0, "epoch": epoch, "split": split,
         "term": "total", "value": 1 / epoch, "is_best": epoch == 2}
        for split in ("train", "dev") for epoch in (1, 2, 3)
    ]  # fmt: skip
    return {
        "leaderboard": [*board, *leaks],
        "significance": [
            compared("dream", HOSTILE, 0.01, stands=False),
            compared("raw", "dream", -0.4, stands=True),
            compared(HOSTILE, "raw", 0.39, stands=True),
        ],
        "training_curve": curve,
        "coverage": [{"paper": "fmda", "table": "T2", "shows": "retrieval", "cells": 4, "measured": 1}],
        "claim_verdicts": [
            claimed("held", judged=2, cells_for=2),
            claimed("undecided", says="cut", cut_short=2),
            claimed("premise absent", says="leak", without_premise=2),
            claimed("not measured", says="nobody measured this", dataset=None, encoder=None, cells=None, judged=None),
        ],
        "disagreements": [
            case("dream", "weck mich", is_gold=True),
            case(HOSTILE, HOSTILE, is_gold=False),
            case("raw", HOSTILE, is_gold=False),
        ],
        "fmda_table2": [
            {"printed_as": "FMDA", "method": "fmda", "en_de_published": 0.594, "en_de_measured": 0.217,
             "en_de_difference": -0.377, "why_missing": None, "note": None},
            {"printed_as": HOSTILE, "method": None, "en_de_published": 0.1, "en_de_measured": None,
             "en_de_difference": None, "why_missing": "no such encoder", "note": None},
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def run():
    drawn = png(figure("cloud", 3.0, 2.0))
    pictures = [Picture("tiny", HOSTILE, "en-de", name, drawn) for name in ("t_sne", "pca")]
    return RunReport(title=f"A run {HOSTILE}", facts=[("configuration", HOSTILE)], methods=["dream"], views=views(),
               pictures=pictures)  # fmt: skip


@pytest.fixture(scope="module")
def page(run):
    return document(run)


VOID = {"meta", "br", "img"}


class Tree(HTMLParser):
    """Collects open tags, attributes, and the words of every section."""

    def __init__(self, page):
        super().__init__()
        self.open, self.attributes, self.words = [], [], {}
        self.section = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "section":
            self.section = dict(attrs)["id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words[self.section] = self.words.get(self.section, "") + " " + " ".join(data.split())


def test_every_tag_is_closed_and_every_section_is_there(page):
    tree = Tree(page)
    assert tree.open == []
    assert tuple(name for name in tree.words if name) == SECTIONS
    assert EMPTY not in page


def test_hostile_text_stays_text(page):
    tree = Tree(page)
    assert re.findall("<script[^>]*>", page) == ["<script>"]
    assert all(not name.startswith("on") for _, name, _ in tree.attributes)
    for section in ("run", "leaderboard", "leakage", "curves", "clouds", "papers", "claims", "cases"):
        assert HOSTILE in tree.words[section], section


def test_the_page_itself_forbids_requests_and_every_script_but_its_own(page):
    (content,) = re.findall(
        '<meta http-equiv="Content-Security-Policy" content="(.*?)">', page[: page.index("<title>")]
    )
    policy = dict(part.strip().split(" ", 1) for part in content.split(";"))
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert HOSTILE not in script


def test_the_report_page_loads_no_external_resources(page):
    links = [value for _, name, value in Tree(page).attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in links)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", re.sub(r"base64,[^\"]+", "", page))


def test_ids_are_unique_and_links_have_a_target(page):
    attributes = Tree(page).attributes
    ids = [value for _, name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, name, value in attributes if name == "href"} <= set(ids)


def test_equal_runs_have_equal_reports(run, page):
    assert document(run) == page


def test_empty_and_unranked_sections_show_a_note():
    tree = Tree(document(RunReport(title="empty", facts=[])))
    assert all(EMPTY in tree.words[section] for section in SECTIONS if section != "run")
    choice = {**scored("dream", 1.1, None), "metric": "threshold", "reads_as": "a choice, not a score"}
    tree = Tree(document(RunReport(title="mining", facts=[], methods=["dream"], views={"leaderboard": [choice]})))
    assert "No method is ranked by this" in tree.words["leaderboard"]
    assert EMPTY in tree.words["leakage"]


@pytest.mark.parametrize(("changed", "bar"), [
    ({}, "--low: 59.0%; --high: 61.0%"),
    ({"ci_low": None, "ci_high": None}, "--low: 60.0%; --high: 60.0%"),
    ({"value": -0.2, "ci_low": -0.3, "ci_high": 1.2}, "--low: 0.0%; --high: 100.0%"),
], ids=["interval", "none", "outside"])  # fmt: skip
def test_a_cell_has_a_bar_from_0_to_1_with_its_interval(changed, bar):
    rows = [{**scored("dream", 0.6, 1), **changed}]
    assert f'style="{bar}"' in document(RunReport(title="", facts=[], methods=["dream"], views={"leaderboard": rows}))


def test_the_best_ties_and_cut_short_methods_are_marked(page):
    assert '<span class="best">0.600</span>' in page
    assert '<span class="tied">0.590</span>' in page
    assert '<span class="tied">0.200</span>' not in page
    shown = " ".join(Tree(page).words["leaderboard"].split())
    assert ("dream cut short" in shown, "raw cut short" in shown) == (True, False)


def test_standings_count_significantly_worse_methods():
    def counts(comparisons):
        return {system[-3]: (standing.beaten, standing.compared) for system, standing in standings(comparisons).items()}

    assert counts(views()["significance"]) == {"dream": (1, 2), HOSTILE: (1, 2), "raw": (0, 2)}
    lower_is_better = [compared("dream", "raw", -0.2, stands=True, lower_is_better=True)]
    assert counts(lower_is_better) == {"dream": (1, 1), "raw": (0, 1)}


def test_paper_tables_show_grouped_columns_and_signed_differences(page):
    shown = Tree(page).words["papers"]
    assert "FMDA, table 2" in shown
    assert "1 of 4 cells measured" in shown
    assert '<th colspan="3" class="span">en-de</th>' in page
    assert "-0.377" in shown
    assert "<th>note</th>" not in page  # it has no value


def test_methods_with_the_same_answer_are_grouped(page):
    tree = Tree(page)
    assert page.count('class="answer is-right"') == 1
    assert f"{HOSTILE}, raw" in tree.words["cases"]


@pytest.mark.parametrize(("value", "shown"), [(None, ""), (0.12345, "0.123"), (float("nan"), ""), (7, "7")])
def test_values_are_formatted_as_text(value, shown):
    rows = [{"paper": "p", "table": "T1", "value": value}]
    assert f">{shown}</td></tr>" in document(RunReport(title="", facts=[], views={"coverage": rows}))


def test_claims_show_bounds_and_unjudged_ones_are_listed_separately(page):
    shown = Tree(page).words["claims"]
    assert "1 held, 1 undecided, 1 premise absent, 1 not measured" in shown
    judged, _, rest = shown.partition("Measured, but could not be judged")
    refused, _, missing = rest.partition("Not measured in this run")
    assert "2 cut short" in refused
    assert "2 without premise" in refused
    assert "2 cut short" not in judged
    assert "nobody measured this" in missing
    assert "sample" in shown
    assert "-0.100 [-0.200, -0.050]" in " ".join(shown.split())
