"""Write the static model that disent comes with: `python -m tools.model --home data/static`, which `make model` runs.

The head is that of `configs/static.toml`; its card has what the warehouse of the run measured.
"""

from pathlib import Path

import click

import disent
from disent_core.config.load import load_config
from disent_core.export.static import of_head
from disent_core.lineage.saved_heads import open_head
from disent_core.lineage.workspace import UTTERANCES, Workspace
from disent_core.storage.tables import read_info

CONFIG = Path("configs/static.toml")
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


@click.command(help=__doc__)
@click.option("--home", type=click.Path(path_type=Path, exists=True), default=Path("data/static"))
@click.option("--folder", type=click.Path(path_type=Path), default=Path("disent/models/small"))
def main(home: Path, folder: Path) -> None:
    workspace = Workspace(load_config(CONFIG), home)
    head = open_head(workspace.head("words", "facet_static", "small"), device="cpu")
    tables = {code: workspace.table(*UTTERANCES, "massive", code) for code in head.description["languages"]}
    model = of_head(
        head,
        seed=0,
        bits=4,
        name="small",
        licence="CC-BY-4.0",
        attribution=ATTRIBUTION,
        data=[
            {"corpus": "massive", "language": code, "rows": info.rows, "fingerprint": info.content_hash}
            for code, info in ((code, read_info(path)) for code, path in tables.items())
            if info is not None
        ],
        measured=disent.open(CONFIG, home=home).sql(MEASURED).to_dicts(),
    )
    model.save(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    click.echo(f"{model!r}\n{folder}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
