"""List all steps of the lineage, upstream first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.config.model import Config, MethodConfig
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import READERS
from disent_core.embeddings.store import STATES, VECTORS
from disent_core.encoders.contract import EncoderStep, encoder_key
from disent_core.errors import commas
from disent_core.evaluation.contract import READABLE
from disent_core.lineage import (
    corpora,
    embeddings,
    head_spec,
    mteb_results,
    negatives,
    partitions,
    settings_search,
    targets,
)
from disent_core.lineage import evaluation_inputs as evaluation
from disent_core.lineage import workspace as tables
from disent_core.lineage.partitions import training_sets
from disent_core.lineage.result import GATE_HAS_ROWS, UNIQUE_ROWS, Check, StepResult
from disent_core.lineage.step import COMPUTING, FINE_TUNING, SMALL, Output, Read, Source, Step, linked
from disent_core.lineage.workspace import MATES, SENTENCE_PAIRS, SWITCHED, UTTERANCES, Key, Workspace
from disent_core.methods import places, summary
from disent_core.registry import imported
from disent_core.storage.results import list_results
from disent_core.storage.tables import SCHEMAS, fingerprint
from disent_core.training.needs import Need

DOWNLOADS: Key = ("corpora", "downloads")
FILES: Key = ("corpora", "published_files")
PAIR_FILES: Key = ("corpora", "published_pairs")
MTEB_FILES: Key = ("evaluation", "mteb_files")
DATABASE: Key = ("warehouse", "database")
GATE_VERSION = "1"
GATE: Mapping[str, Any] = {"checks": (GATE_HAS_ROWS,), "kinds": frozenset({"python"}), "memory": SMALL}
"""Settings of a step that makes nothing: its content is a fingerprint of what the steps after it read."""


EXPORT = "disent_core.export.step:refresh_export"
EXPORT_VERSION = "1"
SAME_OUTPUT = Check("gives_the_output_of_its_head", "Loaded by its library, it gives the output of the head.", True)


@dataclass(frozen=True)
class Warehouse:
    """The last step's implementation, from another package: version, checks, `make`, and `code` as in `Step`."""

    version: str
    checks: tuple[Check, ...]
    make: Callable[[Workspace], StepResult]
    code: tuple[str, ...] = ()


def steps(workspace: Workspace, warehouse: Warehouse | None = None) -> tuple[Step, ...]:
    """Return the steps of a configuration, upstream first; the last builds the database, if `warehouse` is given."""
    listed = [step for stage in STAGES for step in stage(workspace)]
    listed += [] if warehouse is None else [_database(workspace, warehouse)]
    return linked(listed, sources(workspace.config))


def sources(config: Config) -> tuple[Source, ...]:
    """Return the files from elsewhere that the steps of a configuration read."""
    of_pairs = "The corpora of sentence pairs as published. A pair's data version is the hash of its own content."
    of_mteb = "Folders of result files of mteb. A folder's data version is the hash of the files that are read."
    of_languages = "The corpora as published. A language's data version is the hash of its own content."
    declared = (
        Source(FILES, of_languages, config.utterance_languages),
        Source(PAIR_FILES, of_pairs, config.pair_names),
        Source(MTEB_FILES, of_mteb, tuple(config.mteb.results)),
    )
    return tuple(source for source in declared if source.partitions)


def _step(key: Key, description: str, version: str, make: Callable[[str], StepResult], **details: Any) -> Step:
    """Return a step with one output; `details` are the other fields of `Output` and `Step`."""
    of_output = {name: details.pop(name) for name in ("path", "schema", "relation", "format") if name in details}
    output = Output(key, description, **of_output)
    return Step(made=(output,), version=version, make=lambda partition: (make(partition),), **details)


# --- corpora, negatives, targets --------------------------------------------------------------------------


