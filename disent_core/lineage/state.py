"""Record what every step read and made, and derive from these records what is fresh, stale, missing or failed.

A record is a small file for each step and partition. A partition is fresh if its files exist, its step still has the
recorded version, and all its inputs still have the recorded content.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from disent_core.lineage.step import Node, Partition, Step
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.files import locked
from disent_core.storage.results import fetch_all, none_if_damaged, read_result, result_exists, write_text_result

PUBLISHED = "published"
"""Name of the record with the content of the published files."""
NOT_RECORDED = "an earlier version of disent made it; 'disent materialize' checks it and remakes only what differs"


_WITHOUT_COST: Mapping[str, Any] = {"seconds": None, "cost": None}


# --- records ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRecord:
    """What a step did when it last ran on a partition.

    Attributes:
        version: of the step.
        reads: content of all its inputs, by name; None for inputs that did not exist.
        contents: content hash of every output, by name; from the last success if it failed.
        seconds: duration when it last made something.
        cost: other columns of `step_costs` from that time.
        error: why it failed, if it did.
    """

    version: str
    reads: Mapping[str, str | None]
    contents: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    cost: Mapping[str, Any] | None = None
    error: str | None = None

    def same_state(self, other: "StepRecord | None") -> bool:
        """Return whether both lead to the same states."""
        return other is not None and replace(self, **_WITHOUT_COST) == replace(other, **_WITHOUT_COST)


def name_of(node: Node) -> str:
    """Return the name of an asset and its partition, as shown in messages."""
    key, partition = node
    return f"{'/'.join(key)} [{partition}]" if partition else "/".join(key)


def read_record(workspace: Workspace, key: Key, partition: Partition) -> StepRecord | None:
    """Read the record of a step; None if there is none, or it is damaged."""
    recorded = _read(_record_path(workspace, key, partition))
    try:
        return None if recorded is None else StepRecord(**recorded)
    except TypeError:  # written by another version
        return None


def write_record(workspace: Workspace, key: Key, partition: Partition, record: StepRecord) -> None:
    """Write the record of a step; without a cost, keep the recorded one.

    Another process may have made the results while this one waited for them; in a home in a bucket, where this process
    sees the store as it was before the step, its cost is lost.
    """
    path = _record_path(workspace, key, partition)
    with locked(path):
        if record.cost is None and (last := read_record(workspace, key, partition)) is not None:
            record = replace(record, seconds=last.seconds, cost=last.cost)
        _write(path, asdict(record))


def _record_path(workspace: Workspace, key: Key, partition: Partition) -> Path:
    return workspace.record(*key, *([partition] if partition else []))


def read_published(workspace: Workspace) -> dict[str, str]:
    """Read the last observed content of the published files, by name."""
    return _read(workspace.record(PUBLISHED)) or {}


def write_published(workspace: Workspace, contents: Mapping[str, str]) -> None:
    if contents != read_published(workspace):
        _write(workspace.record(PUBLISHED), contents)


def _read(path: Path) -> dict[str, Any] | None:
    text = none_if_damaged(lambda: read_result(path))
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _write(path: Path, recorded: Mapping[str, Any]) -> None:
    write_text_result(path, json.dumps(recorded, indent=1, sort_keys=True) + "\n")


class Records:
    """The records of a workspace, each read once.

    `published` has the content of the published files by name; by default, as last observed.
    """

    def __init__(self, workspace: Workspace, steps: Iterable[Step], published: Mapping[str, str] | None = None) -> None:
        self.workspace, self.steps = workspace, list(steps)
        self.step_of = {output: step for step in self.steps for output in step.outputs}
        self.published = read_published(workspace) if published is None else published
        self._records: dict[Node, StepRecord | None] = {}

    def of(self, step: Step, partition: Partition) -> StepRecord | None:
        node = step.key, partition
        if node not in self._records:
            self._records[node] = read_record(self.workspace, *node)
        return self._records[node]

    def content(self, node: Node) -> str | None:
        """Return the recorded content of an asset; None if it has not been made."""
        if (step := self.step_of.get(node[0])) is None:
            return self.published.get(name_of(node))
        record = self.of(step, node[1])
        return record.contents.get("/".join(node[0])) if record else None

    def reads(self, step: Step, partition: Partition) -> dict[str, str | None]:
        """Return the current content of a step's inputs."""
        return {name_of(parent): self.content(parent) for parent in step.parents(partition)}

    def causes(self, step: Step, partition: Partition, record: StepRecord) -> Iterator[str]:
        """Yield what has changed since a step ran, in words."""
        if record.version != step.version:
            yield f"{name_of((step.key, partition))}: its code or settings have changed"
        reads = self.reads(step, partition)
        for name, content in reads.items():
            if name not in record.reads:
                yield f"{name}: has a new dependency on {_asset(name)}"
            elif content is not None and content != record.reads[name]:
                yield f"{name}: its content has changed"
        removed = dict.fromkeys(_asset(name) for name in record.reads if name not in reads)
        yield from (f"{asset}: removed dependency on {asset}" for asset in removed)


