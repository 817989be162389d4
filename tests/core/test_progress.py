"""Progress is logged at intervals, with its rate and the remaining time."""

import logging

import pytest

from disent_core import progress
from disent_core.progress import Progress

LOG = logging.getLogger("disent_core.test_progress")


class Clock:
    """Stands still until it is set."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def logged_lines(caplog):
    clock = Clock()

    def lines(steps, total=10, unit="texts", **more):
        follow = Progress(LOG, total, unit, **more, clock=clock)
        start = clock.now
        with caplog.at_level(logging.INFO, LOG.name):
            for second, done in steps:
                clock.now = start + second
                follow.advance(done)
        return caplog.messages

    return lines


def test_a_line_has_what_is_done_its_rate_and_the_time_left(logged_lines):
    assert logged_lines([(5.0, 40)], total=60, what="order 3") == ["order 3: 40 of 60 texts, 8.0 a second, 2 s left"]


def test_a_line_has_a_detail_that_is_only_asked_for_where_there_is_a_line(caplog):
    clock, asked = Clock(), []
    follow = Progress(LOG, 10, "steps", clock=clock)
    with caplog.at_level(logging.INFO, LOG.name):
        for second in (1, 5):
            clock.now = 100.0 + second
            follow.advance(second, lambda: asked.append(1) or "loss 0.5")
    assert (caplog.messages, asked) == (["5 of 10 steps, loss 0.5, 1.0 a second, 5 s left"], [1])


def test_work_without_a_name_begins_with_its_count(logged_lines):
    assert logged_lines([(6.0, 9)], unit="problems compared") == ["9 of 10 problems compared, 1.5 a second, 1 s left"]


def test_slow_work_is_counted_by_the_minute(logged_lines):
    assert logged_lines([(20.0, 2)]) == ["2 of 10 texts, 6.0 a minute, 80 s left"]


def test_what_was_done_before_counts_as_done_and_not_for_the_rate(logged_lines):
    assert logged_lines([(5.0, 8)], first=4) == ["8 of 10 texts, 48.0 a minute, 2 s left"]


def test_short_work_logs_nothing(logged_lines):
    assert logged_lines([(second, second) for second in range(5)]) == []


def test_lines_are_at_least_that_many_seconds_apart_and_rates_are_since_the_start(logged_lines):
    lines = logged_lines([(second, second) for second in range(1, 12)], total=20)
    assert lines == ["5 of 20 texts, 1.0 a second, 15 s left", "10 of 20 texts, 1.0 a second, 10 s left"]


def test_work_without_progress_logs_nothing(logged_lines):
    assert logged_lines([(9.0, 4)], first=4) == []


def test_a_clock_that_stands_still_does_no_harm(logged_lines, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    assert logged_lines([(0.0, 10)]) == ["10 of 10 texts, 1000000000.0 a second, 0 s left"]


def test_work_whose_end_is_not_known_has_no_total_and_no_time_left(logged_lines):
    assert logged_lines([(5.0, 10)], total=None, unit="epochs") == ["10 epochs, 2.0 a second"]


def test_a_line_says_at_most_how_many_there_are_if_the_end_is_not_known(logged_lines):
    assert logged_lines([(5.0, 40)], total=None, at_most=60) == ["40 of at most 60 texts, 8.0 a second"]
