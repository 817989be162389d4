"""Embed texts with a model or a trained head, and read the results of a run from Python: its heads, tables and metrics.

    import disent

    model = disent.load()                             # the model that disent comes with; disent.models() lists all
    model.encode(["wake me up at nine"], "shape")     # float32 [1, dim]

    texts = ["weck mich um neun", "erinnere mich um neun an das meeting", "weck mich um zehn"]
    disent.search("wake me up at nine", texts, by="shape", k=2)   # the nearest texts; or by="values", "meaning"
    index = disent.Index.of(texts, model)             # encoded once, for many searches
    index.search(["wake me up at nine", "call me at ten"], by="values")

    model = disent.load("data/heads/scratch/facet/en-de.safetensors")
    model.encode(["wake me up at nine"], "template")  # float32 [1, dim]

    index = disent.Index.open("INDEX")                            # on disk, made by disent index

    run = disent.open("disent.toml")
    head = run.head("facet", encoder="scratch", pair="en-de")     # answers the same words
    run.table("metrics")                                          # a polars frame
    run.sql("from leaderboard")

    disent.train("requests.csv", "my_model")                      # a model of your own, from translations

Static models, and searches with them, need only numpy. Indexes on disk need the extra `cli`; heads, runs and
`disent.train` need `train`; SQL needs `lineage`. `disent materialize` makes the results of a run; nothing here changes
them. Heavy libraries are imported on first use. Errors about data or configuration are
`disent_core.errors.DisentError`; an unknown name is a `ValueError` that lists the known names.
"""

import os
from typing import TYPE_CHECKING

from disent.classifier import Classifier
from disent.index import Hit, Index, SearchRequest, search, shapes
from disent.model import Model, ModelInfo, load, models
from disent.run import Head, HeadName, Run, open
from disent.training import Measured, Trained, train

# As in `disent_assets`: OpenMP reads this when torch is loaded, and nothing above loads torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = [
    "Classifier", "Head", "HeadName", "Hit", "Index", "Measured", "Model", "ModelInfo", "Run", "SearchRequest",
    "Trained", "load", "models", "open", "search", "shapes", "train",
]  # fmt: skip

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    """Return `__version__`, looked up on first access."""
    if name == "__version__":
        from disent_core import version

        return version()
    raise AttributeError(f"module 'disent' has no attribute {name!r}")