def _corpora(workspace: Workspace) -> Iterator[Step]:
    config = workspace.config
    remote = corpora.remote_corpora(config)
    after_download = (Read(DOWNLOADS),) if remote else ()
    if remote:
        yield _step(
            DOWNLOADS,
            "Archives named by URL in the configuration, checked by size and SHA-256.",
            fingerprint([corpus.url for corpus in remote], [corpus.sha256 for corpus in remote])[:12],
            lambda _: corpora.download(workspace),
            checks=(corpora.ARCHIVES,),
            code=("disent_core.storage.download:fetch",),
            kinds=frozenset({"file"}),
        )
    if config.utterance_languages:
        yield _table(
            workspace,
            UTTERANCES,
            "Utterances as published, split into tokens with BIO slot tags. One row an utterance.",
            corpora.utterances_version(config),
            corpora.refresh_utterances,
            config.corpora_of,
            reads=(Read(FILES), *after_download),
            checks=(corpora.UNIQUE_UTTERANCES, corpora.TAGGED_TOKENS, corpora.ALL_SPLITS),
            code=(*_readers(config, of_pairs=False), "disent_core.lineage.corpora:refresh_utterances"),
        )
    if config.pair_names:
        yield _table(
            workspace,
            SENTENCE_PAIRS,
            "Pairs of sentences as published: translations, some with a gold similarity or quality. One row a pair.",
            corpora.sentence_pairs_version(config),
            corpora.refresh_sentence_pairs,
            config.corpora_of_sentence_pair,
            partitions=config.pair_names,
            reads=(Read(PAIR_FILES), *after_download),
            checks=(corpora.UNIQUE_PAIRS, corpora.SPLITS_APART),
            code=(*_readers(config, of_pairs=True), "disent_core.lineage.corpora:refresh_sentence_pairs"),
        )


def _readers(config: Config, *, of_pairs: bool) -> Iterable[str]:
    formats = (corpus.format for corpus in config.corpora if corpus.is_of_pairs == of_pairs)
    return dict.fromkeys(READERS.get(name, name) for name in formats)


def _negatives(workspace: Workspace) -> Iterator[Step]:
    config = workspace.config
    if config.utterance_languages:
        yield _table(
            workspace,
            tables.POOL,
            "The pool of negatives: training utterances whose BLEU against every other one of their language is below "
            "the threshold, with the most similar utterance. One row an utterance.",
            negatives.version(config),
            negatives.refresh_pool,
            partial(config.corpora_of, training=True),
            checks=(negatives.POOL_HAS_ROWS,),
            code=("disent_core.negatives.nearest:bleu_state",),
        )


_OF_TEMPLATES = "disent_core.targets.template_pairs:template_pairs"
LANGUAGE_TARGETS = {
    tables.MASKED: (
        "Template text (slot words masked) and residual text (the other words masked). One row an utterance.",
        "disent_core.targets.masking:mask_utterances",
    ),
    tables.TEMPLATES: (
        "Utterances with every slot value replaced by another of its type: same template. One row a target.",
        _OF_TEMPLATES,
    ),
    tables.TRAINING_TEMPLATES: (
        "Template pairs of training utterances, slot values from training data only. One row a target.",
        _OF_TEMPLATES,
    ),
}


def _targets(workspace: Workspace) -> Iterator[Step]:
    config = workspace.config
    for key, (description, code) in LANGUAGE_TARGETS.items() if config.utterance_languages else ():
        yield _table(
            workspace,
            key,
            description,
            targets.version(config, key),
            partial(targets.refresh_language, key=key),
            partial(config.corpora_of, training=key in targets.OF_TRAINING),
            checks=(UNIQUE_ROWS, targets.ALL_MASKED if key == tables.MASKED else targets.HAS_TARGETS),
            code=(code,),
        )
    if _has_switched(config):
        yield _table(
            workspace,
            SWITCHED,
            "Sentences with some words replaced by their translations, beside the sentence that retrieval should "
            "find. Pairs without a word list and graded pairs have none. One row a sentence.",
            targets.switching_version(config),
            targets.refresh_switched,
            config.switchable_corpora,
            partitions=config.pair_names,
            reads=(Read(SENTENCE_PAIRS), Read(PAIR_FILES)),
            checks=(UNIQUE_ROWS, targets.HAS_SWITCHED),
            code=("disent_core.targets.code_switching:code_switched",),
        )
    of_utterances = partitions.language_to_training_sets(config, languages=config.utterance_languages)
    if any(Need.PARALLEL_MATES in config.needs(encoder) for encoder in config.encoders):
        yield _table(
            workspace,
            MATES,
            "Translation pairs of train and dev with the same slots of both sides replaced by the values of another "
            "training utterance: their mates, which are translation pairs too. One row a mate.",
            _of_named_sets(targets.mates_version(config), config),
            targets.refresh_mates,
            relation="",
            partitions=config.training_sets,
            reads=(Read(UTTERANCES, of_utterances),) if config.utterance_languages else (),
            checks=(UNIQUE_ROWS, targets.HAS_MATES),
            code=("disent_core.targets.parallel_mates:parallel_mates",),
        )
    read = (UTTERANCES, tables.MASKED, tables.POOL) if config.utterance_languages else ()
    of_pairs = [Read(SENTENCE_PAIRS, partitions.pair_to_training_sets(config))] if config.pair_names else []
    yield _table(
        workspace,
        tables.ALIGNED,
        "Parallel utterances and sentence pairs of a training set, with the address of every text that a head "
        "trains on. One row a pair of texts.",
        _of_named_sets(targets.CODE_VERSION, config),
        targets.refresh_aligned,
        relation="",
        partitions=config.training_sets,
        reads=(*(Read(key, of_utterances) for key in read), *of_pairs),
        checks=(UNIQUE_ROWS, targets.HAS_ALIGNED),
        code=("disent_core.targets.aligned_pairs:aligned_pairs",),
    )


