"""Boards of the leaderboard in a terminal."""

from itertools import product

import pytest

from disent_assets.cli.output.leaderboards import boards, summary

PAIRS = ("en-de", "de-en", "en-es", "es-en", "en-ja", "ja-en")


def row(method, evaluated_on, value, rank, **more):
    trained_on = "" if method == "raw" else "-".join(sorted(evaluated_on.split("-"), key=lambda code: code != "en"))
    names = {"task": "crosslingual_retrieval", "dataset": "sample", "encoder": "scratch", "metric": "accuracy_at_1"}
    names |= {"method": method, "trained_on": trained_on, "evaluated_on": evaluated_on, "settings": "{}"}
    numbers = {"value": value, "ci_low": value - 0.05, "ci_high": value + 0.05, "n": 299, "seeds": 3, "rank": rank}
    return names | numbers | {"reads_as": "higher is better", "is_stale": False} | more


def many(methods, task="crosslingual_retrieval", pairs=PAIRS):
    names = [f"a_method_with_a_very_long_name_{number:02}" for number in range(methods)]
    return [
        row(name, pair, 0.9 - 0.01 * place, place + 1, task=task) for place, name in enumerate(names) for pair in pairs
    ]


def test_the_summary_of_many_methods_and_directions_fits_on_a_screen():
    pairs = ["-".join(codes) for codes in product(("en", "de", "es", "ja"), repeat=2) if codes[0] != codes[1]]
    lines = summary([row for task in ("crosslingual_retrieval", "sts", "qe") for row in many(40, task, pairs)])
    assert len(lines) == 25
    assert max(map(len, lines)) <= 100
    assert "and 31 methods, 6 columns more: disent leaderboard crosslingual_retrieval" in lines


def test_the_summary_shows_the_best_encoder_and_counts_the_others():
    few = [row("raw", "en-de", 0.99, 1, encoder="few")]
    rows = [row("raw", pair, value, 1, encoder=f"of_{value}") for value in (0.2, 0.8, 0.5) for pair in PAIRS]
    title, *_, more = summary([*few, *rows])
    assert "on of_0.8," in title
    assert more == "and 3 encoders more: disent leaderboard crosslingual_retrieval"
    worse = [{**row, "reads_as": "lower is better"} for row in rows]
    assert "on of_0.2," in summary(worse)[0]
    assert len(summary([*many(10), *few])) == 12


def test_the_summary_shows_the_largest_data_set_of_the_first_two_tasks():
    small = [row("dream", "en-de", 0.1, 1, dataset="small")]
    tasks = [row("dream", "en-de", 0.1, 1, task=task) for task in ("clustering", "sts")]
    titles = [line for line in summary([*tasks, *small, *many(2)]) if ":" in line]
    assert [title.partition(":")[0] for title in titles] == ["crosslingual_retrieval", "sts"]
    assert "sample on scratch" in titles[0]


def test_the_last_line_shows_the_ceiling_if_it_is_below_1():
    of_task = {"task": "template_retrieval", "seeds": 0}
    rows = [row("facet", "de", 0.29, 1, **of_task, ceiling=0.294), row("facet", "en", 0.9, 1, **of_task, ceiling=1.0)]
    assert boards(rows, None)[-1].split() == ["(at", "most)", "0.294"]
    assert summary([*rows, *many(40, "template_retrieval", ("de",))])[-2].split() == ["(at", "most)", "29"]
    assert not any("most" in line for line in boards(rows[1:], None))


def test_a_cell_is_a_value_with_its_interval_in_hundredths_or_in_decimals():
    rows = [row("dream", "en-de", 0.5, 1), row("raw", "en-de", 0.25, 2, ci_low=None, ci_high=None)]
    assert [line.split(maxsplit=1) for line in summary(rows)[2:]] == [["dream", "50 [45, 55]"], ["raw", "25"]]
    assert [line.split(maxsplit=1)[1] for line in boards(rows, None)[2:]] == ["0.500 [0.450, 0.550]", "0.250"]


def test_methods_are_ordered_by_their_shared_directions():
    values = {"dream": (0.9, 0.1), "few": (0.8,), "best": (0.7, 0.9)}
    rows = [row(method, PAIRS[i], value, 1) for method, numbers in values.items() for i, value in enumerate(numbers)]
    assert [line.split()[0] for line in boards(rows, None)[2:]] == ["best", "dream", "few"]
    rows = [row("a", "en-de", 0.5, 1), row("b", "en-es", 0.4, 1), row("c", "en-de", 0.6, 1)]
    assert [line.split()[0] for line in boards(rows, None)[2:]] == ["b", "c", "a"]


def test_methods_are_in_the_order_of_their_mean_distance_from_the_best():
    values = {"a": (0.9, 0.1), "b": (0.8, 0.5), "c": (0.7, 0.7), "d": (0.8, 0.7)}
    rows = [row(method, PAIRS[i], value, 1) for method, numbers in values.items() for i, value in enumerate(numbers)]
    assert [line.split()[0] for line in boards(rows, None)[2:]] == ["d", "c", "b", "a"]
    worse = [{**row, "reads_as": "lower is better"} for row in rows]
    assert [line.split()[0] for line in boards(worse, None)[2:]] == ["a", "b", "c", "d"]


def test_the_training_direction_precedes_its_reverse():
    rows = [row("raw", pair, 0.5, 1) for pair in sorted(PAIRS)] + [row("dream", pair, 0.5, 1) for pair in PAIRS]
    assert boards(rows, None)[1].split() == list(PAIRS)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_board_that_is_wider_than_the_terminal_is_continued_below(width):
    rows = [row("dream", pair, 0.5, 1) for pair in PAIRS]
    lines = boards(rows, width)
    assert max(map(len, lines[1:])) <= width
    assert [name for line in lines[1::2] for name in line.split()] == list(PAIRS)


def test_corrected_retrieval_has_a_separate_board_after_the_plain_one():
    plain = row("raw", "en-de", 0.5, 1)
    corrected = [
        {**plain, "method": name, "value": 0.9, "settings": '{"hubness": "csls"}'} for name in ("raw", "dream")
    ]
    titles = [line for line in boards([*corrected, plain], None) if ":" in line]
    assert ["csls (transductive)" in title for title in titles] == [False, True]
    assert titles[1].split("; ")[0].endswith("[95 % interval], hubness: csls (transductive)")


def test_a_method_that_was_cut_short_is_marked_and_the_last_line_says_so():
    rows = [row("dream", "en-de", 0.5, 1, converged=True), row("dream", "de-en", 0.5, 1, converged=False)]
    rows += [row("raw", "en-de", 0.4, 2, converged=None), row("a_method_with_a_long_name_1", "en-de", 0.3, 3)]
    for lines in (summary(rows), boards(rows, None)):
        assert [line.split()[1] == "†" for line in lines[2:5]] == [True, False, False]
        assert lines[-1].startswith("† cut short: a seed was still improving")
    assert summary([*rows, row("a_method_with_a_long_name_1", "en-de", 0.3, 3, converged=False)])[4].startswith(
        "a_method_with_a_l… † "
    )
    assert not any("†" in line for line in summary(rows[:1]))


@pytest.mark.parametrize("shown", [summary, lambda rows: boards(rows, None)])
def test_stale_numbers_are_counted_below_the_boards(shown):
    rows = [row("dream", "en-de", 0.5, 1), row("raw", "en-de", 0.4, 2, is_stale=True)]
    assert shown(rows)[-1].startswith("stale: 1 of 2 numbers")
    assert "stale" not in shown(rows[:1])[-1]
