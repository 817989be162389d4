"""Stage `evaluation`: the trials of a settings search (`[settings_search]`), and each method's best trial."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from disent_core.config.model import MethodConfig
from disent_core.errors import TableError
from disent_core.lineage.headline import headline
from disent_core.lineage.result import Check, StepResult, result_of, unique_rows
from disent_core.lineage.workspace import Workspace
from disent_core.storage.tables import content_of, fingerprint, rows_table

CODE_VERSION = "1"
ONE_CHOSEN = Check("one_trial_of_each_method_is_chosen", "Each method that is searched has one chosen trial.", True)


def version(workspace: Workspace) -> str:
    """Return the fingerprint of the code and settings that determine the choice."""
    return fingerprint(CODE_VERSION, asdict(workspace.config.settings_search))


def refresh_settings_search(workspace: Workspace, encoder: str) -> StepResult:
    """Write one row for each trial on an encoder, scored by its metrics on dev, unless that is up to date."""
    config = workspace.config
    trials = config.trials_of(encoder)
    measured = [(encoder, method.name, name) for method in trials for name in config.training_sets_of(method)]
    metrics = [content_of(workspace.table("evaluation", "metrics", *of)) for of in measured]
    inputs = fingerprint(version(workspace), metrics)

    def scores(method: MethodConfig) -> dict[str, float]:
        of_sets = [
            headline(
                workspace.read("evaluation", "metrics", encoder, method.name, name).to_pylist(),
                config.pair_languages[name],
            )
            for name in config.training_sets_of(method)
        ]
        return {name: fmean(figures[name] for figures in of_sets) for name in of_sets[0]}

    def rows() -> list[dict[str, Any]]:
        common = {"encoder": encoder, "fingerprint": inputs, "created_at": datetime.now(UTC)}
        by = config.settings_search.by
        return choose([_row(method, scores(method), by) | common for method in trials])

    key = ("evaluation", "settings_search", encoder)
    refreshed = workspace.refresh(
        *key,
        inputs=inputs,
        make=lambda: rows_table(rows(), "settings_search"),
        key=("encoder", "method", "trial"),
    )
    stored = workspace.read(*key, columns=["method", "is_chosen"])
    chosen = stored.filter(stored["is_chosen"])["method"].to_pylist()
    is_one = sorted(chosen) == sorted({method.trial_of for method in trials})
    return result_of([refreshed], checks=[unique_rows([refreshed]), ONE_CHOSEN.result(is_one, chosen=chosen)])


def _row(method: MethodConfig, figures: Mapping[str, float], by: Sequence[str]) -> dict[str, Any]:
    directions = [figures[name] for name in ("accuracy_at_1", "accuracy_at_1_reverse") if name in figures]
    parts = {
        "translation": fmean(directions) if directions else None,
        "template": figures.get("template_accuracy_at_1"),
    }
    scores = [value for name in by if (value := parts[name]) is not None]
    if len(scores) < len(by):
        absent = " and ".join(name for name in by if parts[name] is None)
        remedy = (
            "name crosslingual_retrieval and template_retrieval in [evaluation] tasks, and dev in the splits of "
            "[targets.template_pairs]; or choose by the other alone, by = [...] in [settings_search]"
        )
        raise TableError(f"settings_search: {method.name} has no figure for {absent} on dev; {remedy}")
    return {
        "method": method.trial_of,
        "trial": method.trial,
        "name": method.name,
        "settings": json.dumps(method.changed, sort_keys=True),
        **parts,
        "score": fmean(scores),
    }


def choose(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with `is_chosen`, true for each method's trial with the highest score (the first of ties)."""
    best: dict[str, tuple[float, int]] = {}
    for row in rows:
        best[row["method"]] = max(best.get(row["method"], (float("-inf"), 0)), (row["score"], -row["trial"]))
    return [{**row, "is_chosen": (row["score"], -row["trial"]) == best[row["method"]]} for row in rows]
