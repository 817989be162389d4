"""State what the heads and the metrics of an encoder read of a training set.

A gate is a step that makes nothing: its content is a fingerprint of what the steps behind it read. While that stays
the same, none of them is stale.
"""

from collections.abc import Sequence
from typing import Any

from disent_core.config.model import Config, MethodConfig
from disent_core.errors import TableError, located
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.evaluation_inputs import sources
from disent_core.lineage.head_spec import TABLES
from disent_core.lineage.result import StepResult
from disent_core.lineage.workspace import ALIGNED, MATES, Workspace
from disent_core.storage.tables import SCHEMAS, content_fingerprint, fingerprint, read_info, read_table
from disent_core.training.needs import Need, in_training_splits

CODE_VERSION = "1"


def trained_methods(config: Config, encoder: str) -> list[MethodConfig]:
    """The methods of an encoder that have heads."""
    return [method for method in config.methods_of(encoder) if method.method.is_trained]


def training_data(workspace: Workspace, encoder: str, training_set: str) -> StepResult:
    """State what the heads of an encoder read; texts of the test split do not change it."""
    config = workspace.config
    methods = _with(training_set, trained_methods(config, encoder), config)
    of_training_set = [ALIGNED, *([MATES] if any(Need.PARALLEL_MATES in method.needs for method in methods) else [])]
    of_languages = [
        (*table, corpus.name, language)
        for need, table in TABLES.items()
        for method in methods
        if need in method.needs
        for language in config.languages_of(training_set)
        for corpus in config.trained_corpora(method, language)
    ]
    read = []
    for source in (*((*table, training_set) for table in of_training_set), *dict.fromkeys(of_languages)):
        table = in_training_splits(read_table(workspace.table(*source), SCHEMAS[source[1]]))
        read.append(_read(source, len(table), content_fingerprint(table)))
    return _stated(workspace, encoder, read)


def evaluation_sets(workspace: Workspace, encoder: str, training_set: str) -> StepResult:
    """State what the tasks read to measure the methods of an encoder."""
    config = workspace.config
    methods = _with(training_set, config.methods_of(encoder), config)
    read = []
    for source in dict.fromkeys(source for method in methods for source in sources(workspace, training_set, method)):
        path = workspace.table(*source)
        if (info := read_info(path)) is None:
            raise TableError(located(path, None, "this table does not exist", "Materialise its asset first"))
        read.append(_read(source, info.rows, info.content_hash))
    return _stated(workspace, encoder, read)


def _with(training_set: str, methods: Sequence[MethodConfig], config: Config) -> list[MethodConfig]:
    return [method for method in methods if training_set in config.training_sets_of(method)]


def _read(source: Sequence[str], rows: int, content: str) -> dict[str, Any]:
    return {"table": source[1], "partition": "/".join(source[2:]), "rows": rows, "content": content}


def _stated(workspace: Workspace, encoder: str, read: Sequence[dict[str, Any]]) -> StepResult:
    model = lazy_encoder(workspace, encoder).fingerprint
    return StepResult(rows=None, content=fingerprint(model, read), is_reused=True, figures={"reads": read})
