"""Stage `targets`: utterances with slots -> masked texts, template pairs, and the pairs that heads train on."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import dagster as dg
import pyarrow as pa

from disent_assets import partitions
from disent_assets.asset_results import clear_errors, materialized, spec
from disent_assets.corpus_versions import word_list, words_version
from disent_assets.resources import Workspace
from disent_assets.stages.corpora import PAIR_FILES, SENTENCE_PAIRS, UTTERANCES
from disent_core.corpora import reader
from disent_core.storage.tables import SCHEMAS, Refreshed, content_of, fingerprint, read_table, refresh_table
from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs, aligned_sentences
from disent_core.targets.code_switching import CODE_VERSION as SWITCHING_VERSION
from disent_core.targets.code_switching import code_switched, read_dictionary
from disent_core.targets.masking import mask_utterances
from disent_core.targets.template_pairs import template_pairs

CODE_VERSION = "1"
POOL = ["negatives", "negative_pool"]
MASKED, TEMPLATES = ["targets", "masked_utterances"], ["targets", "template_pairs"]
TRAINING_TEMPLATES = ["targets", "training_template_pairs"]
SWITCHED = ["targets", "code_switched_pairs"]
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
        training=True,
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
        training=True,
    )
    config = workspace.config
    per_language = [masked, templates, training_templates] if config.utterance_languages else []
    switched = [_code_switched(workspace)] if config.pair_names and targets.code_switching.dictionaries else []
    return [*per_language, *switched, _aligned_pairs(workspace)]


def _per_language(
    workspace: Workspace,
    key: list[str],
    description: str,
    *,
    settings: object,
    make: Callable[[pa.Table], pa.Table],
    training: bool = False,
) -> dg.AssetsDefinition:
    """A table of every corpus of a language; with `training`, of those that heads train on."""
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
        partitions_def=partitions.utterance_languages(config),
    )
    def table(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        with clear_errors():
            corpora = config.corpora_of(language, training=training)
            refreshed = [refresh(corpus.name, language) for corpus in corpora]
        yield materialized(refreshed, key=key)

    return table


def _code_switched(workspace: Workspace) -> dg.AssetsDefinition:
    config, settings = workspace.config, workspace.config.targets.code_switching
    version = fingerprint(CODE_VERSION, SWITCHING_VERSION, settings)

    def refresh(corpus: str, pair: str) -> Refreshed:
        source = workspace.table(*SENTENCE_PAIRS, corpus, pair)
        words = word_list(workspace, pair)
        empty = SCHEMAS["code_switched_pairs"].empty_table()
        return refresh_table(
            workspace.table(*SWITCHED, corpus, pair),
            SCHEMAS["code_switched_pairs"],
            inputs=fingerprint(version, content_of(source), words_version(workspace, pair)),
            make=lambda: (
                empty
                if words is None
                else code_switched(read_table(source, SCHEMAS["sentence_pairs"]), read_dictionary(words), settings)
            ),
        )

    @dg.multi_asset(
        name="__".join(SWITCHED),
        specs=[
            spec(
                SWITCHED,
                "Sentences some of whose words are replaced by their translations, beside what they should find. "
                "Pairs without a word list have none, and none are made of graded pairs. One row a sentence.",
                code_version=version[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(SENTENCE_PAIRS), dg.AssetDep(PAIR_FILES)],
                schema=SCHEMAS["code_switched_pairs"],
            )
        ],
        partitions_def=partitions.sentence_pairs(config),
    )
    def table(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        pair = context.partition_key
        with clear_errors():
            corpora = config.switchable_corpora(pair)
            refreshed = [refresh(corpus.name, pair) for corpus in corpora]
        yield materialized(refreshed, key=SWITCHED)

    return table


def _aligned_pairs(workspace: Workspace) -> dg.AssetsDefinition:
    config = workspace.config
    deps = []
    if config.utterance_languages:
        mapping = partitions.language_to_pairs(config, languages=config.utterance_languages)
        deps += [dg.AssetDep(key, partition_mapping=mapping) for key in (UTTERANCES, MASKED, POOL)]
    if config.pair_names:
        deps.append(dg.AssetDep(SENTENCE_PAIRS, partition_mapping=partitions.pair_to_entries(config)))

    @dg.multi_asset(
        name="__".join(ALIGNED),
        specs=[
            spec(
                ALIGNED,
                "Parallel utterances and sentence pairs of an entry, with the address of every text that a head "
                "trains on. One row a pair of texts.",
                code_version=CODE_VERSION,
                kinds={"parquet"},
                deps=deps,
                schema=SCHEMAS["aligned_pairs"],
            )
        ],
        partitions_def=partitions.pairs(config),
    )
    def aligned(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        entry = context.partition_key
        sources, of_sentences = list(_sources(workspace, entry)), list(_sentence_sources(workspace, entry))
        paths = [
            *chain.from_iterable(_paths(workspace, *one) for one in sources),
            *(workspace.table(*SENTENCE_PAIRS, corpus, name) for corpus, name, _, _ in of_sentences),
        ]

        def make() -> pa.Table:
            parts = [_align(workspace, *one) for one in sources]
            parts += [_align_sentences(workspace, *one) for one in of_sentences]
            return pa.concat_tables([SCHEMAS["aligned_pairs"].empty_table(), *parts])

        with clear_errors():
            refreshed = refresh_table(
                workspace.table(*ALIGNED, entry),
                SCHEMAS["aligned_pairs"],
                inputs=fingerprint(
                    CODE_VERSION,
                    sources,
                    [content_of(path) for path in paths],
                    *([of_sentences] if of_sentences else ()),
                ),
                make=make,
            )
        yield materialized([refreshed], key=ALIGNED)

    return aligned


def _sources(workspace: Workspace, entry: str) -> Iterator[tuple[str, str, str]]:
    """Corpus and two languages of every part of an entry that utterances give."""
    for left, right in workspace.config.pair_languages[entry]:
        for corpus in workspace.config.corpora_of_pair(left, right, training=True):
            yield corpus.name, left, right


def _sentence_sources(workspace: Workspace, entry: str) -> Iterator[tuple[str, str, str, str]]:
    """Corpus, its pair and the entry's two languages of every part of an entry that sentence pairs give."""
    for left, right in workspace.config.pair_languages[entry]:
        for corpus, name in workspace.config.training_pairs(left, right):
            yield corpus.name, name, left, right


def _paths(workspace: Workspace, corpus: str, left: str, right: str) -> list[Path]:
    return [workspace.table(*key, corpus, language) for language in (left, right) for key in (UTTERANCES, MASKED, POOL)]


def _align(workspace: Workspace, corpus: str, left: str, right: str) -> pa.Table:
    read = [read_table(path, SCHEMAS[path.parent.parent.name]) for path in _paths(workspace, corpus, left, right)]
    config = next(each for each in workspace.config.corpora if each.name == corpus)
    parallel = reader(config.format).PARALLEL
    return aligned_pairs(
        f"{left}-{right}", LanguageTables(*read[:3]), LanguageTables(*read[3:]), partial=parallel == "some"
    )


def _align_sentences(workspace: Workspace, corpus: str, name: str, left: str, right: str) -> pa.Table:
    table = read_table(workspace.table(*SENTENCE_PAIRS, corpus, name), SCHEMAS["sentence_pairs"])
    return aligned_sentences(table, (left, right), is_turned=name != f"{left}-{right}")
