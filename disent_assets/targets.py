"""Stage `targets`: utterances with slots -> masked texts, template pairs, and the pairs that heads train on."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import dagster as dg
import pyarrow as pa

from disent_assets import partitions
from disent_assets.report import clear_errors, materialized, spec
from disent_assets.resources import Workspace
from disent_core.pairs import LanguageTables, aligned_pairs
from disent_core.tables import SCHEMAS, Refreshed, content_of, fingerprint, read_table, refresh_table
from disent_core.targets import mask_utterances, template_pairs

CODE_VERSION = "1"
UTTERANCES, POOL = ["corpora", "utterances"], ["negatives", "negative_pool"]
MASKED, TEMPLATES = ["targets", "masked_utterances"], ["targets", "template_pairs"]
TRAINING_TEMPLATES = ["targets", "training_template_pairs"]
ALIGNED = ["targets", "aligned_pairs"]


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage."""
    targets = workspace.config.targets
    masking = (targets.mask, targets.no_slot_residual)
    masked = _per_language(
        workspace,
        MASKED,
        "Template text (slot words masked) and residual text (the other words masked). One row an utterance.",
        settings=masking,
        make=lambda utterances: mask_utterances(utterances, targets),
    )
    templates = _per_language(
        workspace,
        TEMPLATES,
        "Utterances with every slot value replaced by another of its type: same template. One row a target.",
        settings=targets.template_pairs,
        make=lambda utterances: template_pairs(utterances, targets.template_pairs),
    )
    training_templates = _per_language(
        workspace,
        TRAINING_TEMPLATES,
        "Template pairs of training utterances, for methods that train on them; values of training only. "
        "One row a target.",
        settings=targets.training_template_pairs,
        make=lambda utterances: template_pairs(utterances, targets.training_template_pairs),
    )
    return [masked, templates, training_templates, _aligned_pairs(workspace)]


def _per_language(
    workspace: Workspace,
    key: list[str],
    description: str,
    *,
    settings: object,
    make: Callable[[pa.Table], pa.Table],
) -> dg.AssetsDefinition:
    config, version = workspace.config, fingerprint(CODE_VERSION, settings)

    def refresh(corpus: str, language: str) -> Refreshed:
        source = workspace.table(*UTTERANCES, corpus, language)
        return refresh_table(
            workspace.table(*key, corpus, language),
            SCHEMAS[key[1]],
            inputs=fingerprint(version, content_of(source)),
            make=lambda: make(read_table(source, SCHEMAS["utterances"])),
        )

    @dg.multi_asset(
        name="__".join(key),
        specs=[
            spec(
                key,
                description,
                code_version=version[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(UTTERANCES)],
                schema=SCHEMAS[key[1]],
            )
        ],
        partitions_def=partitions.languages(config),
    )
    def table(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        with clear_errors():
            refreshed = [refresh(corpus.name, language) for corpus in config.corpora_of(language)]
        yield materialized(refreshed, key=key)

    return table


def _aligned_pairs(workspace: Workspace) -> dg.AssetsDefinition:
    config = workspace.config
    mapping = partitions.language_to_pairs(config)

    @dg.multi_asset(
        name="__".join(ALIGNED),
        specs=[
            spec(
                ALIGNED,
                "Parallel utterances of a pair (or of all pairs of a mixture) with the address of every text "
                "that a head trains on. One row an utterance and pair.",
                code_version=CODE_VERSION,
                kinds={"parquet"},
                deps=[dg.AssetDep(key, partition_mapping=mapping) for key in (UTTERANCES, MASKED, POOL)],
                schema=SCHEMAS["aligned_pairs"],
            )
        ],
        partitions_def=partitions.pairs(config),
    )
    def aligned(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        entry = context.partition_key
        sources = list(_sources(workspace, entry))
        contents = [content_of(path) for path in chain.from_iterable(_paths(workspace, *one) for one in sources)]
        with clear_errors():
            refreshed = refresh_table(
                workspace.table(*ALIGNED, entry),
                SCHEMAS["aligned_pairs"],
                inputs=fingerprint(CODE_VERSION, sources, contents),
                make=lambda: pa.concat_tables([_align(workspace, *one) for one in sources]),
            )
        yield materialized([refreshed], key=ALIGNED)

    return aligned


def _sources(workspace: Workspace, entry: str) -> Iterator[tuple[str, str, str]]:
    """Corpus and two languages of every part of an entry."""
    for left, right in workspace.config.pair_languages[entry]:
        for corpus in workspace.config.corpora_of_pair(left, right):
            yield corpus.name, left, right


def _paths(workspace: Workspace, corpus: str, left: str, right: str) -> list[Path]:
    return [workspace.table(*key, corpus, language) for language in (left, right) for key in (UTTERANCES, MASKED, POOL)]


def _align(workspace: Workspace, corpus: str, left: str, right: str) -> pa.Table:
    read = [read_table(path, SCHEMAS[path.parent.parent.name]) for path in _paths(workspace, corpus, left, right)]
    return aligned_pairs(f"{left}-{right}", LanguageTables(*read[:3]), LanguageTables(*read[3:]))