def _of_named_sets(version: str, config: Config) -> str:
    """Return the version of a step of training sets, since a named set may come to have other pairs."""
    meaning = config.meaning_of(config.training_sets)
    return fingerprint(version, meaning) if meaning else version


def _has_switched(config: Config) -> bool:
    return bool(config.pair_names) and evaluation.is_made(config, SWITCHED[1])


def _table(
    workspace: Workspace,
    key: Key,
    description: str,
    version: str,
    refresh: Callable[[Workspace, str], StepResult],
    corpora_of: Callable[[str], Iterable[CorpusConfig]] | None = None,
    **details: Any,
) -> Step:
    """Return the step of a table with a file per partition, or per corpus of a partition if `corpora_of` is given.

    By default, a partition is a language and is made from its utterances.
    """

    def paths(part: str) -> list[Path]:
        names = [(part,)] if corpora_of is None else [(corpus.name, part) for corpus in corpora_of(part)]
        return [workspace.table(*key, *of_file) for of_file in names]

    by_default = {
        "relation": ".".join(key),
        "partitions": workspace.config.utterance_languages,
        "reads": (Read(UTTERANCES),),
    }
    return _step(
        key,
        description,
        version[:12],
        partial(refresh, workspace),
        path=workspace.tables.joinpath(*key),
        schema=SCHEMAS[key[1]],
        tables=lambda part: {key[1]: paths(part)},
        **by_default | details,
    )


# --- embeddings -------------------------------------------------------------------------------------------


EMBEDDED = {
    VECTORS: "One vector for each distinct text. A text that is stored is never encoded again.",
    STATES: "The hidden state of the last layer for every token, special tokens included. One row a distinct text.",
}
COLUMNS = {
    VECTORS: pa.schema([("text_key", pa.string()), ("vector", pa.list_(pa.float32()))]),
    STATES: pa.schema([("text_key", pa.string()), ("states", pa.list_(pa.list_(pa.float32())))]),
}
"""Columns for the UI; dimension and precision depend on the encoder, which is not loaded for this."""


def _embeddings(workspace: Workspace) -> Iterator[Step]:
    for name in workspace.config.encoders:
        for made in embeddings.encoder_steps(workspace.config, name):
            yield _made_encoder(workspace, made)
        yield _encoded(workspace, name)


def embedding_keys(config: Config, encoder: str) -> list[Key]:
    """Return the keys of the encoder's outputs: sentence vectors, and token states if a method needs them."""
    return [tables.embedding_key(encoder, table) for table in embeddings.tables_of(config, encoder)]


def _made_encoder(workspace: Workspace, made: EncoderStep) -> Step:
    folder = workspace.encoder(made.encoder, made.part)
    return _step(
        made.key,
        made.description,
        made.version[:12],
        lambda _: embeddings.make_encoder(workspace, made.encoder, made.part),
        path=folder,
        format="safetensors",
        reads=tuple(map(Read, (*made.after, *(("corpora", table) for table in made.tables)))),
        stored=lambda _: [folder],
        checks=(embeddings.FINITE,),
        code=(made.make,),
        kinds=frozenset({"huggingface", *(["pytorch"] if made.is_training else [])}),
        on_device=True,
        memory=FINE_TUNING if made.is_training else COMPUTING,
    )


