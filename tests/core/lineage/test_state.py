"""What is fresh, stale, missing or failed follows from the records of steps, the files and the published files."""

from dataclasses import replace
from pathlib import Path

import pytest
from worlds import TOY

from disent_core.lineage import state as tested
from disent_core.lineage.state import Records, State, StepRecord, write_record
from disent_core.lineage.step import Output, Partition, Read, Source, Step, linked
from disent_core.lineage.workspace import Key, Workspace

FILES: Key = ("corpora", "published_files")
FROM_OUTSIDE = Source(FILES, "", ("en", "de"))


def step_of(key: Key, above: Key, folder: Path, partitions: tuple[str, ...] | None = None) -> Step:
    def stored(partition: str) -> list[Path]:
        return [folder / f"{key[-1]}-{partition}"]

    make = pytest.fail  # nothing is made here
    return Step(
        made=(Output(key, ""),), version="1", make=make, reads=(Read(above),), partitions=partitions, stored=stored
    )


class Lineage:
    """Published files -> a table of two languages -> one database."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, folder = workspace, workspace.home
        folder.mkdir()
        listed = step_of(("corpora", "utterances"), FILES, folder, ("en", "de"))
        last = step_of(("warehouse", "database"), listed.key, folder)
        self.table, self.end = linked([listed, last], [FROM_OUTSIDE])
        self.publish("1")
        for step, name in ((self.table, "en"), (self.table, "de"), (self.end, None)):
            self.make(step, name, f"content of {name}")

    def publish(self, de: str) -> None:
        tested.write_published(
            self.workspace, {f"corpora/published_files [{name}]": of for name, of in (("en", "1"), ("de", de))}
        )

    def make(self, step: Step, name: Partition, content: str, error: str | None = None) -> None:
        reads = Records(self.workspace, [self.table, self.end]).reads(step, name)
        record = StepRecord(step.version, reads, {"/".join(step.key): content}, error=error)
        write_record(self.workspace, step.key, name, record)
        for path in step.files(name):
            path.touch()

    def states(self) -> list[State]:
        steps = [self.table, self.end]
        return list(tested.states(Records(self.workspace, steps), steps))

    def shown(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(state.status, state.causes) for state in self.states()]


@pytest.fixture
def lineage(load, tmp_path) -> Lineage:
    return Lineage(Workspace(load(TOY), tmp_path / "home"))


def test_staleness_spreads_only_if_the_recomputed_table_differs(lineage):
    assert [(state.status, state.is_settled) for state in lineage.states()] == [("fresh", True)] * 3
    lineage.publish("2")
    assert lineage.shown()[1:] == [("stale", ("corpora/published_files [de]: its content has changed",)), ("fresh", ())]
    assert [state.is_settled for state in lineage.states()] == [True, False, False]
    lineage.publish("2")
    lineage.make(lineage.table, "de", "content of de")
    assert [status for status, _ in lineage.shown()] == ["fresh"] * 3
    lineage.make(lineage.table, "de", "other content")
    assert lineage.shown()[2] == ("stale", ("corpora/utterances [de]: its content has changed",))


def test_another_version_makes_a_step_stale(lineage):
    lineage.table = replace(lineage.table, version="2")
    assert lineage.shown()[0] == ("stale", ("corpora/utterances [en]: its code or settings have changed",))


def test_added_and_removed_inputs_make_a_step_stale(lineage):
    other = step_of(("targets", "masked"), FILES, lineage.workspace.home, ("en", "de"))
    lineage.end = linked([other, step_of(lineage.end.key, other.key, lineage.workspace.home)], [FROM_OUTSIDE])[1]
    assert lineage.shown()[2][1] == (
        "targets/masked [en]: has a new dependency on targets/masked",
        "targets/masked [de]: has a new dependency on targets/masked",
        "corpora/utterances: removed dependency on corpora/utterances",
    )


def test_a_lost_file_is_missing_and_a_damaged_record_is_ignored(lineage):
    (lineage.workspace.home / "utterances-en").unlink()
    assert lineage.shown()[0] == ("missing", ("its files are gone",))
    lineage.workspace.record("corpora", "utterances", "en").write_text("{", encoding="utf-8")
    assert tested.read_record(lineage.workspace, ("corpora", "utterances"), "en") is None


def test_a_failure_is_stale_once_its_input_changes(lineage):
    lineage.make(lineage.table, "de", "content of de", error="line 3")
    assert lineage.shown()[1] == ("failed", ("line 3",))
    lineage.publish("2")
    assert lineage.shown()[1][0] == "stale"


def test_results_without_records_are_stale_and_not_missing(lineage, tmp_path):
    for path in (lineage.workspace.home / "records").rglob("*.json*"):
        path.unlink()
    assert lineage.shown() == [("stale", (tested.NOT_RECORDED,))] * 3


def test_unselected_stale_inputs_are_named(lineage):
    lineage.publish("2")
    steps = {"/".join(step.key): step for step in (lineage.table, lineage.end)}
    chosen = [("warehouse/database", None)]
    (named,) = tested.stale_inputs(lineage.states(), lambda asset, name: steps[asset].parents(name), chosen)
    assert (named.asset, named.partition) == ("corpora/utterances", "de")


def test_a_selection_whose_input_is_missing_and_not_selected_is_refused_with_both_names(lineage):
    table, end = lineage.table, lineage.end
    everything = [(table.key, "en"), (table.key, "de"), (end.key, None)]

    def refused(chosen, steps=(table, end)):
        return tested.missing_input(lineage.states(), steps, chosen)

    assert refused(everything[2:]) is None
    (lineage.workspace.home / "utterances-en").unlink()
    assert refused(everything[2:]) == ((table.key, "en"), (end.key, None))
    assert refused(everything) is None
    assert refused(everything[2:], (table, replace(end, takes_part=True))) is None
