"""What a step of a stage says of its work: a fingerprint of the content, counts, and checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from disent_core.storage.tables import RefreshResult, fingerprint


@dataclass(frozen=True)
class Check:
    """Something that must hold of a table before anything is built on it.

    Attributes:
        name: of the check.
        description: one sentence that says what must hold.
        blocking: whether nothing downstream may run where it does not hold; otherwise it is a warning.
    """

    name: str
    description: str
    blocking: bool

    def result(self, passed: bool, **figures: Any) -> "CheckResult":
        """Whether it holds, and the figures that show it."""
        return CheckResult(self, bool(passed), figures)


@dataclass(frozen=True)
class CheckResult:
    """Whether a check holds, and the figures that show it."""

    check: Check
    passed: bool
    figures: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one step made of one partition.

    Attributes:
        rows: rows of the tables that it made; None where it made no table.
        content: fingerprint of all that it made. While it is the same, nothing downstream is stale.
        is_reused: whether everything was up to date, so that nothing was computed.
        figures: further counts, times and values, by name.
        checks: outcomes of the step's checks.
        summary: one line for the log; empty where there is nothing to add.
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
    """The result of a step that refreshed these tables."""
    return StepResult(
        rows=sum(table.info.rows for table in tables),
        content=fingerprint(*(table.info.content_hash for table in tables)),
        is_reused=all(table.is_reused for table in tables),
        figures=figures or {},
        checks=tuple(checks),
    )