def _encoded(workspace: Workspace, name: str) -> Step:
    config = workspace.config
    names = embeddings.tables_of(config, name)
    same_language = {language: {language} for language in config.utterance_languages}
    reads = [Read(key, same_language) for key in embeddings.SOURCES if same_language]
    if config.pair_names:
        of_pairs = [SENTENCE_PAIRS, *([SWITCHED] if _has_switched(config) else [])]
        languages = {"-".join(pair): set(pair) for pairs in config.sentence_pairs.values() for pair in pairs}
        reads += [Read(key, languages) for key in of_pairs]
    if Need.MATE_STATES in config.needs(name):
        reads.append(Read(MATES, {name: set(config.languages_of(name)) for name in config.training_sets}))
    if embeddings.encoder_steps(config, name):
        reads.append(Read(encoder_key(name)))

    def output(table: str) -> Output:
        folder = workspace.embeddings / table / name
        return Output(tables.embedding_key(name, table), EMBEDDED[table], folder, COLUMNS[table])

    return Step(
        made=tuple(map(output, names)),
        version=embeddings.version(config, name)[:12],
        make=partial(embeddings.encode, workspace, name),
        reads=tuple(reads),
        partitions=config.languages,
        stored=lambda language: [path for table in names for path in _embedded(workspace, table, name, language)],
        checks=(embeddings.ALL_ENCODED,),
        code=("disent_core.embeddings.store:EmbeddingStore",),
        kinds=frozenset({"parquet", "huggingface"}),
        on_device=True,
        memory=COMPUTING,
    )


def _embedded(workspace: Workspace, table: str, encoder: str, language: str) -> list[Path]:
    """Return any one file of a language's embeddings, or a path that does not exist if there is none."""
    absent = workspace.embeddings / table / encoder / language
    return list_results(absent.parent, f"*/{language}/part-*.parquet")[:1] or [absent]


# --- heads and evaluation ---------------------------------------------------------------------------------


def _heads(workspace: Workspace) -> Iterator[Step]:
    for encoder in workspace.config.encoders:
        if methods := head_spec.trained_methods(workspace.config, encoder):
            yield _training_data(workspace, encoder, methods)
            for method in methods:
                yield _head(workspace, encoder, method, methods)


def _training_data(workspace: Workspace, encoder: str, methods: Sequence[MethodConfig]) -> Step:
    """Return the gate, the only step of the group that reads other groups, and the only parent of every head.

    So the group can be materialised for one training set, whatever training sets its methods have.
    """
    config, needs = workspace.config, frozenset().union(*(method.needs for method in methods))
    names = training_sets(config, methods)
    of_mixtures = head_spec.ranked_by_pair(config, methods, names)
    same = partitions.same_training_set(config, methods)
    of_languages = partitions.language_to_training_sets(config, methods)
    reads = [Read(tables.ALIGNED, same), *([Read(MATES, same)] if Need.PARALLEL_MATES in needs else [])]
    reads += [Read(key, of_languages) for key in embedding_keys(config, encoder)]
    if config.utterance_languages:
        of_utterances = partitions.language_to_training_sets(config, methods, languages=config.utterance_languages)
        reads += [Read(table, of_utterances) for need, table in head_spec.TABLES.items() if need in needs]
    return _step(
        tables.training_data_key(encoder),
        f"What the heads on `{encoder}` read of a training set. Nothing is made: while the content stays the "
        "same, no head is stale.",
        "-".join([GATE_VERSION, *of_mixtures]),
        partial(head_spec.training_data, workspace, encoder),
        reads=tuple(reads),
        partitions=names,
        code=("disent_core.lineage.head_spec:training_data",),
        **GATE,
    )


def _head(workspace: Workspace, encoder: str, method: MethodConfig, methods: Sequence[MethodConfig]) -> Step:
    config = workspace.config

    def train(training_set: str) -> StepResult:
        from disent_core.lineage.heads import train  # loads torch

        return train(workspace, encoder, method, training_set)

    return _step(
        tables.head_key(encoder, method.name),
        f"{summary(method.base)}\n\nMethod `{method.method.name}`, seeds {commas(config.seeds_of(method))}, trained on "
        f"the embeddings of `{encoder}`; docs/methods.md says how.",
        head_spec.version(method),
        train,
        path=workspace.home / "heads" / encoder / method.name,
        format="safetensors",
        reads=(Read(tables.training_data_key(encoder), partitions.same_training_set(config, [method], methods)),),
        partitions=training_sets(config, [method]),
        tables=lambda name: {"training_curve": [workspace.training_curve(encoder, method.name, name)]},
        stored=lambda name: [workspace.head(encoder, method.name, name)],
        checks=(head_spec.CONVERGED,),
        code=places(method.base),
        kinds=frozenset({"pytorch"}),
        on_device=method.method.trains_on_gpu,
        memory=FINE_TUNING if Need.ENCODER in method.needs else COMPUTING,
        method=method,
    )


