"""Draw the path of one utterance through the stages, from the demo's results: docs/pictures/path.svg.

python -m tools.path_picture HOME > docs/pictures/path.svg
"""

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

import disent

UTTERANCE, QUERY = "27", "9"
"""Ids of the utterance from the train split to follow, and of the test utterance used as a query."""
PAIR, HEAD = "en-de", "scratch/facet"
WIDTH, ROW, GAP, LABEL = 960, 24, 18, 132
"""In pixels: width of the picture, height of a line, space between stages, left edge of the boxes."""
STYLE = """
    .card { fill: #ffffff; stroke: #57606a; } .text { fill: #1f2328; } .soft { fill: #57606a; font-size: 12px; }
    .line { stroke: #57606a; stroke-width: 1.5; } .tip { fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #8b949e; } .text { fill: #f0f6fc; } .soft { fill: #9198a1; }
      .line { stroke: #8b949e; } .tip { fill: #8b949e; }
    }"""
Stage = tuple[str, list[tuple[str, str]]]
"""Name of a stage, and its outputs: pairs of a text and what it is."""


def stages(home: Path) -> Iterator[Stage]:
    """Yield each stage with what it makes of the utterance."""
    tables = home / "tables"

    def row(table: str, key: str = UTTERANCE, column: str = "utterance_id") -> dict:
        return pl.read_parquet(tables / f"{table}.parquet").filter(pl.col(column) == key).row(0, named=True)

    english, german = (row(f"corpora/utterances/sample/{language}") for language in ("en", "de"))
    slot = english["slot_tags"][-1].removeprefix("B-")
    yield "corpora", [(english["text"], f"{slot}: {english['tokens'][-1]}"), (german["text"], "its translation, by id")]
    bleu = row("negatives/bleu_scores/sample/en")
    nearest = row("corpora/utterances/sample/en", bleu["nearest_utterance_id"])["text"]
    yield (
        "negatives",
        [(f"BLEU {bleu['max_bleu']:.2f} with “{nearest}”", "too similar for the pool (< 0.1)")],
    )
    masked = row("targets/masked_utterances/sample/en")
    swapped = row(f"targets/parallel_mates/{PAIR}")
    yield (
        "targets",
        [
            (masked["template_text"], "template: the values masked"),
            (masked["residual_text"], "residual: the rest masked"),
            (f"{swapped['source_text']}  |  {swapped['target_text']}", "slot-swapped pair: same template"),
        ],
    )
    model = disent.load(home / "heads" / HEAD / f"{PAIR}.safetensors")
    parts = sorted((tables / "embeddings/sentence_vectors/scratch").glob("*/en/part-*.parquet"))
    vectors = pl.concat([pl.read_parquet(part) for part in parts])
    vector = vectors.filter(pl.col("text_key") == english["text_key"])["vector"][0].to_list()
    yield "embeddings", [(_numbers(vector), "vector of the frozen encoder, and one a token")]
    embedded = [
        (_numbers(model.encode([english["text"]], name)[0]), name) for name in ("meaning", "template", "residual")
    ]
    yield "heads", embedded
    rankings = pl.read_parquet(tables / f"evaluation/rankings/{HEAD}/{PAIR}.parquet")
    first = rankings.filter(
        (pl.col("task") == "crosslingual_retrieval") & (pl.col("evaluated_on") == PAIR) & (pl.col("query_id") == QUERY)
    ).row(0, named=True)
    query = row("corpora/utterances/sample/en", QUERY)["text"]
    candidate = row("corpora/utterances/sample/de", first["candidate_id"])["text"]
    yield "evaluation", [(f"{query}  →  {candidate}", f"test: rank 1, cosine {first['score']:.2f}")]
    metrics = pl.read_parquet(tables / f"evaluation/metrics/{HEAD}/{PAIR}.parquet")
    number = metrics.filter(
        (pl.col("task") == "crosslingual_retrieval") & (pl.col("evaluated_on") == PAIR) & pl.col("seed").is_null()
        & (pl.col("metric") == "accuracy_at_1") & (pl.col("embedding") == "meaning")
    ).row(0, named=True)  # fmt: skip
    value = f"accuracy@1 {number['value']:.3f} [{number['ci_low']:.3f}, {number['ci_high']:.3f}], n = {number['n']}"
    yield "warehouse", [(value, "a row of metrics, on the sample corpus")]


def _numbers(vector) -> str:
    return "[" + ", ".join(f"{value:.2f}" for value in vector[:6]) + f", ...]  {len(vector)} numbers"


def picture(drawn: list[Stage]) -> str:
    """Return the SVG: one box per stage, from top to bottom."""
    y, boxes = 8, []
    for number, (name, lines) in enumerate(drawn):
        height = ROW * len(lines) + 16
        if number:
            boxes.append(f'<path class="line" d="M{LABEL + 40} {y - GAP} V {y - 4}" marker-end="url(#tip)"/>')
        boxes.append(f'<text class="text" x="8" y="{y + height / 2 + 5}" font-weight="bold">{name}</text>')
        boxes.append(f'<rect class="card" x="{LABEL}" y="{y}" width="{WIDTH - LABEL - 8}" height="{height}" rx="8"/>')
        for line, (text, what) in enumerate(lines):
            baseline = y + 24 + ROW * line
            boxes.append(f'<text class="text" x="{LABEL + 16}" y="{baseline}">{escape(text)}</text>')
            boxes.append(f'<text class="soft" x="{WIDTH - 24}" y="{baseline}" text-anchor="end">{escape(what)}</text>')
        y += height + GAP
    tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">' \
          '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP + 8}" role="img" ' \
           'font-family="Verdana, \'DejaVu Sans\', sans-serif" font-size="13">'  # fmt: skip
    title = "<title>One utterance on its way through the stages of the lineage</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", tip, *boxes, "</svg>"])


if __name__ == "__main__":
    sys.stdout.write(picture(list(stages(Path(sys.argv[1])))) + "\n")
