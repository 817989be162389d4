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


EACH_SECOND = [(float(second), second) for second in range(1, 12)]
LINES = {
    "done, rate, time left": ([(5.0, 40)], {"total": 60, "what": "a"}, ["a: 40 of 60 texts, 8.0 a second, 2 s left"]),
    "no name": ([(6.0, 9)], {"unit": "problems compared"}, ["9 of 10 problems compared, 1.5 a second, 1 s left"]),
    "slow work, by the minute": ([(20.0, 2)], {}, ["2 of 10 texts, 6.0 a minute, 80 s left"]),
    "a rate without what was done before": ([(5.0, 8)], {"first": 4}, ["8 of 10 texts, 48.0 a minute, 2 s left"]),
    "lines five seconds apart": (
        EACH_SECOND, {"total": 20},
        ["5 of 20 texts, 1.0 a second, 15 s left", "10 of 20 texts, 1.0 a second, 10 s left"],
    ),
    "no progress": ([(9.0, 4)], {"first": 4}, []),
    "an unknown end": ([(5.0, 10)], {"total": None, "unit": "epochs"}, ["10 epochs, 2.0 a second"]),
    "a bound of the end": ([(5.0, 40)], {"total": None, "at_most": 60}, ["40 of at most 60 texts, 8.0 a second"]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "options", "lines"), LINES.values(), ids=LINES)
def test_lines_have_what_is_done_its_rate_and_the_time_left(logged_lines, steps, options, lines):
    assert logged_lines(steps, **options) == lines


def test_the_detail_of_a_progress_line_is_computed_lazily(caplog):
    clock, asked = Clock(), []
    follow = Progress(LOG, 10, "steps", clock=clock)
    with caplog.at_level(logging.INFO, LOG.name):
        for second in (1, 5):
            clock.now = 100.0 + second
            follow.advance(second, lambda: asked.append(1) or "loss 0.5")
    assert (caplog.messages, asked) == (["5 of 10 steps, loss 0.5, 1.0 a second, 5 s left"], [1])


def test_a_stopped_clock_causes_no_error(logged_lines, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    assert logged_lines([(0.0, 10)]) == ["10 of 10 texts, 1000000000.0 a second, 0 s left"]
