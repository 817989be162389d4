"""Reproduce a table of a paper with the paper's encoders, and print its cells: `make paper TABLE=fmda_table2`.

The first comment of each file in configs/papers names the tables that it makes. Corpora, GPU and disk space are checked
before anything is run (docs/papers.md). A table of two configurations is printed as one.
"""

import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from disent.query import query
from disent_assets.cli.group import errors
from disent_assets.cli.queries import print_table, without_constants
from disent_core.corpora import pair_reader, reader
from disent_core.errors import CorpusError, DisentError
from tools.results_run import materialize

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = Path("configs", "papers")
_TERABYTES = {"twosl": 1.4}
"""Disk space in TB for the heads, where a disk is likely to have less."""
_CELLS = """
select cell_id, "table" as panel, printed_as as "row", task, metric, method, embedding, examples,
    published_trained_on as trained_on, evaluated_on, published_encoder as encoder, published_dataset as data_set,
    published_settings as settings, published, measured, ci_low, ci_high, difference, dataset as measured_dataset,
    encoder as measured_encoder, trained_on as measured_trained_on,
    case when measured is null then why_missing when not comparable and paper <> 'emu'
    then format('not run with {{}} on {{}}', coalesce(published_encoder, 'the system'), published_dataset) end as reason
from parts.paper_cells
where paper = '{paper}' and regexp_full_match("table", 'T{number}[a-z]?') and published is not null
order by cell_id, method, dataset, encoder, trained_on
"""

Row = dict[str, Any]


def tables(project: Path) -> dict[str, list[str]]:
    """Return table -> names of the configurations that make it."""
    made: dict[str, list[str]] = {}
    for path in sorted((project / CONFIGS).glob("*.toml")):
        for table in re.findall(r"\b\w+_table\d+\b", path.read_text(encoding="utf-8").partition("[[")[0]):
            if path.stem not in (names := made.setdefault(table, [])):
                names.append(path.stem)
    return made


def configurations(project: Path, table: str) -> list[str]:
    """Return the names of the configurations that make a table; reject other names, even those of configurations."""
    made = tables(project)
    if table not in made:
        of_name = [name for name, configs in made.items() if table in configs]
        problem = f"TABLE={table}: that is a configuration" if of_name else f"TABLE={table}: no such table"
        raise ValueError(f"{problem}. Name one of {', '.join(of_name or made)} (docs/papers.md)")
    return made[table]


def home_of(project: Path, config: str) -> Path:
    """Return the folder of a configuration's results."""
    return project / "data" / "papers" / config


# --- before anything is run -----------------------------------------------------------------------------------


def missing_corpora(config: Path) -> Iterator[str]:
    """Describe each missing corpus and word list of a configuration that is not downloaded automatically."""
    toml = tomllib.loads(config.read_text(encoding="utf-8"))
    for corpus in toml["corpora"]:
        if "url" not in corpus:
            yield from _missing(corpus, (config.parent / corpus["path"]).resolve())
    if "dictionaries" in (switching := toml.get("targets", {}).get("code_switching", {})):
        folder = (config.parent / switching["dictionaries"]).resolve()
        if not any(folder.glob("*.txt")):
            yield f"dictionaries: {folder}: no word lists *.txt"


def _missing(corpus: Mapping[str, Any], path: Path) -> Iterator[str]:
    try:
        if "pairs" in corpus:
            available = {*pair_reader(corpus["format"]).pairs(path)}
        else:
            of_format = reader(corpus["format"])
            available = {name for locale in of_format.locales(path) for name in (locale, of_format.language_of(locale))}
    except CorpusError as error:
        yield f"{corpus['name']}: {error}"
        return
    if absent := [name for name in corpus.get("pairs", corpus.get("languages", ())) if name not in available]:
        yield f"{corpus['name']}: {path}: {', '.join(absent)} not in it"


