"""Define the result of a step: a fingerprint of the content, counts, and checks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from disent_core.storage.tables import RefreshResult, fingerprint


@dataclass(frozen=True)
class Check:
    """A condition that a table must meet before anything is built on it; `description` states it in a sentence."""

    name: str
    description: str
    blocking: bool
    """Whether a failure stops everything downstream; otherwise it is a warning."""

    def result(self, passed: bool, **figures: Any) -> "CheckResult":
        return CheckResult(self, bool(passed), figures)

    def result_of_rows(self, figures: Mapping[str, Any]) -> "CheckResult":
        """Return the result of a check that counts violations: it passes if `rows` in `figures` is 0."""
        return self.result(figures["rows"] == 0, **figures)


@dataclass(frozen=True)
class CheckResult:
    """Whether a check passed, and the figures behind it."""

    check: Check
    passed: bool
    figures: Mapping[str, Any]


UNIQUE_ROWS = Check("rows_are_unique", "No two rows have the same key.", False)


def unique_rows(tables: Sequence[RefreshResult]) -> CheckResult:
    """Return the result of `UNIQUE_ROWS` for tables that were refreshed with a key."""
    repeated = sum(table.info.repeated or 0 for table in tables)
    return UNIQUE_ROWS.result(repeated == 0, repeated=repeated)


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The result of one step on one partition.

    Attributes:
        rows: number of rows of the tables that it made; None if it made no table.
        content: fingerprint of everything that it made. While it stays the same, nothing downstream is stale.
        is_reused: whether everything was already up to date, so nothing was computed.
        figures: further counts, times and values, by name.
        checks: results of the checks of the step.
        summary: one line for the log, or empty.
    """

    rows: int | None
    content: str
    is_reused: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    summary: str = ""


def result_of(
    tables: Sequence[RefreshResult], *, figures: Mapping[str, Any] | None = None, checks: Sequence[CheckResult] = ()
) -> StepResult:
    return StepResult(
        rows=sum(table.info.rows for table in tables),
        content=fingerprint(*(table.info.content_hash for table in tables)),
        is_reused=all(table.is_reused for table in tables),
        figures=figures or {},
        checks=tuple(checks),
    )


GATE_HAS_ROWS = Check("every_table_has_rows", "Every table that is read has rows, in some corpus or language.", False)


def gate_result(
    encoder: str, read: Iterable[tuple[Sequence[str], int, str]], *, may_be_empty: Collection[str] = ()
) -> StepResult:
    """Return the result of a gate, a step that makes nothing and whose content is a fingerprint of its inputs.

    `encoder` is the fingerprint of the model, `read` has stage, table and partition of each file, its number of rows
    and the fingerprint of its content.
    """
    reads = [
        {"table": source[1], "partition": "/".join(source[2:]), "rows": rows, "content": content}
        for source, rows, content in read
    ]
    filled = {of["table"] for of in reads if of["rows"]}
    empty = sorted({of["table"] for of in reads} - filled - {*may_be_empty})
    return StepResult(
        rows=None,
        content=fingerprint(encoder, reads),
        is_reused=True,
        figures={"reads": reads},
        checks=(GATE_HAS_ROWS.result(not empty, empty=empty),),
    )
