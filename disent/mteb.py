"""Heads in mteb, the benchmark of embeddings, and its tasks on the corpora of a run.

    import disent
    from disent.mteb import DisentEncoder, evaluate, tasks

    run = disent.open("disent.toml")
    model = disent.load("data/heads/scratch/facet/en-de.safetensors")
    evaluate(model, tasks(run, ["en", "de"]), "data/mteb")       # every embedding; mteb's own result files
    mteb.evaluate(DisentEncoder(model, "template"), mteb.get_tasks(...))  # any task of mteb, with its data

`pip install 'disent-embeddings[mteb]'`. docs/mteb.md lists the tasks.
"""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from disent.home import expanded
from disent_core.mteb_bridge.encoder import DisentEncoder

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

    from disent.model import Model
    from disent.run import Run

__all__ = ["DisentEncoder", "evaluate", "tasks"]


def tasks(run: "Run", languages: Collection[str] = (), names: Sequence[str] = ()) -> "list[AbsTask]":
    """Return mteb tasks with data from a run's tables: official tasks whose texts it has, and disent's own.

    Args:
        run: its corpora must have been materialised.
        languages: only tasks whose languages are all among these; empty: all languages of the configuration.
        names: only these tasks, by their names in mteb; empty: all.

    Raises:
        TableError: if a table that a task reads does not exist.
        ValueError: if there is no such task, or none of the tasks has data in these languages.
    """
    from disent_core.mteb_bridge.run import local_tasks

    return local_tasks(run._workspace, languages, names)


def evaluate(
    model: "Model", tasks: "Sequence[AbsTask]", folder: str | Path, embeddings: Sequence[str] | None = None
) -> "dict[str, list[TaskResult]]":
    """Measure a head with mteb; an unchanged result in the folder is not measured again.

    Args:
        model: the head.
        tasks: of `tasks`, or any of mteb.
        folder: of the result files, which `mteb.ResultCache(folder)` and `[mteb.results]` of a configuration read.
        embeddings: the head's embeddings to measure; None: all.

    Returns:
        Maps each embedding to mteb's result of each task.

    Raises:
        ValueError: if the head has no such embedding, or needs the language of a text and a task does not name it.
    """
    from disent_core.mteb_bridge.run import evaluate

    encoders = [DisentEncoder(model, name) for name in (embeddings or model.embeddings)]
    return {encoder.embedding: list(evaluate(encoder, tasks, expanded(folder))) for encoder in encoders}
