"""The commands to start with: `init` writes a new project, `train` a static model from a table of translations."""

import logging
import shutil
from pathlib import Path
from typing import Any

import click

from disent import train as train_model
from disent.home import SHARED
from disent.training import configuration_of
from disent_assets.cli.group import main, short
from disent_assets.cli.search import SHA256, checksum, open_model
from disent_core.embedding_names import without_slots
from disent_core.errors import ConfigError, located
from disent_core.storage.files import temporary_folder

_IGNORED = """\
# Results, downloads and caches; the sample corpora are yours to change.
/data/*
!/data/corpora/
__pycache__/
"""
_DG = """\
# For Dagster's `dg`, which finds disent's assets by this file; `dagster dev` uses workspace.yaml.
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "lineage"
code_location_target_module = "lineage.definitions"
code_location_name = "disent"
"""
_DEFINITIONS = """\
\"\"\"The assets of this project: those of disent. `dagster.Definitions.merge` adds your own.\"\"\"

from disent_assets.definitions import defs

__all__ = ["defs"]
"""
_MAKE_CORPORA = shutil.ignore_patterns("*.py", "grammar", "__pycache__")  # the scripts that wrote the sample corpora
_TABLES = "data/corpora"
_DEMO = """\
#:schema disent.schema.json
# The demo: sample corpora, an encoder pretrained on them in seconds, a method of every kind.
# `disent settings` lists all keys.
"""
_MASSIVE = """\
#:schema disent.schema.json
# MASSIVE 1.1 in English and German, one small encoder and four methods with one seed: about ten minutes of one core.
# MASSIVE (40 MB) is downloaded to data/real/, if it is not there, and the encoder (90 MB) to the cache of Hugging Face.
# `disent settings` lists all keys.

"""


def write_project(folder: Path, *, real: bool = False, data: Path | None = None) -> None:
    """Write a new project; a new folder appears complete or not at all.

    The project uses MASSIVE if `real`, a copy of the table of translations `data` if given, else the sample corpora.
    """
    path = None if data is None else f"{_TABLES}/{data.resolve().name}"
    configuration = _configuration(real=real) if data is None else configuration_of(data, path=path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(located(folder, None, "this is not an empty folder", "Name a new one"))
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder.parent) as temporary:
        project = temporary / "project"
        (project / "lineage").mkdir(parents=True)
        for name, text in _files(configuration).items():
            (project / name).write_text(text, encoding="utf-8")
        if data is not None:
            copy = shutil.copytree if data.is_dir() else shutil.copyfile
            (project / _TABLES).mkdir(parents=True)
            copy(data, project / _TABLES / data.resolve().name)
        elif not real:
            shutil.copytree(SHARED / "data" / "corpora", project / "data" / "corpora", ignore=_MAKE_CORPORA)
        if not folder.exists():
            project.rename(folder)
            return
        # The configuration is moved last, as it makes the folder a project.
        for path in sorted(project.iterdir(), key=lambda path: path.name == "disent.toml"):
            path.rename(folder / path.name)


def _files(configuration: str) -> dict[str, str]:
    from disent_core.config.reference import FILE_NAME, schema_text

    workspace = (SHARED / "workspace.yaml").read_text(encoding="utf-8").replace("disent_assets.", "lineage.")
    return {
        "disent.toml": configuration,
        FILE_NAME: schema_text(),
        "workspace.yaml": workspace,
        "pyproject.toml": _DG,
        "lineage/__init__.py": "",
        "lineage/definitions.py": _DEFINITIONS,
        ".gitignore": _IGNORED,
    }


def _configuration(*, real: bool) -> str:
    if not real:
        text = (SHARED / "disent.toml").read_text(encoding="utf-8")
        return _DEMO + text[text.index("\n[[corpora]]") :].replace("; docs/methods.md says why", "")
    text = (SHARED / "configs" / "massive_start.toml").read_text(encoding="utf-8")
    sections = text[text.index("[[corpora]]") :]  # skip the header on running it in a checkout
    return _MASSIVE + sections.replace('"../data/', '"data/')  # its paths are relative to configs/


_NEXT = """\
{folder} has a project{what}. Next:

    cd {folder}
    disent materialize      run it{needs}
    disent leaderboard      which method is best
    disent dev              the UI on http://127.0.0.1:3000"""

_DOWNLOADS = "; first it downloads MASSIVE (40 MB) and an encoder (90 MB)"


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--real",
    is_flag=True,
    help="Use MASSIVE instead of the sample corpora; the run downloads it (40 MB) and an encoder (90 MB).",
)
@click.option(
    "--from",
    "data",
    type=click.Path(path_type=Path, exists=True),
    help="Copy a table of translations, in the form that `disent train` reads, and train on it.",
)
def init(folder: Path, real: bool, data: Path | None) -> None:
    """Create a runnable project in a new folder: a configuration, its corpora, and what Dagster needs."""
    if real and data is not None:
        raise click.UsageError("--real and --from each choose what the project reads: give only one of them")
    write_project(folder, real=real, data=data)
    of_samples = (" on the sample corpora", "") if data is None else (f" on {data.name}", "")
    what, needs = (" on MASSIVE", _DOWNLOADS) if real else of_samples
    click.echo(_NEXT.format(folder=short(folder.resolve()), what=what, needs=needs))


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--extend", metavar="MODEL", help="Extend this model (a name, folder or URL) by the languages it lacks.")
@SHA256
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Seed of the training.")
@click.option("--bits", type=click.Choice(["4", "8"]), default="8", show_default=True, help="Bits per weight.")
@click.option("--licence", help="Licence of the weights, for the card, such as CC-BY-4.0.")
@click.option("--overwrite", is_flag=True, help="Replace the model in FOLDER.")
def train(
    data: Path, folder: Path, extend: str | None, seed: int, bits: str, licence: str | None, *, overwrite: bool
) -> None:
    """Train a model on a table of translations, without a project, and compare it with others.

    DATA is a CSV, TSV, JSONL or Parquet file with a column for each language (en, de, ...), or with columns language,
    text and id. Slots in brackets ("at [time : nine]") teach the model shape and values; a column intent is used to
    measure it. The model is written to FOLDER; disent.load opens it. `disent init --from DATA` makes a project from the
    same table.
    """
    for name in ("disent.training", "disent_core"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("disent_core.methods.trainer").setLevel(logging.WARNING)  # no epochs between lines about steps
    checksum(extend)
    known: Any = None if extend is None else open_model(extend)  # `train` refuses a head
    trained = train_model(data, folder, extend=known, seed=seed, bits=int(bits), licence=licence, overwrite=overwrite)
    click.echo(f"\n{trained}\n")
    if not trained.has_shape:
        click.echo(f"{without_slots('The model')}.")
    click.echo(f'{short(folder.resolve())}: disent.load("{short(folder.resolve())}")')
