"""The command that measures a head with mteb."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from disent_assets.cli.group import errors, main, short
from disent_assets.cli.heads import open_model


@main.command()
@click.argument("head")
@click.option("--embeddings", metavar="NAMES", help="Only these, separated by commas; default: all.")
@click.option("--tasks", metavar="NAMES", help="Only these tasks, as mteb names them, separated by commas.")
@click.option("--languages", metavar="CODES", help="Separated by commas; default: those that the head was trained on.")
@click.option("--seed", type=int, help="Seed of the training; default: the first.")
@click.option("--encoder", type=click.Path(path_type=Path), help="Folder of the head's encoder, if that has moved.")
@click.option("--folder", type=click.Path(path_type=Path), help="Of mteb's result files; default: mteb in DISENT_HOME.")
@click.pass_context
def mteb(
    context: click.Context,
    head: str,
    embeddings: str | None,
    tasks: str | None,
    languages: str | None,
    seed: int | None,
    encoder: Path | None,
    folder: Path | None,
) -> None:
    """Measure a head with mteb on the corpora of the configuration, and write mteb's result files.

    HEAD is its file, data/heads/ENCODER/METHOD/PAIR.safetensors, an exported folder, or METHOD@ENCODER:PAIR of the
    configuration, such as raw@minilm; then texts that the run has encoded are looked up. What has been measured
    before is not measured again.
    """
    with errors(context):
        import_module("mteb")  # before anything is read: without it, the message says how to install it
        import disent
        from disent.mteb import DisentEncoder
        from disent_assets.resources import configuration, home_folder
        from disent_core.mteb_bridge.run import evaluate, local_tasks, trained_languages

        run = disent.open(configuration(), home=home_folder())
        model = open_model(head, seed, encoder, stored=True)
        chosen = _names(languages) or trained_languages(run._workspace, str(model.description["trained_on"]))
        local = local_tasks(run._workspace, chosen, _names(tasks))
        place = run.home / "mteb" if folder is None else folder.expanduser()
        for name in _names(embeddings) or model.embeddings:
            measured = DisentEncoder(model, name)
            for result in evaluate(measured, local, place):
                for line in _lines(result):
                    click.echo(f"{name}  {line}")
        click.echo(f"Result files of mteb: {short(place.resolve())}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _lines(result: Any) -> Iterator[str]:
    """Main score of every subset, and what it is called here if that is something else."""
    from disent_core.evaluation.mteb_results import twin_of

    twin = twin_of(result.task_name, is_ours=True)
    for scores in (one for listed in result.scores.values() for one in listed):
        same = [f"{ours} {scores[theirs]:.4f}" for theirs, ours in twin.metrics.items() if theirs in scores]
        said = ", ".join([f"main score {scores['main_score']:.4f}", *same])
        yield f"{result.task_name} {scores['hf_subset']}: {said}"
