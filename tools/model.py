"""Write a static model that `disent.load()` opens by its name: `python -m tools.model NAME`, which `make model` runs.

`small` is written to disent/models/small, and `massive` to a wheel in dist/. The head is that of the model's
configuration, and the card has what the warehouse of the run measured.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

import disent
from disent.model import ENTRY_POINTS
from disent.training import translation
from disent_core.config.load import load_config
from disent_core.export.static import of_head
from disent_core.lineage.saved_heads import open_head
from disent_core.lineage.workspace import UTTERANCES, Workspace
from disent_core.static_model import StaticModel
from disent_core.storage.tables import SCHEMAS, read_info, read_table

SMALL = Path("disent/models/small")
SEED, BITS = 0, 4
ATTRIBUTION = (
    "MASSIVE 1.1 (FitzGerald et al. 2022, https://arxiv.org/abs/2204.08582), Copyright Amazon.com Inc. or its "
    "affiliates, CC BY 4.0; the weights are learned from its texts"
)
MEASURED = """
select
    task, embedding, evaluated_on, metric, round(value, 3) as value, round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high, n, seeds
from leaderboard
where method = 'facet_static'
    and (task != 'crosslingual_retrieval' or hubness = 'none')
    and metric in ('accuracy_at_1', 'accuracy')
    and rank is not null
order by task, evaluated_on
"""
PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "disent-{name}"
version = "{version}"
description = "The model {name} of disent: disent.load('{name}')"
readme = "disent_{name}/README.md"
license = "CC-BY-4.0"
requires-python = ">=3.11"
dependencies = ["numpy>=2.2", "safetensors>=0.7"]

[project.entry-points."{group}"]
{name} = "disent_{name}"

[tool.hatch.build.targets.wheel]
only-include = ["disent_{name}"]
"""


@dataclass(frozen=True)
class Edition:
    """A model that is published: the run that trains it."""

    config: Path
    home: Path


EDITIONS = {
    "small": Edition(Path("configs/static.toml"), Path("data/static")),
    "massive": Edition(Path("configs/static_massive.toml"), Path("data/static_massive")),
}


def trained(name: str, config: Path, home: Path) -> StaticModel:
    """Return the model of a run, with the facts of its card."""
    workspace = Workspace(load_config(config), home)
    head = open_head(workspace.head("words", "facet_static", name), device="cpu")
    languages = head.description["languages"]
    paths = {code: workspace.table(*UTTERANCES, "massive", code) for code in languages}
    facts = {
        "name": name,
        "licence": "CC-BY-4.0",
        "attribution": ATTRIBUTION,
        "data": [
            {"corpus": "massive", "language": code, "rows": info.rows, "fingerprint": info.content_hash}
            for code, info in ((code, read_info(path)) for code, path in paths.items())
            if info is not None
        ],
        "measured": disent.open(config, home=home).sql(MEASURED).to_dicts(),
    }
    tables = {code: read_table(path, SCHEMAS["utterances"]) for code, path in paths.items()}
    packed = of_weights(of_head(head, seed=SEED, bits=BITS), tables)
    return of_head(head, seed=SEED, bits=BITS, **facts, measured_packed=packed)


def of_weights(model: StaticModel, tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """Return translation by the very weights that are published, from the first language to the others and back."""
    first, *others = model.languages
    return [
        {"of": row.of, "value": round(row.value, 3), "n": row.n}
        for other in others
        for languages in ((first, other), (other, first))
        for row in translation("packed", model, tables, languages)
    ]


def write_wheel(model: StaticModel, name: str, folder: Path) -> Path:
    """Write a wheel whose package is the folder of a model, and return its path."""
    with tempfile.TemporaryDirectory() as temporary:
        model.save(Path(temporary) / f"disent_{name}")
        facts = {"name": name, "version": version("disent-embeddings"), "group": ENTRY_POINTS}
        (Path(temporary) / "pyproject.toml").write_text(PYPROJECT.format(**facts), encoding="utf-8")
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder.resolve()]
        subprocess.run(command, cwd=temporary, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob(f"disent_{name}-{version('disent-embeddings')}-*.whl")
    return wheel


@click.command(help=__doc__)
@click.argument("name", type=click.Choice(list(EDITIONS)))
@click.option("--home", type=click.Path(path_type=Path, exists=True), help="Folder of the run's results.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), help="Folder of the wheel.")
def main(name: str, home: Path | None, dist: Path) -> None:
    edition = EDITIONS[name]
    model = trained(name, edition.config, home or edition.home)
    if name == "small":
        model.save(SMALL)
        written, size = SMALL, sum(file.stat().st_size for file in SMALL.iterdir())
    else:
        written = write_wheel(model, name, dist)
        size = written.stat().st_size
    click.echo(f"{model!r}\n{written}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
