"""Write a static model that `disent.load()` opens by its name: `python -m tools.model NAME`, which `make model` runs.

`small` is written to disent/models/small, and `massive` to a wheel in dist/. The head is that of the model's
configuration, and the card has what the warehouse of the run measured. Where the model is there already, the command
says whether the run gives the same bits, or how far it is.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

import disent
from disent.model import ENTRY_POINTS
from disent.training import of_parts, scored, translation
from disent_core.config.load import load_config
from disent_core.embedding_names import ALIASES
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem
from disent_core.evaluation.tasks.probes import LEAKAGE_KNN
from disent_core.export.static import of_head
from disent_core.lineage.saved_heads import SavedHead, open_head
from disent_core.lineage.workspace import TEMPLATES, UTTERANCES, Workspace
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
    """A published model, with the run that trains it."""

    config: Path
    home: Path


EDITIONS = {
    "small": Edition(Path("configs/static.toml"), Path("data/static")),
    "massive": Edition(Path("configs/static_massive.toml"), Path("data/static_massive")),
}


def facts(name: str, head: SavedHead, workspace: Workspace) -> dict[str, Any]:
    """Return the facts for a model's card that come from its run."""
    paths = {code: workspace.table(*UTTERANCES, "massive", code) for code in head.description["languages"]}
    return {
        "name": name,
        "licence": "CC-BY-4.0",
        "attribution": ATTRIBUTION,
        "data": [
            {"corpus": "massive", "language": code, "rows": info.rows, "fingerprint": info.content_hash}
            for code, info in ((code, read_info(path)) for code, path in paths.items())
            if info is not None
        ],
        "measured": disent.open(workspace.config.path, home=workspace.home).sql(MEASURED).to_dicts(),
    }


def of_weights(model: StaticModel, workspace: Workspace) -> list[dict[str, Any]]:
    """Measure what the published weights find, and what each part finds that only the other one should.

    Translation and language figures are between the first language and each other one.
    """
    first, *others = model.languages
    tables, pairs = (
        {code: read_table(workspace.table(*key, "massive", code), SCHEMAS[key[1]]) for code in model.languages}
        for key in (UTTERANCES, TEMPLATES)
    )
    read = {("utterances", code): table for code, table in tables.items()}
    rows = [row for other in others for languages in ((first, other), (other, first))
            for row in translation("packed", model, tables, languages)]  # fmt: skip
    rows += of_parts(tables, pairs, {"packed": model})
    for other in others:
        inputs = Inputs(corpus="massive", languages=(first, other), tables=read)
        for problem in cast("list[Problem]", LEAKAGE_KNN.problems(inputs, EvaluationConfig())):
            rows += (scored("packed", f"language by {part}", problem, model, part) for part in ("meaning", *ALIASES))
    return [{"measure": row.measure, "of": row.of, "value": round(row.value, 3), "n": row.n} for row in rows]


def distance(model: StaticModel, known: StaticModel, texts: Sequence[str]) -> str:
    """Report whether two models have equal weights or, if not, how far their vectors of texts and figures differ."""
    if model.fingerprint == known.fingerprint:
        return "the run gives the weights that are there, to the bit"
    apart = max(float(np.abs(model.encode(texts, name) - known.encode(texts, name)).max()) for name in known.names)
    ours, theirs = (
        {(row["measure"], row["of"]): row["value"] for row in each.description["measured_packed"]}
        for each in (model, known)
    )
    figures = max(abs(ours[key] - theirs[key]) for key in theirs)
    what = "the run gives other weights than those that are there"
    return f"{what}: vectors of {len(texts):,} texts differ by up to {apart:.1e}, figures by up to {figures:.3f}"


def write_wheel(model: StaticModel, name: str, folder: Path) -> Path:
    """Write a wheel whose package is a model's folder; return its path."""
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
@click.option("--keep", is_flag=True, help="Keep the weights of small that are there; measure them for their card.")
def main(name: str, home: Path | None, dist: Path, *, keep: bool) -> None:
    edition = EDITIONS[name]
    workspace = Workspace(load_config(edition.config), home or edition.home)
    head = open_head(workspace.head("words", "facet_static", name), device="cpu")
    model = of_head(head, seed=SEED, bits=BITS)
    model = model.described(measured_packed=of_weights(model, workspace))
    if name == "small":
        known = StaticModel.load(SMALL)
        known = known.described(measured_packed=of_weights(known, workspace))
        paths = [workspace.table(*UTTERANCES, "massive", code) for code in known.languages]
        texts = [text for path in paths for text in read_table(path, SCHEMAS["utterances"])["text"].to_pylist()]
        click.echo(distance(model, known, texts))
        if not keep:
            known = model.described(**facts(name, head, workspace))
        known.save(SMALL)
        written, size = SMALL, sum(file.stat().st_size for file in SMALL.iterdir())
    else:
        model = model.described(**facts(name, head, workspace))
        written = write_wheel(model, name, dist)
        size = written.stat().st_size
    click.echo(f"{model!r}\n{written}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
