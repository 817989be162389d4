"""Report the steps of a command or a refresh to Dagster, as events and log lines of its one run."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from disent_assets.run.asset_steps import AssetStep, steps_in
from disent_assets.run.plan import StepRun
from disent_assets.run.progress import LINE_EVERY, Shown
from disent_assets.run.runner import Report
from disent_assets.run.step import DATA_VERSION, Outcome
from disent_core.lineage.state import Records, name_of
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.tables import fingerprint

REUSED_AT_ONCE = 25
"""Steps that were up to date in one line of the log."""


class RunLog(Shown):
    """Writes what happens into the log of a run, and what steps made as its events.

    Args:
        context: of the op.
        workspace: of the run.
        steps: of its lineage.
        shown: another report, which receives everything too.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        workspace: Workspace,
        steps: Mapping[Key, AssetStep],
        shown: Report | None = None,
    ) -> None:
        super().__init__()
        self.context, self.workspace, self.steps = context, workspace, steps
        self.shown = shown or Report()
        self.reused: list[str] = []
        self.last: dict[StepRun, float] = {}
        self.known: dict[dg.AssetKey, dict[str | None, str | None]] = {}

    def start(self, steps: Sequence[StepRun], seconds: Mapping[str, float], workers: int) -> None:
        super().start(steps, seconds, workers)
        self.shown.start(steps, seconds, workers)
        self.context.log.info("%s, %d at once", self.done.shown(self.now), workers)

    def begin(self, step: StepRun) -> None:
        super().begin(step)
        self.shown.begin(step)
        self.last[step] = self.now

    def end(self, step: StepRun, outcome: Outcome) -> None:
        super().end(step, outcome)
        self.shown.end(step, outcome)
        self.report(step, outcome.events, is_news=outcome.is_news)
        if outcome.failure is not None:
            self.context.log.error("%s: %s", step, outcome.failure)
        elif outcome.made:
            made = f"{outcome.made} of {len(step.outputs)} made" if outcome.reused else "made"
            text = f"{step}: {made} in {self.took(step)} ({self.done.shown(self.now)})"
            self.context.log.info("%s", text)
        else:
            self.reused.append(step.name)
        if len(self.reused) == REUSED_AT_ONCE or len(self.done.ended) == len(self.done.seconds):
            self.flush()

    def flush(self) -> None:
        """Write which steps were up to date."""
        if self.reused:
            self.context.log.info("up to date: %s (%s)", ", ".join(self.reused), self.done.shown(self.now))
            self.reused = []

    def block(self, step: StepRun) -> None:
        super().block(step)
        self.shown.block(step)
        self.context.log.warning("%s: not made, because something that it needs has failed", step)

    def log(self, step: StepRun, level: int, text: str) -> None:
        self.shown.log(step, level, text)
        is_due = level < logging.WARNING and self.now - self.last.get(step, 0.0) >= LINE_EVERY
        if self.is_new_warning(level, text) or is_due:
            self.last[step] = self.now
            self.context.log.log(level, "%s: %s", step, text)

    def tick(self) -> None:
        self.shown.tick()

    # --- events ---

    def report(
        self, step: StepRun, events: Sequence[dg.AssetMaterialization | dg.AssetCheckEvaluation], *, is_news: bool
    ) -> None:
        """Report assets and their checks, unless Dagster knows them."""
        is_known = False
        for event in events:
            if isinstance(event, dg.AssetMaterialization):
                tags = event.tags or {}
                is_known = not is_news and self._known(event.asset_key, step.partition) == tags[DATA_VERSION]
                if not is_known:
                    self.context.log_event(event._replace(tags={**tags, **dict(self._tags(event.asset_key, step))}))
            elif not is_known:  # the checks of an asset stand after it
                self.context.log_event(event)  # pyright: ignore[reportArgumentType] - it takes evaluations too

    def _known(self, key: dg.AssetKey, partition: str | None) -> str | None:
        """Return the data version that Dagster has recorded last."""
        instance, kind = self.context.instance, dg.DagsterEventType.ASSET_MATERIALIZATION
        if key not in self.known:
            if partition is None:
                entry = instance.get_latest_materialization_event(key)
                event = entry.asset_materialization if entry else None
                self.known[key] = {None: (event.tags or {}).get(DATA_VERSION)} if event else {}
            else:
                tags = instance.event_log_storage.get_latest_tags_by_partition(key, kind, [DATA_VERSION])
                self.known[key] = {name: of_name.get(DATA_VERSION) for name, of_name in tags.items()}
        return self.known[key].get(partition)

    def _tags(self, key: dg.AssetKey, step: StepRun) -> Iterator[tuple[str, str]]:
        """Return the tags by which Dagster finds out what is stale: versions of the code and the inputs."""
        spec = self.steps[step.key].asset.specs_by_key[key]
        yield "dagster/data_version_is_user_provided", "true"
        if spec.code_version:
            yield "dagster/code_version", spec.code_version
        records = Records(self.workspace, steps_in(self.workspace))
        read = list(self.steps[step.key].parents(step.partition))
        for dep in spec.deps:
            own = tuple(dep.asset_key.path[len(self.workspace.prefix) :])
            nodes = [node for node in read if node[0] == own]
            contents = [records.content(node) or "" for node in nodes]
            of_input = contents[0] if len(contents) == 1 else fingerprint(*map(name_of, nodes), *contents)
            kind = "ASSET_MATERIALIZATION" if own in records.step_of else "ASSET_OBSERVATION"
            ids: dict[Any, int] = dict(
                self.context.instance.get_latest_storage_id_by_partition(dep.asset_key, dg.DagsterEventType[kind])
            )
            newest = max((ids[name] for _, name in nodes if name in ids), default=None)
            name = dep.asset_key.to_user_string()
            yield f"dagster/input_data_version/{name}", of_input
            yield f"dagster/input_event_pointer/{name}", "NULL" if newest is None else str(newest)
