"""The commands that write and check a folder of sentence-transformers."""

from pathlib import Path

import click

from disent_assets.cli.group import errors, main, short
from disent_assets.cli.heads import open_model


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
