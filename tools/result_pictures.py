"""Draw the three pictures of docs/results.md from docs/results: `python -m tools.result_pictures`."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tools.results import ROOT, open_results

PICTURES = ROOT / "docs" / "pictures"
METHODS = ("raw", "centered", "projection", "dream", "meat", "oracle", "fmda_softmax", "fmda_two_stage_softmax",
           "lexicon", "facet")  # fmt: skip
COLOURS = {"minilm_multi": "#b3360b", "minilm_mean": "#4c6a92", "minilm_low": "#7a9a4b", "minilm_cls": "#999999"}
VERDICTS = {"held": "#4c8a4b", "undecided": "#cccccc", "premise absent": "#eeeeee", "not held": "#b3360b"}
_STYLE: dict[Any, Any] = {"svg.hashsalt": "disent", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
          "axes.spines.right": False}  # fmt: skip
TRANSLATION = f"""
select encoder, method, value::double as value, ci_low::double as low, ci_high::double as high
from crosslingual_retrieval
where
    dataset = 'massive' and evaluated_on = 'en-de' and encoder in ('minilm_multi', 'minilm_mean')
    and method in {METHODS}
order by encoder, list_position({list(METHODS)}, method)"""
LEAKAGE = """
select r.encoder, r.method, r.value::double as retrieval, l.value::double as probe
from crosslingual_retrieval as r inner join language_leakage as l using (encoder, method, dataset, evaluated_on)
where r.dataset = 'massive' and r.evaluated_on = 'en-de' and r.encoder in ('minilm_multi', 'minilm_mean')
order by all"""
CLAIMS = """
with verdicts as (unpivot claim_verdicts on minilm_multi, minilm_mean, minilm_cls into name encoder value verdict)
select paper, encoder, verdict, count(*) as claims from verdicts group by paper, encoder, verdict
order by paper desc, list_position(['minilm_cls', 'minilm_mean', 'minilm_multi'], encoder)"""


def main(folder: Path = PICTURES) -> None:
    """Draw all pictures; the same figures give the same bytes."""
    mpl.rcParams.update(_STYLE)
    with open_results(ROOT) as connection:
        for name, query, draw in (
            ("translation", TRANSLATION, _translation), ("leakage", LEAKAGE, _leakage), ("claims", CLAIMS, _claims),
        ):  # fmt: skip
            figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
            draw(axes, _rows(connection, query))
            figure.savefig(folder / f"results-{name}.svg", metadata={"Date": None})
            plt.close(figure)


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    return connection.sql(query).to_arrow_table().to_pylist()


def _translation(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for shift, (encoder, group) in zip((-0.18, 0.18), groupby(rows, key=lambda row: row["encoder"]), strict=True):
        bars = list(group)
        heights = [METHODS.index(bar["method"]) + shift for bar in bars]
        values = [bar["value"] for bar in bars]
        errors = [[bar["value"] - bar["low"] for bar in bars], [bar["high"] - bar["value"] for bar in bars]]
        axes.barh(heights, values, height=0.34, xerr=errors, color=COLOURS[encoder], label=encoder, ecolor="#444444")
    axes.set_yticks(range(len(METHODS)), METHODS)
    axes.set(xlabel="accuracy@1, English to German, MASSIVE test", xlim=(0, 1))
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def _leakage(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for encoder, group in groupby(rows, key=lambda row: row["encoder"]):
        points = list(group)
        axes.scatter(*zip(*map(_point, points), strict=True), s=16, color=COLOURS[encoder], label=encoder)
        for point in points:
            if point["method"] in METHODS:
                axes.annotate(point["method"], _point(point), xytext=(3, 3), textcoords="offset points", fontsize=6)
    axes.axvline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel="linear probe of the language (0.5 is chance)", ylabel="accuracy@1, English to German")
    axes.legend(frameon=False, loc="lower left")


def _point(row: Mapping[str, Any]) -> tuple[float, float]:
    return row["probe"], row["retrieval"]


def _claims(axes: Axes, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(f"{row['paper']}, {row['encoder']}" for row in rows))
    left = dict.fromkeys(names, 0)
    for verdict, colour in VERDICTS.items():
        counts = {f"{row['paper']}, {row['encoder']}": row["claims"] for row in rows if row["verdict"] == verdict}
        widths = [counts.get(name, 0) for name in names]
        axes.barh(names, widths, left=list(left.values()), color=colour, edgecolor="white", label=verdict)
        left = {name: left[name] + width for name, width in zip(names, widths, strict=True)}
    axes.set_xlabel("claims on a data set")
    axes.tick_params(axis="y", labelsize=7)
    axes.legend(frameon=False, fontsize=7)


if __name__ == "__main__":
    main()