def _evaluation(workspace: Workspace) -> Iterator[Step]:
    for encoder in workspace.config.encoders:
        yield _evaluation_sets(workspace, encoder)
        for method in workspace.config.methods_of(encoder):
            yield _metrics(workspace, encoder, method)
        yield _comparisons(workspace, encoder)
        if workspace.config.trials_of(encoder):
            yield _settings_search(workspace, encoder)
    if results := workspace.config.mteb.results:
        yield _table(
            workspace,
            tables.MTEB_RESULTS,
            "What mteb has measured, of heads of disent and of other models. One row a number.",
            mteb_results.mteb_version(workspace.config),
            mteb_results.refresh_mteb_results,
            reads=(Read(MTEB_FILES),),
            partitions=tuple(results),
            checks=(mteb_results.HAS_RESULTS,),
            code=("disent_core.evaluation.mteb_results:read_results",),
        )


def _evaluation_sets(workspace: Workspace, encoder: str) -> Step:
    """Return the gate, as `_training_data` is for heads."""
    config, methods = workspace.config, workspace.config.methods_of(encoder)
    mappings = partitions.evaluated(config, methods, evaluation.tasks_of(config))
    of_embeddings = mappings.pop("languages", None)
    made = (name for name in mappings if evaluation.is_made(config, name))
    reads = [Read((READABLE[name], name), mappings[name]) for name in made]
    if of_embeddings is not None:
        reads += [Read(key, of_embeddings) for key in embedding_keys(config, encoder)]
    return _step(
        tables.evaluation_sets_key(encoder),
        f"What the tasks read to measure the methods on `{encoder}` with a training set. Nothing is made: while "
        "the content stays the same, no metrics are stale but those of a new head.",
        _of_named_sets(GATE_VERSION, config),
        partial(evaluation.evaluation_sets, workspace, encoder),
        reads=tuple(reads),
        partitions=training_sets(config, methods),
        code=("disent_core.lineage.evaluation_inputs:evaluation_sets",),
        **GATE,
    )


def _metrics(workspace: Workspace, encoder: str, method: MethodConfig) -> Step:
    config = workspace.config
    tunes_encoder = Need.ENCODER in method.needs
    of_all = partitions.same_training_set(config, [method], config.methods_of(encoder))
    of_head = [Read(tables.head_key(encoder, method.name))] if method.method.is_trained else []

    def measure(training_set: str) -> StepResult:
        from disent_core.lineage.evaluation import refresh_metrics  # loads torch

        return refresh_metrics(workspace, encoder, method, training_set)

    def files(training_set: str) -> dict[str, list[Path]]:
        of = (encoder, method.name, training_set)
        return {name: [workspace.table("evaluation", name, *of)] for name in ("metrics", "rankings", "outcomes")}

    return _step(
        tables.metrics_key(encoder, method.name),
        f"Metrics of `{method.name}` on `{encoder}`: every task, every embedding, every seed and their "
        "mean, with 95 % intervals. One row a number.",
        evaluation.version(config)[:12],
        measure,
        path=workspace.tables / "evaluation" / "metrics" / encoder / method.name,
        relation="main.metrics",  # whose page has the columns; here they would precede the result
        reads=(Read(tables.evaluation_sets_key(encoder), of_all), *of_head),
        partitions=training_sets(config, [method]),
        tables=files,
        checks=(evaluation.IN_INTERVAL,),
        code=("disent_core.evaluation.runner:evaluate",),
        on_device=tunes_encoder,  # a fine-tuned encoder needs the device here too
        memory=FINE_TUNING if tunes_encoder else COMPUTING,
        method=method,
    )


