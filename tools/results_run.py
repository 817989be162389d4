"""Bring the runs behind the tables of results up to date: `disent results --run`.

Each configuration is materialised by a process of its own, so that a run can be stopped and gone on with later.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disent_assets.definitions import build
from disent_assets.durations import expected_seconds, read_seconds
from disent_assets.estimate import Estimate
from disent_assets.instance import open_instance
from disent_assets.plan import plan
from disent_assets.progress import duration
from disent_assets.resources import environment_of
from disent_assets.runner import fresh_steps, usable_cores
from disent_assets.stopping import stoppable
from disent_core.config.checks import absent_corpora
from disent_core.config.load import load_config
from disent_core.errors import DisentError
from disent_core.experiment.workspace import Workspace
from disent_core.storage.atomic import write_text

SECONDS = Path("docs", "seconds.json")
"""Seconds of the steps of the runs behind the pages, by configuration: what a first run expects."""


@dataclass(frozen=True)
class Outlook:
    """What there is to do in a configuration.

    Attributes:
        config: its path, as the pages name it.
        home: the folder of its results.
        due: number of steps that are stale or missing.
        steps: number of all steps.
        seconds: that the steps to make take on this machine's cores; None if no run of the configuration is known.
        absent: name -> path of the corpora that have to be put there first.
    """

    config: str
    home: Path
    due: int
    steps: int
    seconds: float | None
    absent: dict[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.due:
            told = ""
        elif self.seconds is None:
            told = "; nobody has recorded yet how long they take"
        else:
            told = f", about {duration(self.seconds)} on {usable_cores()} cores"
        lines = [f"{self.config} in {self.home}: {self.due} of {self.steps} steps to make{told}"]
        if self.absent:
            lines.append("  these corpora are missing (docs/corpora.md says where to get them):")
            lines += [f"    {name}: {path}" for name, path in self.absent.items()]
        return "\n".join(lines)


def outlook(project: Path, config: str, home: Path) -> Outlook:
    """Plan what is stale or missing, and expect how long it takes. No result is changed.

    Steps that no run has recorded take as much longer than in the demo as the recorded ones do.

    Args:
        project: the folder of README and docs.
        config: path of the configuration, as the pages name it.
        home: the folder of its results.
    """
    workspace = Workspace(load_config(project / config), home)
    definitions = build(workspace)
    steps = plan(definitions)
    fresh = set()
    if (home / "dagster").is_dir():
        with open_instance(home) as instance:
            fresh = fresh_steps(definitions, steps, instance)
    recorded = {**shipped_seconds(project).get(config, {}), **read_seconds(home)}
    guessed = expected_seconds(steps, workspace.config, {})
    known = recorded.keys() & guessed.keys()
    factor = sum(recorded[name] for name in known) / sum(guessed[name] for name in known) if known else 0.0
    seconds = expected_seconds(
        steps, workspace.config, {name: factor * guess for name, guess in guessed.items()} | recorded, fresh
    )
    left = Estimate(steps, seconds, usable_cores()).left(0.0) if known else None
    due, absent = len(steps) - len(fresh), absent_corpora(workspace.config)
    return Outlook(config=config, home=home, due=due, steps=len(steps), seconds=left, absent=absent)


def materialize(project: Path, config: str, home: Path) -> None:
    """Materialise everything that is stale or missing, with the progress of `disent materialize`.

    Raises:
        DisentError: if a step fails. What was made is kept.
    """
    command = [sys.executable, "-m", "disent_assets.cli", "materialize"]
    process = subprocess.Popen(command, env=environment_of(project / config, home))
    with stoppable(process.terminate):
        try:
            code = process.wait()
        finally:  # after a signal it still runs; what it has made is kept
            process.terminate()
    if code:
        raise DisentError(
            f"{config}: the run ended with exit code {code}. Correct what it names, and repeat the command"
        )


def shipped_seconds(project: Path) -> dict[str, dict[str, float]]:
    """Seconds of each step of the runs behind the pages, by configuration."""
    path = project / SECONDS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def ship_seconds(project: Path, homes: Mapping[str, Path]) -> None:
    """Record the seconds of all steps of a second and more; those that a home lacks keep what is recorded."""
    shipped = shipped_seconds(project)
    for config, home in homes.items():
        if measured := read_seconds(home):
            recorded = shipped.get(config, {}) | measured
            shipped[config] = {name: round(seconds) for name, seconds in recorded.items() if seconds >= 1}
    if shipped:
        write_text(project / SECONDS, json.dumps(shipped, indent=0, sort_keys=True) + "\n")
