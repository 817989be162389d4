"""Heads in mteb, the benchmark of embeddings, and its tasks on the corpora of a run.

    import disent
    from disent.mteb import DisentEncoder, evaluate, tasks

    run = disent.open("disent.toml")
    model = disent.load("data/heads/scratch/facet/en-de.safetensors")
    evaluate(model, tasks(run, ["en", "de"]), "data/mteb")       # every embedding; mteb's own result files
    mteb.evaluate(DisentEncoder(model, "template"), mteb.get_tasks(...))  # any task of mteb, with its data

`pip install 'disent-embeddings[mteb]'`. docs/mteb.md says which tasks there are.
"""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from disent_core.mteb_bridge.encoder import DisentEncoder

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

    from disent.model import Model
    from disent.run import Run

__all__ = ["DisentEncoder", "evaluate", "tasks"]


def tasks(run: "Run", languages: Collection[str] = (), names: Sequence[str] = ()) -> "list[AbsTask]":
    """Tasks of mteb with their data from the tables of a run: official ones where it has their texts, and disent's own.

    Args:
        run: its corpora must have been materialised.
        languages: only what all of whose languages are among these; empty: all of the configuration.
        names: only these tasks, as mteb names them; empty: all.

    Raises:
        TableError: if a table that a task reads does not exist.
        ValueError: if there is no such task, or none of the tasks has data in these languages.
    """
    from disent_core.mteb_bridge.run import local_tasks

    return local_tasks(run._workspace, languages, names)


def evaluate(
    model: "Model", tasks: "Sequence[AbsTask]", folder: str | Path, embeddings: Sequence[str] | None = None
) -> "dict[str, list[TaskResult]]":
    """Measure a head with mteb; a result that is in the folder and has not changed is not measured again.

    Args:
        model: the head.
        tasks: of `tasks`, or any of mteb.
        folder: of the result files, which `mteb.ResultCache(folder)` and `[mteb.results]` of a configuration read.
        embeddings: which of its embeddings; None: all.

    Returns:
        Embedding -> mteb's result of each task.

    Raises:
        ValueError: if the head has no such embedding, or needs the language of a text and a task does not say it.
    """
    from disent_core.mteb_bridge.run import evaluate

    encoders = [DisentEncoder(model, name) for name in (embeddings or model.embeddings)]
    return {encoder.embedding: list(evaluate(encoder, tasks, Path(folder).expanduser())) for encoder in encoders}