def _comparisons(workspace: Workspace, encoder: str) -> Step:
    config, path = workspace.config, workspace.table("evaluation", "comparisons", encoder)

    def compare(_: str) -> StepResult:
        from disent_core.lineage.evaluation import refresh_comparisons

        return refresh_comparisons(workspace, encoder)

    return _step(
        tables.comparisons_key(encoder),
        f"Every two methods on `{encoder}`, on every problem: McNemar's test or a paired bootstrap, corrected "
        "by Holm over each task. One row two methods and a problem.",
        evaluation.comparisons_version(config)[:12],
        compare,
        path=path,
        schema=SCHEMAS["comparisons"],
        relation="main.comparisons",
        reads=tuple(Read(tables.metrics_key(encoder, method.name)) for method in config.methods_of(encoder)),
        tables=lambda _: {"comparisons": [path]},
        checks=(UNIQUE_ROWS, evaluation.PROBABILITIES),
        code=("disent_core.evaluation.comparisons:compare",),
        takes_part=True,
    )


def _settings_search(workspace: Workspace, encoder: str) -> Step:
    path = workspace.table("evaluation", "settings_search", encoder)
    return _step(
        tables.settings_search_key(encoder),
        f"Trials of the search of settings on `{encoder}`: what was drawn, the score on dev, and the best of each "
        "method. One row a trial.",
        settings_search.version(workspace)[:12],
        lambda _: settings_search.refresh_settings_search(workspace, encoder),
        path=path,
        schema=SCHEMAS["settings_search"],
        relation="main.settings_search",
        reads=tuple(Read(tables.metrics_key(encoder, method.name)) for method in workspace.config.trials_of(encoder)),
        tables=lambda _: {"settings_search": [path]},
        checks=(UNIQUE_ROWS, settings_search.ONE_CHOSEN),
        code=("disent_core.lineage.settings_search:choose",),
        memory=SMALL,
    )


def _exports(workspace: Workspace) -> Iterator[Step]:
    for (encoder, name), names in workspace.config.exported.items():
        yield _export(workspace, encoder, workspace.config.methods[name], names)


def _export(workspace: Workspace, encoder: str, method: MethodConfig, names: tuple[str, ...]) -> Step:
    same = {training_set: {training_set} for training_set in names}

    def export(training_set: str) -> StepResult:
        return imported(EXPORT)(workspace, encoder, method, training_set)  # loads torch

    return _step(
        tables.export_key(encoder, method.name),
        f"`{method.name}` on `{encoder}` as a folder that sentence-transformers or transformers loads without disent, "
        "whose card has the head's metrics.",
        fingerprint(EXPORT_VERSION, replace(workspace.config.exports, heads=()))[:12],
        export,
        path=workspace.home / "exports" / encoder / method.name,
        format="safetensors",
        reads=tuple(Read(key(encoder, method.name), same) for key in (tables.head_key, tables.metrics_key)),
        partitions=names,
        stored=lambda training_set: [workspace.export(encoder, method.name, training_set)],
        checks=(SAME_OUTPUT,),
        code=(EXPORT,),
        kinds=frozenset({"huggingface"}),
        memory=COMPUTING,
        method=method,
    )


# --- warehouse --------------------------------------------------------------------------------------------


def _database(workspace: Workspace, warehouse: Warehouse) -> Step:
    config = workspace.config
    loaded = [*tables.OF_LANGUAGES] if config.utterance_languages else []
    loaded += [SENTENCE_PAIRS] if config.pair_names else []
    loaded += [SWITCHED] if _has_switched(config) else []
    loaded += [tables.MTEB_RESULTS] if config.mteb.results else []
    # An encoder's comparisons also represent its metrics and training curves.
    loaded += [tables.comparisons_key(encoder) for encoder in config.encoders]
    loaded += [tables.settings_search_key(encoder) for encoder in config.encoders if config.trials_of(encoder)]
    return _step(
        DATABASE,
        "One DuckDB file: `metrics`, `published_metrics`, the stages' tables and the views over them. "
        "It is built beside the old one and swapped in, so readers are never blocked.",
        warehouse.version,
        lambda _: warehouse.make(workspace),
        path=workspace.warehouse,
        format="duckdb",
        reads=tuple(map(Read, loaded)),
        stored=lambda _: [workspace.warehouse],
        checks=warehouse.checks,
        code=warehouse.code,
        takes_part=True,
        kinds=frozenset({"duckdb", "sql"}),
        memory=COMPUTING,
    )


STAGES = (_corpora, _negatives, _targets, _embeddings, _heads, _evaluation, _exports)
"""Functions that return the steps of a stage; a stage reads earlier ones."""
