"""Every printed figure is in its table, every empty cell has a reason, and averages are computed as in the papers."""

import json
from collections import Counter

import pytest

RELATIONS = ("papers", "coverage", "parts.paper_cells")
TABLES = {
    "fmda": (2, 3, 4, 5, 6, 9),
    "dream": (2, 4, 5, 6),
    "twosl": (2, 3, 4, 5, 8, 9, 10),
    "oracle": (3, 4, 8, 9, 10, 11),
    "emu": (2, 3, 4, 5),
}
EMU = ("en", "de", "es", "fr", "ja", "zh")
ANOMALIES = {
    ("dream", "T2"): 2,
    ("dream", "T5"): 1,
    ("emu", "T4"): 4,
    ("oracle", "T4"): 1,
    ("twosl", "T5"): 4,
    ("twosl", "T8"): 1,
    ("twosl", "T10"): 3,
    ("twosl", "text §1"): 1,
}
"""Number of derived or repeated cells that differ from their printed parts by more than rounding: anomalies of the
papers, see sql/published/README.md."""


ROUNDING = {"relative_change": 0.0015}  # the quotient of two figures of three digits


def figures(rows):
    return Counter(value for row in rows for name, value in row.items() if name.endswith("_published") and value)


def test_each_printed_figure_is_in_the_view_of_its_table(published):
    for paper, numbers in TABLES.items():
        for number in numbers:
            shown = figures(published.ask(f"from {paper}_table{number}"))
            printed = published.ask(f"""
                select value from published_metrics
                where paper = '{paper}' and regexp_matches("table", '^T{number}[abc]?$') and value <> 0
            """)
            assert shown == Counter(row["value"] for row in printed), (paper, number)


@pytest.mark.parametrize(
    ("view", "rows", "columns"),
    [
        *(
            (f"fmda_table{number}", 5, [f"en_{x}_on_{on}" for x in ("de", "es", "ja") for on in ("en", x)])
            for number in (3, 6)
        ),
        ("fmda_table9", 7, ["dream_dual", "fmda_dual", "fmda_multi"]),
        ("dream_table2", 14, ["en_de", "en_zh", "ro_en", "et_en", "ne_en", "si_en", "avg"]),
        ("dream_table6", 3, ["mbert", "xlm_roberta_large", "labse"]),
        ("twosl_table8", 15, ["de", "fr", "hi", "pt", "tr", "avg"]),
        ("oracle_table3", 24, [f"tatoeba_{n}_{way}" for n in (14, 36) for way in ("en_xx", "xx_en")]),
        ("oracle_table4", 6, ["tatoeba_14", "tatoeba_36", "sts"]),
        ("emu_table2", 27, [f"en_{x}" for x in EMU] + [f"{x}_en" for x in EMU[1:]]),
        ("emu_table4", 6, ["en", "de", "es", "fr", "zh", "ja"]),
        ("emu_table5", 2, ["hotelqa", "atis", "quora"]),
    ],
)  # fmt: skip
def test_rows_and_columns_are_those_of_the_paper(published, view, rows, columns):
    shown = published.ask(f"from {view}")
    names = [name for name in shown[0] if name not in ("published_encoder", "published_dataset")]
    parts = ("published", "measured", "difference")
    start = names.index(f"{columns[0]}_published")
    assert len(shown) == rows
    assert names[start:-1] == [f"{column}_{part}" for column in columns for part in parts]
    assert names[-1] == "why_missing"


def test_rows_come_in_the_order_of_the_paper(published):
    rows = published.ask("select printed_as from dream_table5")
    assert [row["printed_as"] for row in rows][:6] == [
        *("mBERT", "DREAM-mBERT", "XLM-R", "DREAM-XLM-R", "LaBSE", "DREAM-LaBSE")
    ]


def test_every_cell_without_a_measured_figure_says_why_or_that_it_is_impossible(published):
    cells = published.ask("select measured, why_missing, status from paper_cells")
    assert len(cells) == 2720
    assert all(row["measured"] is None and row["why_missing"] for row in cells)
    assert {row["status"] for row in cells} == {"not_run", "impossible"}
    cells = published.ask("""
        select distinct published_dataset, method, why_missing from paper_cells
        where status = 'impossible' and (published_dataset = 'hotelqa' or method = 'prism')
            and method in ('raw', 'prism')
    """)
    assert {row["why_missing"] for row in cells} == {
        "HotelQA is private; MASSIVE has intents that can be used in its place",
        "Prism is a system of others: published figures only",
    }


def test_coverage_counts_sum_to_all_cells(warehouse, published):
    warehouse.build(
        metrics=[{}, {"task": "tatoeba_retrieval"}, {"task": "intent_knn", "method": "emu", "embedding": "sentence"}]
    )
    for database in (published, warehouse):
        rows = database.ask("from coverage")
        assert sum(row["cells"] for row in rows) == 2720
        assert all(row["cells"] == row["measured"] + row["published_only"] + row["impossible"] for row in rows)
        assert all(row["comparable"] <= row["measured"] for row in rows)
    assert sum(row["measured"] for row in rows) > 0


def as_measured(cells):
    """The printed figures other than averages as if they were measured: metric rows and configured methods."""
    metrics, methods = {}, {}
    for cell in cells:
        base = cell["base_method"]
        method, settings = base, {}
        if cell["examples"] is not None:
            settings = {"examples": cell["examples"], "transfer": cell["transfer"], "negatives_per_positive": 2}
            method = f"{base} {cell['examples']} {cell['transfer']}"
        methods[method] = {"method": method, "base_method": base, "settings": json.dumps(settings)}
        trained_on = cell["trained_on"] or ("en-de" if method in ("centered", "projection") else "")
        for direction in cell["evaluated_on"].split("+"):
            key = {
                **{name: cell[name] for name in ("task", "dataset", "embedding", "metric")},
                **{"method": method, "encoder": cell["encoder"] or "none"},
                **{"trained_on": trained_on, "evaluated_on": direction},
            }
            row = {**key, "value": cell["value"], "ci_low": None, "ci_high": None}
            metrics.setdefault(tuple(key.values()), row)
    return list(metrics.values()), list(methods.values())


def test_averages_and_changes_of_printed_parts_equal_the_printed_ones(warehouse, published):
    cells = published.ask("""
        from table_cells
        where not is_open and value is not null and statistic = 'mean' and trained_on <> 'average'
            and evaluated_on not in ('average', 'en-xx', 'xx-en')
        order by cell_id
    """)
    metrics, methods = as_measured(cells)
    warehouse.build(metrics=metrics, configured_methods=methods)
    source = """from paper_cells
        where encoder = coalesce(nullif(published_encoder, ''), 'none') and dataset = published_dataset"""
    columns = "cell_id, paper, \"table\", difference, regexp_extract(metric, 'relative_change') as statistic"
    rows = warehouse.ask(f"select {columns} {source} and published is not null and measured is not null")
    off = Counter(
        (row["paper"], row["table"]) for row in rows if abs(row["difference"]) > ROUNDING.get(row["statistic"], 0.00055)
    )
    assert off == ANOMALIES
    assert len({row["cell_id"] for row in rows}) > 2300
    drops = warehouse.ask(
        f"select column_label {source} and \"table\" = 'T5' and paper = 'emu' and measured is not null"
    )
    assert len(drops) == 6
