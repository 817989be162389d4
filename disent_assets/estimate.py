"""Estimate how much of a run is done and how long the rest takes, from the expected durations of its steps."""

from collections.abc import Mapping, Sequence

from disent_assets.plan import Step

TRUST = 0.01
"""How soon expectations give way to what is measured: after this share of the work, both count alike."""
LATE = 0.1
"""A step that takes longer than expected is thought to need this share of its time so far once more."""


class Estimate:
    """The state of a run; times are in seconds since its start.

    Expected durations are of another machine or other data, so only their ratios count: the steps that have ended say
    how much longer or shorter the others take.
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
        self.taken = self.expected = 0.0
        self.shown = 0.0

    def begin(self, step: Step, now: float) -> None:
        """A step begins."""
        self.running[step.name] = now

    def end(self, step: Step, now: float) -> None:
        """A step has ended, or can't be run."""
        began = self.running.pop(step.name, None)
        if began is not None:
            self.taken += now - began
            self.expected += self.seconds[step.name]
        self.done.add(step.name)

    def say(self, step: Step, now: float, left: float) -> None:
        """A running step itself says how many seconds are left of what it does now."""
        self.said[step.name] = now, left

    def left(self, now: float) -> float:
        """Seconds until the end: the work shared by the workers, but at least the longest chain of steps."""
        factor = self._factor(now)
        rest = {name: self._rest(name, now, factor) for name in self.seconds if name not in self.done}
        chain: dict[str, float] = {}
        for name in reversed(self.order):
            if name in rest:
                chain[name] = rest[name] + max((chain.get(one, 0.0) for one in self.below[name]), default=0.0)
        return max(sum(rest.values()) / self.workers, max(chain.values(), default=0.0))

    def _factor(self, now: float) -> float:
        """How much longer steps take than expected: those that have ended, and those that should have."""
        prior = TRUST * sum(self.seconds.values())
        taken, expected = self.taken + prior, self.expected + prior
        for name, began in self.running.items():
            if (now - began) * expected > self.seconds[name] * taken:
                taken, expected = taken + now - began, expected + self.seconds[name]
        return taken / expected

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
        self.shown = max(self.shown, 100 * now / (now + left) if now + left else 0.0)
        return min(99, int(self.shown))
