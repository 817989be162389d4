"""Pair the steps of the lineage with their assets, and plan a selection: which steps each step waits for."""

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from graphlib import TopologicalSorter

import dagster as dg

from disent_assets.run.steps import steps_in
from disent_core.lineage.state import Node, Partition, name_of
from disent_core.lineage.step import Step
from disent_core.lineage.workspace import Key, Workspace
from disent_core.registry import nearest


@dataclass(frozen=True, eq=False, kw_only=True)
class AssetStep(Step):
    """A step with the asset that Dagster materialises; the asset's keys may have a prefix."""

    asset: dg.AssetsDefinition

    @cached_property
    def asset_keys(self) -> tuple[tuple[str, ...], ...]:
        """Keys of the assets, with the prefix of the workspace."""
        return tuple(tuple(spec.key.path) for spec in self.asset.specs)

    @property
    def uses_device(self) -> bool:
        """Whether it takes the whole accelerator, if there is one."""
        return self.asset.op.pool is not None


def steps_of(
    workspace: Workspace, definitions: dg.Definitions, declared: Iterable[Step] | None = None
) -> list[AssetStep]:
    """Return the `declared` steps (by default those of the workspace) with their assets, upstream first."""
    assets = (asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition))
    by_key = {tuple(key.path[len(workspace.prefix) :]): asset for asset in assets for key in asset.keys}
    return [
        AssetStep(**{field.name: getattr(step, field.name) for field in fields(Step)}, asset=by_key[step.key])
        for step in (steps_in(workspace) if declared is None else declared)
    ]


STAGES = ("corpora", "negatives", "targets", "embeddings", "heads", "evaluation", "exports", "warehouse")
_STAGE = re.compile(rf"(?<![\w/:\"*])(?:group:)?\"?((?:{'|'.join(STAGES)})(?:/[\w.-]+)*)\"?(?![\w/*\"])")
"""A stage, or a prefix of its assets' names: `heads`, `heads/minilm`, `heads/minilm/facet_head`."""


@dataclass(frozen=True)
class StepRun:
    """A step on one of its partitions."""

    key: Key
    outputs: tuple[Key, ...]
    partition: Partition = None
    after: frozenset[str] = frozenset()  # names of steps it waits for; a name that is not in the plan is done
    uses_device: bool = False  # whether it takes the whole accelerator, if there is one

    @property
    def name(self) -> str:
        return name_of((self.key, self.partition))

    def __str__(self) -> str:
        return self.name


def plan(
    steps: Sequence[AssetStep],
    selections: Sequence[str] = (),
    partition: str | None = None,
    languages: Sequence[str] = (),
) -> list[StepRun]:
    """Return the steps that materialise selections (stages, or Dagster's syntax; none: everything), upstream first.

    With a partition, only that and what it is made from, such as a pair's languages. `languages` are those of a named
    training set.
    """
    selected = {step.key for step in steps}
    if selections:
        chosen = set().union(*(_select(steps, selection) for selection in selections))
        selected = {step.key for step in steps if chosen & {dg.AssetKey(key) for key in step.asset_keys}}
    if not selected:
        known = sorted({"/".join(output) for step in steps for output in step.outputs})
        meant = next(filter(None, (nearest(text.strip("+"), known) for text in selections)), "")
        raise ValueError(f"nothing to materialise in selection {' '.join(selections)!r}{meant}")
    upstream = _upstream(steps)
    allowed = upstream.keys() if partition is None else _made_for(partition, languages, upstream, selected)
    runs = _runs(steps, upstream, {node for node in allowed if node[0] in selected})
    if not runs:
        raise ValueError(f"no asset of the selection has a partition {partition!r}")
    return runs


def _select(steps: Sequence[AssetStep], selection: str) -> set[dg.AssetKey]:
    """Return the assets of a selection; a stage, or a prefix of names, selects all its assets."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    text = _STAGE.sub(r'(key:"\1" or key:"\1/*")', selection)
    try:
        return set(dg.AssetSelection.from_string(text).resolve([step.asset for step in steps]))
    except dg.DagsterError as error:
        if named := re.fullmatch(r"(.*?) *\[(.+)\]", selection):
            problem = f"selection {selection!r} can't be read; give the partition as an option"
            raise ValueError(f"{problem}: {named[1]} --partition {named[2]}") from error
        name = selection.strip("+")
        ending = [key for step in steps for key in map("/".join, step.outputs) if key.endswith(f"/{name}")]
        close = f" (did you mean {ending[0]!r}?)" if ending else nearest(name, STAGES)
        meant = close or "; write for instance 'heads' or '+evaluation'"
        raise ValueError(f"selection {selection!r} can't be read{meant}; the stages are {', '.join(STAGES)}") from error


def _upstream(steps: Sequence[AssetStep]) -> dict[Node, set[Node]]:
    step_of = {output: step.key for step in steps for output in step.outputs}
    return {
        (step.key, partition): {(step_of[key], name) for key, name in step.parents(partition) if key in step_of}
        for step in steps
        for partition in step.names
    }


def _made_for(
    partition: str, languages: Sequence[str], upstream: Mapping[Node, set[Node]], selected: Collection[Key]
) -> set[Node]:
    """Return the selected steps of a partition and its languages, and the partitions that they are made from.

    Steps without partitions, such as an encoder pretrained on all languages, count only if selected.
    """
    known = sorted({name for _, name in upstream if name is not None})
    if partition not in known:
        meant = nearest(partition, known)
        raise ValueError(f"there is no partition {partition!r}{meant}; the partitions are {', '.join(known)}")
    parts = {partition, *partition.replace("+", "-").split("-"), *languages}
    around = _with_upstream({node for node in upstream if node[1] == partition}, upstream, selected)
    # Not all of `around`: a pair's metrics are made from texts of others, which `targets` did not ask for.
    return _with_upstream({node for node in around if node[0] in selected and node[1] in parts}, upstream, selected)


def _with_upstream(nodes: Iterable[Node], upstream: Mapping[Node, set[Node]], selected: Collection[Key]) -> set[Node]:
    reached, due = set(nodes), list(nodes)
    while due:
        above = {node for node in upstream[due.pop()] - reached if node[1] is not None or node[0] in selected}
        reached |= above
        due += above
    return reached


def _runs(steps: Sequence[AssetStep], upstream: Mapping[Node, set[Node]], chosen: Collection[Node]) -> list[StepRun]:
    """Return the chosen nodes, upstream first; they also wait for each other through nodes that are not chosen."""
    by_key = {step.key: step for step in steps}
    runs: list[StepRun] = []
    waits_for: dict[Node, frozenset[str]] = {}
    for node in TopologicalSorter(upstream).static_order():
        above = [{name_of(parent)} if parent in chosen else waits_for[parent] for parent in upstream[node]]
        waits_for[node] = frozenset().union(*above)
        if node in chosen:
            step = by_key[node[0]]
            runs.append(StepRun(step.key, step.outputs, node[1], waits_for[node], step.uses_device))
    return runs
