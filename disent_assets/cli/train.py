"""The command that trains a static model on a table of translations."""

import logging
from pathlib import Path

import click

from disent_assets.cli.group import main, short


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--extend", metavar="MODEL", help="Add the languages that this model lacks: a name or a folder.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--bits", type=click.Choice(["4", "8"]), default="8", show_default=True, help="Of a weight.")
@click.option("--overwrite", is_flag=True, help="Replace the model in FOLDER.")
def train(data: Path, folder: Path, extend: str | None, seed: int, bits: str, *, overwrite: bool) -> None:
    """Train a model on a table of translations, without a project, and measure it beside others.

    DATA is a CSV, TSV, JSONL or Parquet file with a column for each language (en, de, ...), or with columns language,
    text and id; slots in brackets ("at [time : nine]") teach it shape and values, a column intent is measured. The
    model is written to FOLDER, which disent.load opens. `disent init --from DATA` makes a project of the same table.
    """
    from disent import train as train_model

    for name in ("disent.training", "disent_core"):
        logging.getLogger(name).setLevel(logging.INFO)
    trained = train_model(data, folder, extend=extend, seed=seed, bits=int(bits), overwrite=overwrite)
    click.echo(f"\n{trained}\n")
    if not trained.has_shape:
        click.echo("The table has no slots in brackets, so the model has a meaning and neither shape nor values.")
    click.echo(f'{short(folder.resolve())}: disent.load("{short(folder.resolve())}")')
