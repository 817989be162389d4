"""Claims with invented metrics, comparisons and training curves, and the verdicts that the rules give them.

`twin` follows the rules of `claim_cells` and `claim_verdicts` cell by cell, without SQL. Every claim of a world has
methods of its own, so that one warehouse holds many claims.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from made_warehouses import sql_of
from scipy.stats import norm

Z = 1.959964
SETTINGS = "{}"


@dataclass(frozen=True)
class Cell:
    """A claim on one problem: values with their intervals' half widths (None: no interval).

    `paired` is the error and p of a comparison of left and right, `premise_p` of right and premise. `head` names the
    left head: cells with the same problem and head are one.
    """

    left: float
    right: float
    left_half: float | None = 0.02
    right_half: float | None = 0.02
    premise: float | None = None
    paired: tuple[float, float] | None = None
    premise_p: float | None = None
    is_cut_short: bool = False
    problem: str = "en-de"
    head: str = "a"
    trained_on: str = "en-de"
    n: int = 1000


@dataclass(frozen=True)
class Claim:
    """A row of `claims.csv` with what was measured of it."""

    name: str
    cells: Sequence[Cell]
    statistic: str = "difference"
    low: float | None = None
    high: float | None = None
    over: str = "cells"
    has_premise: bool = False
    premise_low: float | None = None
    others: dict = field(default_factory=dict)

    def row(self) -> dict:
        """The row of the table of claims."""
        return {
            **{"claim": self.name, "paper": "fmda", "place": "T2", "says": "", "task": "crosslingual_retrieval"},
            **{"metric": "accuracy_at_1", "left_method": f"l_{self.name}", "left_embedding": "meaning"},
            **{"right_method": f"r_{self.name}", "right_embedding": "meaning", "training": "same"},
            **{"published_left": None, "published_right": None, "evaluated_on": None, "setting": None},
            **{"statistic": self.statistic, "low": self.low, "high": self.high, "over": self.over},
            "premise_method": f"p_{self.name}" if self.has_premise else None,
            "premise_embedding": "sentence" if self.has_premise else None,
            "premise_low": self.premise_low,
            **self.others,
        }


# --- what the rules say ---------------------------------------------------------------------------------------


def twin(claim: Claim) -> tuple[str, list[str | None]]:
    """The verdict, and the standing of every distinct cell in the order of problem and head."""
    seen: dict[tuple[str, str], Cell] = {}
    for cell in sorted(claim.cells, key=lambda cell: cell.trained_on):
        seen.setdefault((cell.problem, cell.head), cell)
    cells = [seen[key] for key in sorted(seen)]
    standings = [_excluded(claim, cell) for cell in cells]
    places = [place for place, standing in enumerate(standings) if standing is None]
    p = [_p(claim, cells[place]) for place in places]
    highest = 0.0
    for rank, k in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[k]))
        outside = _z(_margins(claim, [cells[places[k]]])) < 0
        standings[places[k]] = "open" if highest >= 0.05 else "against" if outside else "for"
    return _verdict(claim, [cells[place] for place in places], standings), standings


def _excluded(claim: Claim, cell: Cell) -> str | None:
    if claim.has_premise and cell.premise is None:
        return "untested"
    if all(error is None for _, error in _margins(claim, [cell])):
        return "untested"
    low = -np.inf if cell.right_half is None else cell.right - cell.right_half
    if claim.premise_low is not None and not low > claim.premise_low:
        return "premise absent"
    if claim.statistic == "ratio" and not low > 0:
        return "premise absent"
    if claim.has_premise and not _is_above_premise(cell):
        return "premise absent"
    return "cut short" if cell.is_cut_short else None


def _is_above_premise(cell: Cell) -> bool:
    assert cell.premise is not None
    if cell.right <= cell.premise:
        return False
    if cell.premise_p is not None:
        return cell.premise_p < 0.05
    return cell.right_half is not None and cell.right - cell.premise > cell.right_half + PREMISE_HALF


PREMISE_HALF = 0.01


def _margins(claim: Claim, cells: Sequence[Cell]) -> list[tuple[float, float | None]]:
    """Mean margin and error of each bound that the claim has."""
    margins = []
    for bound, sign in ((claim.low, 1), (claim.high, -1)):
        if bound is None:
            continue
        factor = bound if claim.statistic == "ratio" else 1
        shift = 0 if claim.statistic == "ratio" else bound
        distances, errors = [], []
        for cell in cells:
            distances.append(sign * (cell.left - factor * cell.right - shift))
            if claim.statistic == "difference" and cell.paired is not None:
                errors.append(max(cell.paired[0], 1.5 / cell.n))
            elif cell.left_half is not None and cell.right_half is not None:
                errors.append(max((cell.left_half + factor * cell.right_half) / Z, 1.5 / cell.n))
        margins.append((float(np.mean(distances)), float(np.mean(errors)) if errors else None))
    return margins


def _z(margins: Sequence[tuple[float, float | None]]) -> float:
    return min(margin / error for margin, error in margins if error is not None)


def _p(claim: Claim, cell: Cell) -> float:
    is_from_zero = [bound for bound in (claim.low, claim.high) if bound is not None] == [0]
    if claim.statistic == "difference" and is_from_zero and cell.paired is not None:
        return cell.paired[1]
    return float(2 * norm.sf(abs(_z(_margins(claim, [cell])))))


def _verdict(claim: Claim, judged: Sequence[Cell], standings: Sequence[str | None]) -> str:
    if not standings:
        return "not measured"
    if not judged:
        is_absent = "premise absent" in standings and "cut short" not in standings
        return "premise absent" if is_absent else "undecided"
    if claim.over == "average":
        z = _z(_margins(claim, judged))
        return "held" if z > Z else "not held" if z < -Z else "undecided"
    supporting, against = standings.count("for"), standings.count("against")
    if 2 * supporting > len(judged) and not against:
        return "held"
    return "not held" if 2 * against > len(judged) and not supporting else "undecided"


# --- the same in a warehouse ----------------------------------------------------------------------------------

_PROBLEM = {"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "minilm", "metric": "accuracy_at_1"}
_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def warehouse_rows(claims: Sequence[Claim]) -> dict[str, list[dict]]:
    """Rows of metrics, comparisons, training curves and methods of the claims."""
    rows: dict[str, list[dict]] = {"metrics": [], "comparisons": [], "training_curve": [], "configured_methods": []}
    for claim in claims:
        rows["configured_methods"].append({"method": f"l_{claim.name}", "base_method": f"l_{claim.name}"})
        for cell in claim.cells:
            rows["metrics"] += _metrics(claim, cell)
            rows["comparisons"] += _comparisons(claim, cell)
            rows["training_curve"] += _curve(claim, cell)
    return {name: list({repr(row): row for row in table}.values()) for name, table in rows.items()}


def _metrics(claim: Claim, cell: Cell) -> list[dict]:
    shared = {**_PROBLEM, "evaluated_on": cell.problem, "settings": SETTINGS, "n": cell.n}
    sides = [
        ("l", cell.trained_on, "meaning", cell.left, cell.left_half),
        ("r", "", "meaning", cell.right, cell.right_half),
    ]
    if claim.has_premise and cell.premise is not None:
        sides.append(("p", "", "sentence", cell.premise, PREMISE_HALF))
    return [
        {
            **{**shared, "method": f"{role}_{claim.name}", "trained_on": trained_on, "embedding": embedding},
            **{"value": value, "ci_low": half and value - half, "ci_high": half and value + half},
        }
        for role, trained_on, embedding, value, half in sides
    ]


def _comparisons(claim: Claim, cell: Cell) -> list[dict]:
    compared = []
    if cell.paired is not None:
        compared.append((("l", cell.trained_on, "meaning", cell.left), ("r", "", "meaning", cell.right), *cell.paired))
    if cell.premise_p is not None and cell.premise is not None:
        # The other way round, as their order in the table is that of names.
        compared.append((("p", "", "sentence", cell.premise), ("r", "", "meaning", cell.right), 0.1, cell.premise_p))
    return [
        {
            **{**_PROBLEM, "evaluated_on": cell.problem, "settings": SETTINGS, "n": cell.n},
            **{
                f"{name}_{side}": value
                for side, values in (("a", first), ("b", second))
                for name, value in zip(
                    ("method", "trained_on", "embedding", "value"),
                    (f"{values[0]}_{claim.name}", *values[1:]),
                    strict=True,
                )
            },
            **{"difference": first[3] - second[3], "test": "mcnemar", "p_value": p, "p_holm": p},
            **{"ci_low": first[3] - second[3] - Z * error, "ci_high": first[3] - second[3] + Z * error},
            **{"fingerprint": "f", "created_at": _TIME},
        }
        for first, second, error, p in compared
    ]


def _curve(claim: Claim, cell: Cell) -> list[dict]:
    best = 2 if cell.is_cut_short else 1
    return [
        {
            **{"method": f"l_{claim.name}", "encoder": "minilm", "trained_on": cell.trained_on, "seed": 0},
            **{"epoch": epoch, "split": "dev", "term": f"total {cell.head}", "value": 0.5, "is_best": epoch == best},
        }
        for epoch in (1, 2)
    ]


def write_sql(folder: Path, claims: Sequence[Claim], causes: Sequence[str] = ()) -> Path:
    """A folder of SQL with the relations that verdicts need, these claims, and lines of causes."""
    shutil.copytree(sql_of("claim_verdicts"), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checks"))
    numbers = ("low", "high", "premise_low")
    schema = pa.schema([(name, pa.float64() if name in numbers else pa.string()) for name in claims[0].row()])
    table = pa.Table.from_pylist([claim.row() for claim in claims], schema)
    pc.write_csv(table, folder / "published" / "claims.csv")
    lines = "".join(f"{line}\n" for line in ("claim,encoder,cause,why", *causes))
    (folder / "published" / "claim_causes.csv").write_text(lines, encoding="utf-8")
    return folder


def random_claim(name: str, draw: np.random.Generator) -> Claim:
    """A claim with up to six cells near its bounds, with some of everything that the rules know."""
    statistic = str(draw.choice(["difference", "ratio"]))
    low, high = ((0.0, None), (None, 0.0), (0.05, None), (-0.02, 0.03))[draw.integers(4)]
    if statistic == "ratio":
        low, high = ((0.9, None), (None, 0.5))[draw.integers(2)]
    has_premise = bool(draw.random() < 0.4)
    claim = Claim(
        name,
        [],
        statistic=statistic,
        low=low,
        high=high,
        over=str(draw.choice(["cells", "average"])),
        has_premise=has_premise,
        premise_low=0.1 if draw.random() < 0.2 else None,
    )
    bound = low if low is not None else high
    assert bound is not None
    shift, cells = draw.normal(0, 0.05), []
    for problem in range(draw.integers(0, 7)):
        right = float(draw.uniform(-0.05 if draw.random() < 0.2 else 0.1, 0.6))
        left = right * bound if statistic == "ratio" else right + bound
        half = None if draw.random() < 0.1 else float(draw.uniform(0, 0.03))
        cell = Cell(
            left=float(left + shift + draw.normal(0, 0.01)),
            right=right,
            left_half=half or None,
            right_half=float(draw.uniform(0.001, 0.03)),
            premise=float(right - draw.normal(0.05, 0.05)) if has_premise and draw.random() < 0.9 else None,
            paired=(float(draw.uniform(0, 0.02)), float(draw.random() ** 6)) if draw.random() < 0.5 else None,
            premise_p=float(draw.random() ** 6) if has_premise and draw.random() < 0.5 else None,
            problem=f"en-{problem}",
        )
        cells.append(cell)
    is_cut_short = bool(draw.random() < 0.15)
    return replace(claim, cells=[replace(cell, is_cut_short=is_cut_short) for cell in cells])