def _asset(name: str) -> str:
    return name.partition(" [")[0]


# --- states -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """The state of one partition of an asset; `is_settled` if it and everything upstream are fresh."""

    asset: str
    partition: Partition
    status: str
    causes: tuple[str, ...]
    is_settled: bool


def states(
    records: Records,
    steps: Iterable[Step],
    *,
    unreadable: Iterable[Node] = (),
    not_due: Iterable[Key] = (),
    made: Iterable[Key] = (),
) -> Iterator[State]:
    """Yield the state of every partition of every asset; `steps` come upstream first.

    The published files of `unreadable` partitions can't be read; steps with keys in `not_due` have nothing to make, and
    those with keys in `made` count as just made.
    """
    by_node: dict[Node, State] = {}
    steps = list(steps)
    fetch_all(_record_path(records.workspace, step.key, partition) for step in steps for partition in step.names)
    for step in steps:
        for partition in [None] if step.partitions is None else step.partitions:
            parents = [by_node[parent] for parent in step.parents(partition) if parent in by_node]
            for key in step.outputs:
                status, causes = _status(records, step, key, partition, [parent.status for parent in parents])
                if key in made or (status == "missing" and key in not_due):
                    status, causes = "fresh", ()
                if status == "fresh" and (key, partition) in unreadable:
                    status, causes = "stale", ("its published files can't be read",)
                is_settled = status == "fresh" and all(parent.is_settled for parent in parents)
                state = State("/".join(key), partition, status, causes, is_settled)
                by_node[key, partition] = state
                yield state


def _status(
    records: Records, step: Step, key: Key, partition: Partition, parents: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    record, files = records.of(step, partition), step.files(partition)
    if record is None:
        # A step without files states what it reads: it has been made if its inputs have.
        was_made = all(map(result_exists, files)) if files else bool(parents) and "missing" not in parents
        return ("stale", (NOT_RECORDED,)) if was_made else ("missing", ())
    causes = tuple(records.causes(step, partition, record))
    if record.error is not None and not causes:
        return "failed", (record.error,)
    if "/".join(key) not in record.contents:
        return "missing", ()
    if not all(map(result_exists, files)):
        return "missing", ("its files are gone",)
    return ("stale", causes) if causes else ("fresh", ())


def missing_input(
    all_states: Iterable[State], steps: Iterable[Step], chosen: Collection[Node]
) -> tuple[Node, Node] | None:
    """Return the first missing input of a chosen step, and that step, which therefore can't be made.

    `chosen` has steps by their first output. A step without files makes nothing: its inputs count instead.
    """
    missing = {(state.asset, state.partition) for state in all_states if state.status == "missing"}
    step_of = {output: step for step in steps for output in step.outputs}

    def lacking(step: Step, partition: Partition) -> Iterator[Node]:
        for key, name in step.parents(partition):
            if ("/".join(key), name) in missing and key in step_of and (step_of[key].key, name) not in chosen:
                yield from [(key, name)] if step_of[key].files(name) else lacking(step_of[key], name)

    for key, partition in chosen:
        if not step_of[key].takes_part and (first := next(lacking(step_of[key], partition), None)):
            return first, (key, partition)
    return None


def stale_inputs(
    all_states: Iterable[State],
    parents: Callable[[str, Partition], Iterable[Node]],
    chosen: Iterable[tuple[str, Partition]],
) -> list[State]:
    """Return what is neither fresh nor chosen but upstream of what is chosen, upstream first."""
    open_ = {(state.asset, state.partition): state for state in all_states if not state.is_settled}
    made = set(chosen)
    due = [name for name in made if name in open_]
    seen = set(due)
    while due:
        above = {("/".join(key), partition) for key, partition in parents(*due.pop())} & open_.keys() - seen
        seen |= above
        due += above
    return [state for name, state in open_.items() if name in seen - made and state.status != "fresh"]
