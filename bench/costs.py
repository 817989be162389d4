"""Compare the dearest steps of a finished home with the matrix products alone that they compute.

What a step took is what `disent costs` shows. Its products are counted in a part of it that runs again here, without
writing to the home: 8,192 texts of an encoding, the first epoch of a training, the problems of the first seed of an
evaluation; the rest of the step has as many for each text, training step or seed. Each product is then timed alone, on
matrices of the same shapes and number formats. Products outside of torch (probes, clusters, resamplings) are not
counted. A step with none has no share: it reads, writes or compares texts.

DISENT_CONFIG=... DISENT_HOME=... python -m bench.costs [--steps 20] [--only "evaluation/*"]
"""

import argparse
import tempfile
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.products import Recorded
from disent_assets.settings.environment import open_workspace
from disent_assets.warehouse.costs import read_run_table
from disent_core.errors import DisentError
from disent_core.evaluation.runner import evaluate
from disent_core.lineage import evaluation, heads
from disent_core.lineage.embeddings import STATES, lazy_encoder, tables_of, text_plan
from disent_core.lineage.evaluation_inputs import Scopes, tasks_of
from disent_core.lineage.heads import load_head
from disent_core.lineage.workspace import Workspace
from disent_core.methods.trainer import TrainedMethod, trainer
from disent_core.storage.schemas import STEP_COSTS
from disent_core.training.epoch import Fit

TEXTS = 8192
"""Texts of a language to encode again; with fewer, batches would be mostly padding."""
COLUMNS = ("step", "seconds of the processor", "its products alone, s", "share of the limit", "peak memory, MB")


def products(workspace: Workspace, step: Mapping[str, Any]) -> float | None:
    """Return the processor seconds of a step's products alone; None if it has none that we count."""
    parts = {"embeddings": _of_encoding, "heads": _of_training, "evaluation": _of_evaluation}
    if step["encoder"] is None or step["stage"] not in parts:
        return None
    recorded = Recorded()
    times = parts[step["stage"]](workspace, step, recorded)
    return times * recorded.seconds_alone() or None


def _of_encoding(workspace: Workspace, step: Mapping[str, Any], recorded: Recorded) -> float:
    if not step["texts"]:
        return 0.0
    plan = text_plan(workspace, step["encoder"], step["partition"])
    rows = np.random.default_rng(0).permutation(len(plan))[:TEXTS]
    encoder = lazy_encoder(workspace, step["encoder"]).load(step["partition"])
    states = STATES in tables_of(workspace.config, step["encoder"])
    with recorded:
        deque(encoder.encode(plan.of(np.sort(rows)), states=states), maxlen=0)
    return step["texts"] / len(rows)


def _of_training(workspace: Workspace, step: Mapping[str, Any], recorded: Recorded) -> float:
    if not step["steps"]:
        return 0.0
    method = _method(workspace, step)
    run, open_data = heads.head_and_data(workspace, step["encoder"], method, step["partition"])
    with tempfile.TemporaryDirectory() as folder:
        fit = trainer(run.method).fit(open_data(), run.settings, Fit(run.seeds, Path(folder) / "checkpoint", "costs"))
        with recorded:
            epoch = next(fit)
        fit.close()  # pyright: ignore[reportAttributeAccessIssue] - every fit is a generator
    return step["steps"] / epoch.steps


def _of_evaluation(workspace: Workspace, step: Mapping[str, Any], recorded: Recorded) -> float:
    if step["method"] is None:
        return 0.0
    method, of = _method(workspace, step), (step["encoder"], step["partition"])
    trained = load_head(workspace, of[0], method, of[1], "cpu")
    if not isinstance(trained, TrainedMethod):
        return 0.0
    seeds = workspace.config.seeds_of(method) if method.method.is_seeded else None
    with recorded:
        evaluate(
            evaluation.problems_of(workspace, tasks_of(workspace.config), Scopes(workspace.config).of(method, of[1])),
            evaluation.embedder(workspace, of[0], method, trained),
            method=method.name,
            encoder=of[0],
            trained_on=of[1],
            seeds=None if seeds is None else seeds[:1],
            config=workspace.config.evaluation,
            fingerprint="",
            created_at=step["made_at"],
        )
    return float(len(seeds or [None]))


def _method(workspace: Workspace, step: Mapping[str, Any]) -> Any:
    return next(method for method in workspace.config.methods_of(step["encoder"]) if method.name == step["method"])


def main() -> None:
    """Print the table, most expensive step first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="how many steps, the dearest first")
    parser.add_argument("--only", default="*", help="pattern of their assets, such as `heads/minilm_mean/*`")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workspace = open_workspace()
    steps = [
        step for step in read_run_table(workspace, STEP_COSTS).to_pylist() if fnmatch(step["asset"], arguments.only)
    ]
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for step in sorted(steps, key=lambda step: -step["processor_seconds"])[: arguments.steps]:
        alone = None
        with suppress(DisentError, StopIteration):  # its method or one of its input tables is gone
            alone = products(workspace, step)
        cells = [
            f"`{step['asset']}` {step['partition'] or ''}",
            f"{step['processor_seconds']:.1f}",
            "" if alone is None else f"{alone:.1f}",
            "" if alone is None else f"{alone / step['processor_seconds']:.2f}",
            "" if step["peak_memory"] is None else f"{step['peak_memory'] / 1e6:.0f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
