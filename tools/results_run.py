"""Bring the runs behind the tables of results up to date: `python -m tools.results --run`.

Each configuration is materialised in a separate process, so that a run can be stopped and resumed later.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disent_assets.definitions import build
from disent_assets.run.plan import plan, steps_of
from disent_assets.run.progress import duration
from disent_assets.run.runner import expected_seconds, fresh_runs, recorded_seconds
from disent_assets.run.steps import find_states
from disent_assets.run.stopping import stoppable
from disent_assets.settings.environment import address_of
from disent_core.config.checks import absent_corpora
from disent_core.config.load import load_config
from disent_core.errors import DisentError
from disent_core.lineage.workspace import Workspace
from disent_core.methods.spec import usable_cores
from disent_core.storage.files import write_text

SECONDS = Path("docs", "seconds.json")
"""Seconds of the steps of the runs behind the pages, by configuration: the estimate for a first run."""


@dataclass(frozen=True)
class Outlook:
    """What remains to be done for a configuration.

    Attributes:
        config: its path, as on the pages.
        home: the folder of its results.
        due: number of steps that are stale or missing.
        steps: number of all steps.
        seconds: estimate for the due steps on this machine's cores; None if no run of the configuration is known.
        absent: name -> path of corpora that the user must provide first.
    """

    config: str
    home: Path
    due: int
    steps: int
    seconds: float | None
    absent: dict[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.due:
            expected = ""
        elif self.seconds is None:
            expected = "; their durations are not recorded yet"
        else:
            expected = f", about {duration(self.seconds)} on {usable_cores()} cores"
        lines = [f"{self.config} in {self.home}: {self.due} of {self.steps} steps to make{expected}"]
        if self.absent:
            lines.append("  these corpora are missing (docs/corpora.md says where to get them):")
            lines += [f"    {name}: {path}" for name, path in self.absent.items()]
        return "\n".join(lines)


def outlook(project: Path, config: str, home: Path) -> Outlook:
    """List what is stale or missing, and estimate how long it takes, without changing results.

    For steps that no run has recorded, scale the demo's seconds by the ratio of the recorded ones.

    Args:
        project: the folder of README and docs.
        config: path of the configuration, as on the pages.
        home: the folder of its results.
    """
    workspace = Workspace(load_config(project / config), home)
    of_lineage = steps_of(workspace, build(workspace))
    steps = plan(of_lineage)
    fresh = fresh_runs(steps, find_states(workspace)) if home.is_dir() else set()
    recorded = {**shipped_seconds(project).get(config, {}), **recorded_seconds(workspace)}
    guessed = expected_seconds(steps, {})
    known = recorded.keys() & guessed.keys()
    factor = sum(recorded[name] for name in known) / sum(guessed[name] for name in known) if known else 0.0
    settled = {step.name for step in fresh}
    seconds = expected_seconds(steps, {name: factor * guess for name, guess in guessed.items()} | recorded, settled)
    left = sum(seconds.values()) / usable_cores() if known else None
    due, absent = len(steps) - len(fresh), absent_corpora(workspace.config)
    return Outlook(config=config, home=home, due=due, steps=len(steps), seconds=left, absent=absent)


def materialize(project: Path, config: str, home: Path) -> None:
    """Materialise everything stale or missing, with the progress display of `disent materialize`."""
    command = [sys.executable, "-m", "disent_assets.cli", "materialize"]
    environment = {**os.environ, "DISENT_CONFIG": str(project / config), "DISENT_HOME": address_of(home)}
    process = subprocess.Popen(command, env=environment)
    with stoppable(process.terminate):
        try:
            code = process.wait()
        finally:  # after a signal it is still running; its results are kept
            process.terminate()
    if code:
        raise DisentError(
            f"{config}: the run ended with exit code {code}. Correct what it names, and repeat the command"
        )


def shipped_seconds(project: Path) -> dict[str, dict[str, float]]:
    """Return the seconds of each step of the runs behind the pages, by configuration."""
    path = project / SECONDS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def ship_seconds(project: Path, homes: Mapping[str, Path]) -> None:
    """Record the seconds of all steps of a second or more; keep the recorded ones of steps that a home lacks."""
    shipped = shipped_seconds(project)
    for config, home in homes.items():
        workspace = Workspace(load_config(project / config), home)
        if home.is_dir() and (measured := recorded_seconds(workspace)):
            recorded = shipped.get(config, {}) | measured
            shipped[config] = {name: round(seconds) for name, seconds in recorded.items() if seconds >= 1}
    if shipped:
        write_text(project / SECONDS, json.dumps(shipped, indent=0, sort_keys=True) + "\n")