def check(project: Path, configs: Sequence[str], *, cpu: bool = False) -> None:
    """Reject a run that lacks corpora (naming all of them), a GPU or disk space."""
    absent = dict.fromkeys(line for name in configs for line in missing_corpora(project / CONFIGS / f"{name}.toml"))
    if absent:
        listed = "".join(f"\n    {line}" for line in absent)
        remedy = "docs/papers.md, What to download, says where to get them"
        raise DisentError(f"nothing was run, because corpora are missing. {remedy}:{listed}")
    import torch

    if not cpu and not torch.cuda.is_available():
        raise DisentError("nothing was run: torch finds no GPU, and without one this takes weeks. CPU=1 runs it anyway")
    for name in configs:
        made = sum(file.stat().st_size for file in (home_of(project, name) / "heads").rglob("*.safetensors"))
        room = (shutil.disk_usage(project).free + made) / 1e12
        if room < (needed := _TERABYTES.get(name, 0)):
            problem = f"nothing was run: the heads of {name} take {needed} TB, and there is room for {room:.1f} TB"
            raise DisentError(f"{problem}. docs/papers.md, What it takes, has a loop for smaller disks")


# --- what there is --------------------------------------------------------------------------------------------


def cells(table: str, warehouses: Iterable[Path]) -> tuple[list[Row], Counter[str]]:
    """Return the measured rows of a table, and the number of its unmeasured cells by reason.

    A cell is measured if any warehouse has it; otherwise, its reason is that of the fullest warehouse. Dashes in the
    paper are no cells.
    """
    paper, _, number = table.partition("_table")
    answers = [query(path, _CELLS.format(paper=paper, number=number)).to_pylist() for path in warehouses]
    answers.sort(key=lambda rows: sum(row["reason"] is None for row in rows), reverse=True)
    measured, reasons = list[Row](), dict[int, str]()
    for row in (row for rows in answers for row in rows):
        if row["reason"] is None:
            measured.append(row)
        reasons.setdefault(row["cell_id"], row["reason"])
    there = {row["cell_id"] for row in measured}
    measured.sort(key=lambda row: row["cell_id"])
    return measured, Counter(reason for cell, reason in reasons.items() if cell not in there)


def show(table: str, warehouses: Iterable[Path]) -> None:
    """Print each measured cell beside the paper's, and the numbers of unmeasured cells with the reasons."""
    measured, reasons = cells(table, warehouses)
    count = len({row["cell_id"] for row in measured})
    if measured:
        rows = pa.Table.from_pylist([{**row, "settings": _settings(row["settings"])} for row in measured])
        listed = rows.to_pydict().items()
        empty = [name for name, values in listed if all(value in (None, "") for value in values)]
        print_table(without_constants(rows.drop_columns(["cell_id", *empty])), "table")
        click.echo()
    stands_in = ", on other data and another encoder than the paper's" if table.startswith("emu") else ""
    others = "; the others:" if reasons else ""
    click.echo(f"{table}: {count} of {count + reasons.total()} cells measured{stands_in}{others}")
    for reason, number in reasons.most_common():
        click.echo(f"    {number} {reason}")


def _settings(text: str | None) -> str:
    """Return the paper's details on a cell besides its row and its figure."""
    settings = {key: value for key, value in json.loads(text or "{}").items() if key not in ("model", "printed")}
    return ", ".join(f"{key} {value}" for key, value in settings.items())


@click.command()
@click.argument("table")
@click.option("--cpu", is_flag=True, help="Run without a GPU too.")
@click.option("--show", "is_show", is_flag=True, help="Run nothing; print what the homes in data/papers have.")
@click.pass_context
def main(context: click.Context, table: str, *, cpu: bool, is_show: bool) -> None:
    """Make TABLE, such as fmda_table2, in data/papers, and print its cells beside the paper's."""
    with errors(context):
        homes = {name: home_of(ROOT, name) for name in configurations(ROOT, table)}
        if not is_show:
            check(ROOT, [*homes], cpu=cpu)
            for name, home in homes.items():
                materialize(ROOT, (CONFIGS / f"{name}.toml").as_posix(), home)
        warehouses = [home / "warehouse.duckdb" for home in homes.values()]
        if is_show and not all(map(Path.is_file, warehouses)):
            raise DisentError(f"{table} has not been made: make paper TABLE={table}")
        show(table, warehouses)


if __name__ == "__main__":
    main()
