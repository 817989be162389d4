"""The share of a run that is shown, and the time left, against runs whose durations are known; and how they look."""

import io
import logging
import random
from itertools import pairwise
from typing import NamedTuple

import pytest
from rich.console import Console
from toy_steps import planned as step

from disent_assets.run.plan import StepRun
from disent_assets.run.progress import Display, Done, Lines, duration
from disent_assets.run.runner import Schedule, expected_seconds
from disent_assets.run.step import Outcome

MASSIVE = {
    "fine_tuned": 1338.4, "facet": 261.6, "dream_oracle": 71.9, "dream": 62.7, "fmda": 35.4, "projection": 2.4,
    "centered": 2.0, "raw": 1.4,
}  # fmt: skip
"""Seconds of a head with its metrics on real data: configs/massive_headline.toml."""


def run_of(seconds: dict[str, float]) -> tuple[list[StepRun], dict[str, float]]:
    """Steps as in the headline run, and their true durations."""
    texts = [step("corpora/utterances", language) for language in ("en", "de")]
    vectors = [step("embeddings/own/own_vectors", text.partition, text) for text in texts]
    heads = [step(f"heads/own/{method}_head", "en-de", *vectors) for method in seconds]
    steps = [*texts, *vectors, *heads, step("warehouse/database", None, *heads)]
    true = [2.5, 2.5, 86.0, 86.0, *seconds.values(), 17.0]
    return steps, dict(zip([of.name for of in steps], true, strict=True))


class Shown(NamedTuple):
    """What is shown at a time: the share that is done, and the seconds left."""

    at: float
    share: float
    left: float


def played(
    steps: list[StepRun], expected: dict[str, float], true: dict[str, float], workers: int, *, has_log: bool = False
) -> list[Shown]:
    """What is shown during a run whose steps take `true` seconds; if `has_log`, they log how many are left."""
    done, schedule, now = Done(expected, workers), Schedule(steps, set(), expected), 0.0
    ends: dict[StepRun, float] = {}
    shown = []
    while True:
        while len(ends) < workers and (due := schedule.next()) is not None:
            done.begin(due, now)
            ends[due] = now + true[due.name]
        if not ends:
            return shown
        first = min(ends, key=lambda running: ends[running])
        for part in range(20):
            moment = now + (ends[first] - now) * part / 20
            for running in ends if has_log and part else ():
                done.hear(running, f"5 of 9 steps, 1.0 a second, {ends[running] - moment:.0f} s left", moment)
            shown.append(Shown(moment, done.done(moment) / done.total, done.left(moment)))
        now = ends.pop(first)
        done.end(first)
        list(schedule.end(first, Outcome()))
        shown.append(Shown(now, done.done(now) / done.total, done.left(now)))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("slower", [0.7, 1.0, 4.0])
def test_with_previous_durations_the_estimated_end_is_accurate(workers, slower):
    steps, last = run_of({name: seconds for name, seconds in MASSIVE.items() if name != "fine_tuned"})
    chance = random.Random(workers)
    now = {name: seconds * slower * chance.uniform(0.8, 1.25) for name, seconds in last.items()}
    shown = played(steps, last, now, workers)
    whole = shown[-1].at
    assert all(0.4 < (moment.at + moment.left) / whole < 1.7 for moment in shown if moment.at > whole / 3)
    assert shown[-1].left < 1e-6
    assert all(before.share <= after.share for before, after in pairwise(shown))


@pytest.mark.parametrize("workers", [1, 2])
def test_without_previous_durations_the_estimated_end_has_the_right_magnitude(workers):
    steps, true = run_of(MASSIVE)
    shown = played(steps, expected_seconds(steps, {}), true, workers)
    assert all(0.02 < (moment.at + moment.left) / shown[-1].at < 10 for moment in shown)


def test_the_estimate_of_a_step_overrides_the_usual_duration():
    (head,) = steps = [step("heads/own/facet_head", "en-de")]
    shown = played(steps, expected_seconds(steps, {}), {head.name: 480.0}, 1, has_log=True)
    assert all(0.7 < (moment.at + moment.left) / 480 < 1.2 for moment in shown if 40 < moment.at < 480)


def test_startup_time_does_not_count_as_speed_of_the_first_step():
    done, first = Done({"corpora/utterances [en]": 40.0, "b": 40.0}, 2), step("corpora/utterances", "en")
    done.begin(first, 30.0)
    assert done.left(30.0) == pytest.approx(40.0)


# --- what is shown ----------------------------------------------------------------------------------------

EN, DE = step("corpora/utterances", "en"), step("heads/scratch/dream_head", "en-de")
EPOCHS = "dream on scratch, en-de: 30 of at most 200 epochs, loss [0.123, 0.124, 0.125], seeds still training [0, 1, 2]"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("width", [60, 100])
def test_the_display_of_a_terminal_fits_its_width_and_says_what_runs_and_how_long_it_takes(width):
    clock = Clock()
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    display = Display(lambda: None, console, clock)
    display.start([EN, DE], {EN.name: 30.0, DE.name: 70.0}, 2)
    display.close()
    display.begin(EN)
    display.begin(DE)
    clock.now = 25.0
    display.log(DE, logging.INFO, EPOCHS)
    display.tick()
    with console.capture() as captured:
        console.print(display.bars.get_renderable())
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("0 of 2 steps")
    assert any(line.startswith("heads/scratch") for line in lines)


def test_a_file_gets_a_line_when_a_step_begins_and_ends_and_one_every_half_minute():
    clock, file = Clock(), io.StringIO()
    lines = Lines(lambda: None, file, clock)
    lines.start([DE], {DE.name: 60.0}, 1)
    lines.begin(DE)
    for second in range(0, 62, 2):
        clock.now = float(second)
        lines.log(DE, logging.INFO, EPOCHS)
    lines.end(DE, Outcome(made=2))
    begins, *between, ends = file.getvalue().splitlines()
    assert begins == "heads/scratch/dream_head [en-de]: begins (0 of 1 steps, 0 %, 0 s, about 60 s left)"
    assert len(between) == 2
    assert all(line.startswith("heads/scratch/dream_head [en-de]: 30 of at most 200 epochs, ") for line in between)
    assert ends == "heads/scratch/dream_head [en-de]: done after 60 s"


def test_a_warning_that_several_steps_log_is_shown_once():
    file = io.StringIO()
    lines = Lines(lambda: None, file, Clock())
    for logging_step in (EN, DE):
        lines.log(logging_step, logging.WARNING, "de.txt:2: a line that is not two words is left out (2 in this file)")
    assert file.getvalue().count("de.txt:2") == 1


@pytest.mark.parametrize(("seconds", "text"), [(8.4, "8 s"), (200, "3 min"), (7500, "2 h 5 min")])
def test_a_duration_has_at_most_two_units(seconds, text):
    assert duration(seconds) == text
