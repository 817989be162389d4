"""Commands on a trained head: export it, check the exported folder, measure it with mteb."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from disent_assets.cli.group import errors, main, short

if TYPE_CHECKING:
    from disent import Index, Model
    from disent_core.encoders.contract import Device

HEAD_HELP = "A head's .safetensors file, an exported folder, or METHOD@ENCODER:PAIR of the configuration."
MOVED_HEAD = click.option("--head", metavar="HEAD", help=f"If the head is not where it was: {HEAD_HELP}")
ENCODER = click.option("--encoder", type=click.Path(path_type=Path), help="Folder of its encoder, if that has moved.")


def open_model(
    head: str, seed: int | None, encoder: Path | None = None, *, stored: bool = False, device: "Device" = "auto"
) -> "Model":
    """Load the head that a command was given.

    Args:
        head: as in `HEAD_HELP`.
        seed: of the training; None: the first.
        encoder: folder of its encoder, if that has moved.
        device: where a trained head is applied.
        stored: look up the texts that the run has encoded, so that vectors are those that it measures, to the bit.
    """
    from disent import load

    method, _, trained = head.partition("@")
    if not trained or Path(head).exists():
        return load(head, seed=seed, encoder=encoder, device=device)
    from disent.home import home_folder
    from disent.run import open as open_run
    from disent_assets.settings.environment import configuration

    name, _, pair = trained.partition(":")
    model = open_run(configuration(), home=home_folder()).head(method, name, pair or None)
    if stored and model.path is not None and encoder is None:
        model.seed = model._seed(seed)
        return model
    if model.path is not None:
        return load(model.path, seed=seed, encoder=encoder, device=device)
    if seed is not None or encoder is not None:
        raise ValueError(f"{head} is untrained: it has no seed, and its encoder is that of the configuration")
    return model


def open_index(folder: Path, head: str | None, encoder: Path | None) -> "Index":
    """Open the index that a command was given.

    Args:
        folder: where it lies.
        head: its head, if that is not where it was.
        encoder: folder of the head's encoder, if that has moved.
    """
    from disent import Index
    from disent_core.search.contents import read_contents

    contents = read_contents(folder) if head else None
    model = open_model(head, contents.head.seed, encoder) if head and contents else None
    return Index.open(folder, head=model, encoder=encoder)


@main.command()
@click.argument("head")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--embeddings", metavar="NAMES", help="Only these, separated by commas.")
@click.option("--onnx", is_flag=True, help="Also write them as one ONNX graph, disent.onnx.")
@click.option("--seed", type=int, help="Seed of the training; default: the first.")
@click.option("--encoder", type=click.Path(path_type=Path), help="Folder of the head's encoder, if that has moved.")
@click.pass_context
def export(
    context: click.Context,
    head: str,
    folder: Path,
    embeddings: str | None,
    onnx: bool,
    seed: int | None,
    encoder: Path | None,
) -> None:
    """Write a trained head as a folder that sentence-transformers loads without disent.

    HEAD is its file, data/heads/ENCODER/METHOD/PAIR.safetensors, an exported folder, or METHOD@ENCODER:PAIR of the
    configuration. FOLDER must not exist.
    """
    with errors(context):
        model = open_model(head, seed, encoder, device="cpu")
        names = None if embeddings is None else [name.strip() for name in embeddings.split(",")]
        written = model.save(folder, names, onnx=onnx)
        if written.tags:
            click.echo(f"{short(folder.resolve())}: {', '.join(written.tags)}; the head's own tags")
            click.echo(f'\n    AutoModelForTokenClassification.from_pretrained("{short(folder.resolve())}")')
            return
        routes = list(written.routes.steps)
        exact = f"the head's own vectors to {written.difference:.0e} of the largest value"
        click.echo(f"{short(folder.resolve())}: {', '.join(routes)}; {exact}")
        if written.graph_difference is not None:
            click.echo(f"disent.onnx: the same, to {written.graph_difference:.0e}")
        if written.routes.left_out:
            absent = ", ".join(written.routes.left_out)
            click.echo(f"Left out, name them with --embeddings to have them too: {absent}")
        flag = ", trust_remote_code=True" if written.routes.needs_code else ""
        click.echo(f'\n    model = SentenceTransformer("{short(folder.resolve())}"{flag})')
        click.echo(f'    model.encode(texts, task="{written.routes.default or routes[0]}")')


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def check(context: click.Context, folder: Path) -> None:
    """Check a folder that disent has exported: its files, and its vectors of a few texts."""
    with errors(context):
        from disent_core.export.folder import check_folder

        checked = check_folder(folder)
        click.echo(f"{short(folder.resolve())}: as it was exported; {', '.join(checked.routes or checked.tags)}")
        if checked.graph is False:
            click.echo("disent.onnx has its checksum; to run it too: pip install 'disent[onnx]'")


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
        from disent.home import home_folder
        from disent.mteb import DisentEncoder
        from disent_assets.settings.environment import configuration
        from disent_core.mteb_bridge.run import evaluate, local_tasks, trained_languages

        run = disent.open(configuration(), home=home_folder())
        model = open_model(head, seed, encoder, stored=True)
        chosen = _names(languages) or trained_languages(run._workspace, str(model.description["trained_on"]))
        local = local_tasks(run._workspace, chosen, _names(tasks))
        output = run.home / "mteb" if folder is None else folder.expanduser()
        for name in _names(embeddings) or model.embeddings:
            measured = DisentEncoder(model, name)
            for result in evaluate(measured, local, output):
                for line in _lines(result):
                    click.echo(f"{name}  {line}")
        click.echo(f"Result files of mteb: {short(output.resolve())}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _lines(result: Any) -> Iterator[str]:
    """Main score of every subset, and what it is called here if that is something else."""
    from disent_core.evaluation.mteb_results import twin_of

    twin = twin_of(result.task_name, is_ours=True)
    for scores in (scores for of_split in result.scores.values() for scores in of_split):
        same = [f"{ours} {scores[theirs]:.4f}" for theirs, ours in twin.metrics.items() if theirs in scores]
        said = ", ".join([f"main score {scores['main_score']:.4f}", *same])
        yield f"{result.task_name} {scores['hf_subset']}: {said}"
