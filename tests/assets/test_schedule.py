"""The order in which steps run side by side, and what a failure stops."""

import pytest
from toy_steps import planned as step

from disent_assets.run import runner
from disent_assets.run.plan import StepRun
from disent_assets.run.runner import Schedule, worthwhile_workers
from disent_assets.run.step import Outcome

FAILED, CHANGED = Outcome(failure="broken"), Outcome(made=1, changed=True)


def drain(schedule: Schedule, outcomes: dict[StepRun, Outcome]) -> list[StepRun]:
    """Run all steps one after the other; returns those that ran."""
    ran = []
    while (due := schedule.next()) is not None:
        ran.append(due)
        list(schedule.end(due, outcomes.get(due, Outcome())))
    return ran


EN, DE = step("corpora/a", "en"), step("corpora/a", "de")
EN_HEAD, DE_HEAD = step("heads/a", "en", EN), step("heads/a", "de", DE)
GATHERED = step("warehouse/a", None, EN_HEAD, DE_HEAD)
ALL = [EN, DE, EN_HEAD, DE_HEAD, GATHERED]


FULL = Outcome(failure="full", is_of_disk=True)
RUNS = {
    "a failure stops only what depends on it": ({EN: FAILED}, {}, [EN, DE, DE_HEAD, GATHERED], [EN_HEAD]),
    "nothing begins after a failure of the disk": ({EN: FULL}, {}, [EN], [DE, EN_HEAD, DE_HEAD, GATHERED]),
    "nothing gathers if all has failed": ({EN: FAILED, DE: FAILED}, {}, [EN, DE], [EN_HEAD, DE_HEAD, GATHERED]),
    "the longest chain runs first": ({}, {DE_HEAD.name: 9.0}, [DE, DE_HEAD, EN, EN_HEAD, GATHERED], []),
}


@pytest.mark.parametrize(("outcomes", "seconds", "ran", "blocked"), RUNS.values(), ids=RUNS)
def test_steps_run_in_order_and_a_failure_blocks_its_dependents(outcomes, seconds, ran, blocked):
    schedule = Schedule(ALL, set(), seconds)
    assert drain(schedule, outcomes) == ran
    assert set(schedule.result.blocked) == set(blocked)


def test_independent_steps_run_at_once_and_dependent_ones_wait():
    schedule = Schedule(ALL, set(), {})
    assert [schedule.next(), schedule.next(), schedule.next()] == [EN, DE, None]


def test_one_step_at_a_time_has_the_accelerator_and_others_run_beside_it():
    first, second = step("heads/a", "en", uses_device=True), step("heads/b", "en", uses_device=True)
    schedule = Schedule([first, second, EN], set(), {})
    assert [schedule.next(), schedule.next(), schedule.next()] == [first, EN, None]
    list(schedule.end(first, Outcome()))
    assert schedule.next() == second


def test_only_dependents_of_a_changed_step_are_stale():
    schedule = Schedule(ALL, set(ALL), {})
    drain(schedule, {EN: CHANGED})
    assert schedule.fresh == {EN, DE, DE_HEAD, GATHERED}


@pytest.mark.parametrize(("seconds", "workers"), [((30.0, 30.0), 4), ((2.0, 2.0), 1)])
def test_workers_are_started_if_they_save_more_than_they_cost(monkeypatch, seconds, workers):
    monkeypatch.setattr(runner, "most_workers", lambda: 4)
    assert worthwhile_workers(dict(enumerate(seconds))) == workers
