"""The tables of a run by name: which files the configuration declares, and which of them exist."""

import json
from dataclasses import asdict
from pathlib import Path

from disent_core.experiment.workspace import (
    ALIGNED,
    MASKED,
    POOL,
    SENTENCE_PAIRS,
    SWITCHED,
    TEMPLATES,
    TRAINING_TEMPLATES,
    UTTERANCES,
    Workspace,
)
from disent_core.storage.tables import SCHEMAS, fingerprint, refresh_table, rows_table

OF_LANGUAGES = (UTTERANCES, POOL, MASKED, TEMPLATES, TRAINING_TEMPLATES)
"""Tables with a file for every corpus and language."""
OF_PAIRS = (SENTENCE_PAIRS, SWITCHED)
"""Tables with a file for every corpus and pair of languages."""
METHODS = ("warehouse", "configured_methods", "all")


def stored_tables(workspace: Workspace) -> dict[str, list[Path]]:
    """Files by table: every declared partition that has been made, and nothing else."""
    return {name: [path for path in paths if path.is_file()] for name, paths in declared_tables(workspace).items()}


def declared_tables(workspace: Workspace) -> dict[str, list[Path]]:
    """Files by table: every partition that the configuration asks for, whether it has been made or not."""
    config = workspace.config
    heads = [
        (encoder, method.name, entry)
        for encoder in config.encoders
        for method in config.methods_of(encoder)
        for entry in config.pairs_of(method)
    ]
    return {
        **{
            key[1]: [
                workspace.table(*key, corpus.name, language)
                for language in config.utterance_languages
                for corpus in config.corpora_of(language)
            ]
            for key in OF_LANGUAGES
        },
        **{
            key[1]: [
                workspace.table(*key, corpus, "-".join(pair))
                for corpus, pairs in config.sentence_pairs.items()
                for pair in pairs
            ]
            for key in OF_PAIRS
        },
        ALIGNED[1]: [workspace.table(*ALIGNED, entry) for entry in config.entries],
        "training_curve": [workspace.training_curve(*head) for head in heads],
        **{
            name: [workspace.table("evaluation", name, *head) for head in heads]
            for name in ("metrics", "rankings", "outcomes")
        },
        "comparisons": [workspace.comparisons(encoder) for encoder in config.encoders],
        "configured_methods": [workspace.table(*METHODS)],
    }


def refresh_methods(workspace: Workspace) -> None:
    """Write `configured_methods`: which method and settings a name in `metrics` stands for."""
    rows = [
        {
            "method": method.name,
            "base_method": method.method.name,
            "settings": json.dumps(asdict(method.settings), sort_keys=True),
        }
        for name in workspace.config.experiment.methods
        for method in [workspace.config.methods[name]]
    ]
    refresh_table(
        workspace.table(*METHODS),
        SCHEMAS["configured_methods"],
        inputs=fingerprint(rows),
        make=lambda: rows_table(rows, "configured_methods"),
    )
