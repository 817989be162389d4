"""Commands that report on a run: its state, its HTML report, its published tables, and the texts of an encoder."""

from copy import copy
from pathlib import Path

import click

from disent.home import home_folder
from disent_assets.cli.group import main
from disent_assets.cli.queries import Style, format_option, print_table
from disent_assets.counted import counted
from disent_assets.settings.environment import SQL, open_to_look, open_workspace
from disent_core.report import TITLE
from disent_core.text import printable


@main.command()
@click.option("--all", "show_all", is_flag=True, help="Show every partition, fresh ones included.")
@click.option("--check", is_flag=True, help="Exit with 1 if anything is not fresh, for automatic checks.")
@format_option
def status(show_all: bool, check: bool, style: Style) -> None:
    """Show which steps are fresh, stale or missing, and why.

    The formats csv, json and markdown list every partition, with the columns of asset_state.
    """
    from disent_assets.run.steps import find_states, record_states, summary
    from disent_assets.settings.results_folder import is_read_only, open_for_work
    from disent_assets.warehouse.refresh import state_rows
    from disent_core.lineage.head_spec import without_mates

    workspace = open_to_look()
    if can_write := not is_read_only(workspace.home):
        workspace = open_for_work()
    states = find_states(workspace)
    if can_write:
        record_states(workspace, states)
    if style == "table":
        click.echo(summary(states, show_all=show_all))
    else:
        print_table(state_rows(workspace, states), style)
    for warning in without_mates(workspace):
        click.echo(f"warning: {printable(warning)}", err=True)
    if check and any(state.status != "fresh" for state in states):
        raise SystemExit(1)


@main.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: DISENT_HOME/report.html.")
@click.option("--title", default=TITLE, show_default=True, help="Title of the page.")
@click.option("--t-sne", is_flag=True, help="Also plot the embeddings of heads with t-SNE, which takes seconds each.")
def report(output: Path | None, title: str, t_sne: bool) -> None:
    """Write tables, pictures and case studies of the run as one self-contained HTML file."""
    from disent_assets.lineage.run_report import write_report

    workspace = open_workspace()
    path = _new_file(output) if output else workspace.home / "report.html"
    write_report(workspace, path, title, t_sne=t_sne)
    click.echo(path)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--texts", is_flag=True, help="Also write what contains texts of corpora, such as case_studies.")
def publish(folder: Path, *, texts: bool) -> None:
    """Write the warehouse's tables and views for others to use, as Parquet files and one DuckDB file.

    FOLDER is written as a whole, or left as it was. It has the schemas `main` and `papers`, with each view as a table.
    """
    from disent_assets.warehouse.build import publish
    from disent_assets.warehouse.sql_files import require_same_sql

    warehouse = home_folder() / "warehouse.duckdb"
    require_same_sql(warehouse, SQL)
    rows = publish(warehouse, folder, texts=texts)
    click.echo(f"{folder}: {counted(len(rows), 'table')}, {counted(sum(rows.values()), 'row')}")


@main.command("export-texts")
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--encoder", required=True, metavar="NAME", help="The encoder's name in [[encoders]].")
@click.option("--missing", is_flag=True, help="Only texts without a vector in the imported files.")
def export_texts(output: Path, encoder: str, missing: bool) -> None:
    """Export the texts that an external encoder must embed.

    OUTPUT is a .parquet or .jsonl file with the columns text_key, language and text. With a column `vector` added, an
    encoder of kind "vectors" can read it. `disent materialize '+targets'` makes the texts.
    """
    from disent_core.lineage.embeddings import texts_of, write_texts

    _new_file(output)
    listed = texts_of(open_workspace(), encoder, only_missing=missing)
    write_texts(listed, output)
    click.echo(f"{counted(len(listed), 'text')} in {output}")


texts = copy(export_texts)
texts.hidden = True
main.add_command(texts, "texts")  # its name before 0.3


def _new_file(path: Path) -> Path:
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, so it can't be replaced")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist. Make it, or choose another")
    return path
