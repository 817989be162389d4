"""The share of a run that is shown, against runs whose durations are known; and what a terminal and a file show."""

import io
import logging
import random
from itertools import accumulate, pairwise
from typing import NamedTuple

import dagster as dg
import pytest
from rich.console import Console

from disent_assets.durations import ENCODING, FINE_TUNING, MEASURED
from disent_assets.estimate import Estimate
from disent_assets.plan import Step
from disent_assets.progress import Display, Lines, duration
from disent_assets.run_step import Outcome
from disent_assets.runner import Schedule
from disent_core.encoders.config import HuggingFaceConfig

MASSIVE = {
    "fine_tuned": 1338.4, "facet": 261.6, "dream_oracle": 71.9, "dream": 62.7, "fmda": 35.4, "projection": 2.4,
    "centered": 2.0, "raw": 1.4,
}  # fmt: skip
"""Seconds of a head with its metrics on real data: configs/massive_headline.toml, which the shipped durations are not
from."""


def step(name: str, partition: str | None = None, *after: Step) -> Step:
    return Step((dg.AssetKey(name.split("/")),), partition, frozenset(one.name for one in after))


def run_of(seconds: dict[str, float]) -> tuple[list[Step], dict[str, float], dict[str, float]]:
    """Steps as in the headline run; their expected and their true durations."""
    texts = [step("corpora/utterances", language) for language in ("en", "de")]
    vectors = [step("embeddings/own/own_vectors", one.partition, one) for one in texts]
    heads = [step(f"heads/own/{method}_head", "en-de", *vectors) for method in seconds]
    steps = [*texts, *vectors, *heads, step("warehouse/database", None, *heads)]
    encoding = ENCODING[HuggingFaceConfig]
    of_heads = [MEASURED[method] * (FINE_TUNING if method == "fine_tuned" else 1) for method in seconds]
    expected = [0.7, 0.7, encoding, encoding, *of_heads, 3.0]
    true = [2.5, 2.5, 86.0, 86.0, *seconds.values(), 17.0]
    names = [one.name for one in steps]
    return steps, dict(zip(names, expected, strict=True)), dict(zip(names, true, strict=True))


class Shown(NamedTuple):
    """What is shown at a time: the share in percent, and the seconds left."""

    at: float
    percent: int
    left: float


def played(steps: list[Step], expected: dict[str, float], true: dict[str, float], workers: int) -> list[Shown]:
    """What is shown during a run whose steps take `true` seconds."""
    estimate, schedule = Estimate(steps, expected, workers), Schedule(steps, set(), expected)
    now, ends, shown = 0.0, {}, [Shown(0.0, estimate.percent(0.0), estimate.left(0.0))]
    while True:
        while len(ends) < workers and (one := schedule.next()) is not None:
            estimate.begin(one, now)
            ends[one] = now + true[one.name]
        if not ends:
            break
        first = min(ends, key=lambda one: ends[one])
        for part in range(1, 20):  # the share is shown all the time
            moment = now + (ends[first] - now) * part / 20
            for one in (one for one in ends if "fine_tuned" in one.name):  # it logs how long its steps take
                estimate.say(one, moment, ends[one] - moment)
            shown.append(Shown(moment, estimate.percent(moment), estimate.left(moment)))
        now = ends.pop(first)
        estimate.end(first, now)
        list(schedule.end(first, Outcome()))
        shown.append(Shown(now, estimate.percent(now), estimate.left(now)))
    return shown


def largest_error(shown: list[Shown]) -> float:
    """The largest difference between the share shown and the share of the time, in points."""
    assert shown[-1].percent == 100
    assert all(earlier.percent <= later.percent for earlier, later in pairwise(shown))
    return max(abs(one.percent - 100 * one.at / shown[-1].at) for one in shown)


def largest_rise(shown: list[Shown]) -> float:
    """How far the time left rises above what was shown before, as a share of the whole time."""
    least = accumulate((one.left for one in shown), min)
    return max(one.left - before for one, before in zip(shown, least, strict=True)) / shown[-1].at


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("slower", [0.7, 1.0, 4.0])
def test_with_the_durations_of_the_last_time_the_share_is_at_most_20_points_off(workers, slower):
    steps, _, true = run_of(MASSIVE)
    chance = random.Random(workers)
    now = {name: seconds * slower * chance.uniform(0.8, 1.25) for name, seconds in true.items()}
    assert largest_error(played(steps, true, now, workers)) < 20


@pytest.mark.parametrize("workers", [1, 2])
def test_with_the_shipped_durations_the_share_of_a_run_on_real_data_is_at_most_15_points_off(workers):
    steps, expected, true = run_of(MASSIVE)
    assert largest_error(played(steps, expected, true, workers)) < 15


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("slower", [0.7, 1.0])
def test_with_the_durations_of_the_last_time_the_time_left_does_not_rise_by_more_than_a_twentieth(workers, slower):
    steps, _, true = run_of(MASSIVE)
    chance = random.Random(workers)
    now = {name: seconds * slower * chance.uniform(0.8, 1.25) for name, seconds in true.items()}
    assert largest_rise(played(steps, true, now, workers)) < 0.05


@pytest.mark.parametrize("workers", [1, 2])
def test_one_wrong_expectation_does_not_make_the_time_left_swing(workers):
    steps = [step("heads/own/fine_tuned_head"), *(step(f"heads/own/method_{number}_head") for number in range(20))]
    expected = {one.name: 10.0 for one in steps} | {steps[0].name: 300.0}
    shown = played(steps, expected, {one.name: 10.0 for one in steps}, workers)
    whole = shown[-1].at
    assert all(0.4 < (one.at + one.left) / whole < 2 for one in shown if one.at > whole / 4)
    assert largest_rise(shown) < 0.1


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
    with console.capture() as captured:
        console.print(display.render())
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert all(len(line) <= width for line in lines)
    assert any(line.startswith("dream on scratch [en-de]") and "30 of at most 200" in line for line in lines)
    assert lines[-1] == "0 of 2 steps, 35 %, 25 s, about 45 s left"


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
    assert begins == "dream on scratch [en-de]: begins (0 of 1 steps, 0 %, 0 s, about 60 s left)"
    assert len(between) == 2
    assert all(line.startswith("dream on scratch [en-de]: 30 of at most 200 epochs, ") for line in between)
    assert ends == "dream on scratch [en-de]: done after 60 s"


def test_a_warning_that_several_steps_log_is_shown_once():
    file = io.StringIO()
    lines = Lines(lambda: None, file, Clock())
    for step in (EN, DE):
        lines.log(step, logging.WARNING, "de.txt:2: a line that is not two words is left out (2 in this file)")
    assert file.getvalue().count("de.txt:2") == 1


@pytest.mark.parametrize(("seconds", "text"), [(8.4, "8 s"), (200, "3 min"), (7500, "2 h 5 min")])
def test_a_duration_has_at_most_two_units(seconds, text):
    assert duration(seconds) == text
