"""Estimate how much of a run is done and how long the rest takes, from the expected durations of its steps."""

import math
from collections.abc import Mapping, Sequence

from disent_assets.plan import Step

TRUST = 0.3
"""How soon expectations give way to what is measured: they count as much as so many typical steps."""
STEADY = 0.05
"""What is shown follows what is estimated within this share of the whole time."""
LATE = 0.1
"""A step that takes longer than expected is thought to need this share of its time so far once more."""


class Estimate:
    """The state of a run; times are in seconds since its start.

    Expected durations are of another machine or other data, so only their ratios count: the steps that have ended say
    how many times longer or shorter the others take. The logarithms of their ratios are averaged, and no step counts
    more than a typical one: an expectation that is far off says little about other steps, even if it is that of the
    longest. It says as much as all others together about the other partitions of its asset.
    """

    def __init__(self, steps: Sequence[Step], seconds: Mapping[str, float], workers: int) -> None:
        self.seconds = {step.name: max(seconds[step.name], 1e-3) for step in steps}
        self.below: dict[str, list[str]] = {name: [] for name in self.seconds}
        for step in steps:
            for name in step.after & self.seconds.keys():
                self.below[name].append(step.name)
        self.order = [step.name for step in steps]
        self.workers = workers
        self.running: dict[str, float] = {}
        self.said: dict[str, tuple[float, float]] = {}
        self.done: set[str] = set()
        self.asset = {step.name: step.keys[0] for step in steps}
        self.ratios: dict[str, float] = {}
        roots = {name: math.sqrt(expected) for name, expected in self.seconds.items()}
        self.typical = sum(self.seconds.values()) / max(sum(roots.values()), 1e-3)  # of a moment of work, not of a step
        self.votes = {name: min(root, self.typical) for name, root in roots.items()}
        self.percent_shown = 0.0
        self.shown: tuple[float, float] | None = None

    def begin(self, step: Step, now: float) -> None:
        """A step begins."""
        self.running[step.name] = now

    def end(self, step: Step, now: float) -> None:
        """A step has ended, or can't be run."""
        began = self.running.pop(step.name, None)
        if began is not None:
            self.ratios[step.name] = self._ratio(step.name, now - began)
        self.done.add(step.name)

    def say(self, step: Step, now: float, left: float) -> None:
        """A running step itself says how many seconds are left of what it does now."""
        self.said[step.name] = now, left

    def left(self, now: float) -> float:
        """Seconds until the end, without jumps."""
        end = now + self._left(now)
        if self.shown is not None:
            at, before = self.shown
            end += (before - end) * math.exp((at - now) / (STEADY * max(before, 1.0)))
        self.shown = now, end
        return max(end - now, 0.0)

    def _left(self, now: float) -> float:
        """The work shared by the workers, but at least the longest chain of steps."""
        general = self._general_ratio(now)
        own: dict[object, list[float]] = {}
        for name, ratio in self.ratios.items():
            own.setdefault(self.asset[name], [general]).append(ratio)
        factor = {asset: math.exp(sum(ratios) / len(ratios)) for asset, ratios in own.items()}
        rest = {
            name: self._rest(name, now, factor.get(self.asset[name], math.exp(general)))
            for name in self.seconds
            if name not in self.done
        }
        chain: dict[str, float] = {}
        for name in reversed(self.order):
            if name in rest:
                chain[name] = rest[name] + max((chain.get(one, 0.0) for one in self.below[name]), default=0.0)
        return max(sum(rest.values()) / self.workers, max(chain.values(), default=0.0))

    def _general_ratio(self, now: float) -> float:
        """The mean ratio of the steps that have ended, and of those that should have."""
        votes, weighted = TRUST * self.typical, 0.0
        late = {name: self._ratio(name, now - began) for name, began in self.running.items()}
        for name, ratio in (self.ratios | late).items():
            if name in self.ratios or ratio * votes > weighted:
                votes, weighted = votes + self.votes[name], weighted + self.votes[name] * ratio
        return weighted / votes if votes else 0.0

    def _ratio(self, name: str, seconds: float) -> float:
        return math.log(max(seconds, 1e-3) / self.seconds[name])

    def _rest(self, name: str, now: float, factor: float) -> float:
        expected = self.seconds[name] * factor
        if name not in self.running:
            return expected
        gone = now - self.running[name]
        said, left = self.said.get(name, (now, LATE * gone))
        return max(expected - gone, left - (now - said), 0.0)

    def percent(self, now: float) -> int:
        """Share of the time that has passed; it never falls, and is 100 only at the end."""
        if len(self.done) == len(self.seconds):
            return 100
        left = self.left(now)
        self.percent_shown = max(self.percent_shown, 100 * now / (now + left) if now + left else 0.0)
        return min(99, int(self.percent_shown))
