"""Stage `heads`: aligned pairs x embeddings x method -> weights of every seed, with their training curve.

What belongs here: opening a head's inputs and showing its curve and its clouds. What does not: training.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_assets import partitions
from disent_assets.asset_results import clear_errors, materialized, pictures, spec, step_name
from disent_assets.checks import head_checks, passed
from disent_assets.resources import Workspace
from disent_assets.stages.corpora import SENTENCE_PAIRS, UTTERANCES
from disent_assets.stages.embeddings import GPU_POOL, embedding_keys, lazy_encoder, store
from disent_assets.stages.targets import ALIGNED, TRAINING_TEMPLATES
from disent_core.config.load import MethodConfig
from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.huggingface import resolve_device
from disent_core.errors import TrainingError
from disent_core.heads import described
from disent_core.heads.run import HeadFiles, HeadReport, HeadRun, settings_fingerprint, train_head
from disent_core.report import PICTURES_VERSION
from disent_core.report.clouds import pca, tsne
from disent_core.report.curves import training_curve
from disent_core.storage.tables import SCHEMAS, Refreshed, TableInfo, fingerprint, read_table
from disent_core.training.build_data import training_data
from disent_core.training.data import SIDES, TrainingData, text_features
from disent_core.training.needs import Need, training_fingerprint

CLOUD = 400
"""Utterances of each language in the pictures of embeddings."""
CLOUD_EMBEDDINGS = ("sentence", "meaning", "language")

_TABLES = {Need.TEMPLATE_PAIRS: TRAINING_TEMPLATES, Need.UTTERANCES: UTTERANCES}
"""What some methods read of every language that has utterances."""


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage: one for each encoder and trained method."""
    return [
        _head(workspace, encoder, method)
        for encoder in workspace.config.encoders
        for method in workspace.config.methods_of(encoder)
        if method.method.is_trained
    ]


def head_key(encoder: str, method: str) -> list[str]:
    """Key of a head."""
    return ["heads", encoder, method]


def _head(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config, key = workspace.config, head_key(encoder, method.name)

    @dg.multi_asset(
        name=step_name(key),
        specs=[
            spec(
                key,
                f"{described(method.method.name)}\n\nMethod `{method.method.name}`, "
                f"seeds {list(config.seeds_of(method))}, trained on the embeddings of `{encoder}`.",
                code_version=f"{method.method.code_version}-{settings_fingerprint(method.settings)[:8]}",
                kinds={"pytorch", "safetensors"},
                deps=list(_dependencies(workspace, encoder, method)),
            )
        ],
        partitions_def=partitions.pairs(config, method),
        check_specs=head_checks(key),
        pool=GPU_POOL,
    )
    def head(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        with clear_errors(), _naming(f"{method.name} on {encoder}, {context.partition_key}"):
            run, report = train(workspace, encoder, method, context.partition_key)
            context.log.info("%s: %d steps trained in %.1f s", run.title, report.steps, report.seconds)
            result = _result(workspace, key, run, method, report)
        yield result

    return head


@contextmanager
def _naming(head: str) -> Iterator[None]:
    """Errors of training say which head it is: a run has many."""
    try:
        yield
    except TrainingError as error:
        raise TrainingError(f"{head}: {error}") from error


def _dependencies(workspace: Workspace, encoder: str, method: MethodConfig) -> Iterator[dg.AssetDep]:
    """The pairs and embeddings, and the texts and template pairs of methods that need them, where there are any."""
    config, needs = workspace.config, method.needs
    if not method.method.labels:
        yield dg.AssetDep(ALIGNED, partition_mapping=partitions.same_pair(config, method))
    of_embeddings = partitions.language_to_pairs(config, method)
    for source in embedding_keys(workspace, encoder):
        if source[-1] != "token_states" or Need.TOKEN_STATES in needs:
            yield dg.AssetDep(source, partition_mapping=of_embeddings)
    if config.utterance_languages:
        of_utterances = partitions.language_to_pairs(config, method, languages=config.utterance_languages)
        for need, table in _TABLES.items():
            if need in needs:
                yield dg.AssetDep(table, partition_mapping=of_utterances)
    if Need.UTTERANCES in needs and config.trains_on_sentence_pairs and not method.method.labels:
        yield dg.AssetDep(SENTENCE_PAIRS, partition_mapping=partitions.pair_to_entries(config, method))


def train(workspace: Workspace, encoder: str, method: MethodConfig, trained_on: str) -> tuple[HeadRun, HeadReport]:
    """Train one head for every seed, unless it is there already."""
    config, lazy = workspace.config, lazy_encoder(workspace, encoder)
    needs, paired = method.needs, not method.method.labels
    aligned = _aligned(workspace, trained_on) if paired else SCHEMAS["aligned_pairs"].empty_table()
    tables = {need: _of_languages(workspace, method, key, trained_on) for need, key in _TABLES.items() if need in needs}
    templates, utterances = tables.get(Need.TEMPLATE_PAIRS, []), tables.get(Need.UTTERANCES)
    sentences = _sentences(workspace, trained_on) if Need.UTTERANCES in needs and paired else []
    run = HeadRun(
        name=method.name,
        method=method.method,
        settings=method.settings,
        encoder=encoder,
        trained_on=trained_on,
        seeds=config.seeds_of(method),
        data_fingerprint=training_fingerprint(aligned, needs, templates, utterances or []),
        encoder_fingerprint=lazy.fingerprint,
    )

    def open_data() -> TrainingData:
        vectors, states = {}, {}
        for language in config.languages_of(trained_on):
            vectors[language], states[language] = open_embeddings(workspace, encoder, language, needs)
        return training_data(
            [aligned],
            vectors,
            states if Need.TOKEN_STATES in needs else None,
            masked=Need.MASKED_TARGETS in needs,
            paired=paired,
            templates=templates,
            utterances=utterances,
            sentences=sentences,
            encoder=encoder_files(workspace, encoder, method),
        )

    return run, train_head(run, head_files(workspace, run), open_data, device=resolve_device(config.experiment.device))


def encoder_files(workspace: Workspace, encoder: str, method: MethodConfig) -> EncoderFiles | None:
    """The model, for methods that tune it."""
    return lazy_encoder(workspace, encoder).files if Need.ENCODER in method.needs else None


def _aligned(workspace: Workspace, entry: str) -> pa.Table:
    return read_table(workspace.table(*ALIGNED, entry), SCHEMAS["aligned_pairs"])


def _of_languages(
    workspace: Workspace, method: MethodConfig, key: Sequence[str], entry: str, columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """The table `key` of every language of the entry and every corpus that has it and that the method trains on."""
    config = workspace.config
    return [
        read_table(workspace.table(*key, corpus.name, language), SCHEMAS[key[1]], columns)
        for language in config.languages_of(entry)
        for corpus in config.trained_corpora(method, language)
    ]


def _sentences(workspace: Workspace, entry: str) -> list[pa.Table]:
    """`sentence_pairs` of every pair of the entry and every corpus that trains on it."""
    config = workspace.config
    return [
        read_table(workspace.table(*SENTENCE_PAIRS, corpus.name, name), SCHEMAS["sentence_pairs"])
        for left, right in config.pair_languages[entry]
        for corpus, name in config.training_pairs(left, right)
    ]


def open_embeddings(
    workspace: Workspace, encoder: str, language: str, needs: frozenset[Need]
) -> tuple[VectorTable, StateTable | None]:
    """Memory-mapped vectors, and token states where they are needed."""
    place = store(workspace, encoder, lazy_encoder(workspace, encoder).fingerprint, language)
    return place.open_vectors(), place.open_states() if Need.TOKEN_STATES in needs else None


def head_files(workspace: Workspace, run: HeadRun) -> HeadFiles:
    """Where a head's files lie."""
    return HeadFiles(
        weights=workspace.head(run.encoder, run.name, run.trained_on),
        curve=curve_path(workspace, run.encoder, run.name, run.trained_on),
        checkpoint=workspace.checkpoint(run.encoder, run.name, run.trained_on),
    )


def curve_path(workspace: Workspace, encoder: str, method: str, trained_on: str) -> Path:
    """Training curve of a head, as a table."""
    return workspace.table("heads", "training_curve", encoder, method, trained_on)


def _result(
    workspace: Workspace, key: Sequence[str], run: HeadRun, method: MethodConfig, report: HeadReport
) -> dg.MaterializeResult:
    files = head_files(workspace, run)
    curve = read_table(files.curve, SCHEMAS["training_curve"])
    best = curve.filter(pc.and_(curve["is_best"], pc.equal(curve["split"], "dev"))).to_pylist()
    best_epochs = {row["seed"]: row["epoch"] for row in best}  # in the order of epochs: the last one counts
    ends = dict(zip(curve["seed"].to_pylist(), curve["epoch"].to_pylist(), strict=True))
    may_end_early = method.method.may_stop_early(method.settings)
    cut_short = [seed for seed, epoch in best_epochs.items() if may_end_early and epoch == ends[seed]]
    return materialized(
        [Refreshed(TableInfo(report.curve.rows, run.inputs, report.content), is_reused=report.is_reused)],
        key=key,
        metadata={
            "steps": report.steps,
            "training_seconds": report.seconds,
            "epochs": pc.max(curve["epoch"]).as_py(),
            **({"began_with_weights": report.began_with} if report.began_with else {}),
            **{f"dev_{term}": value for term, value in _final(best).items()},
            **_pictures(workspace, run, method, curve, report.content),
            "weights": dg.MetadataValue.path(str(files.weights)),
        },
        checks=[passed(key, "training_has_converged", not cut_short, {"cut_short_seeds": cut_short}, warn=True)],
    )


def _final(best: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean over seeds of each dev term at the epoch that was kept: the last of a seed's best ones."""
    by_term: dict[str, dict[int, float]] = {}
    for row in best:
        by_term.setdefault(row["term"], {})[row["seed"]] = row["value"]
    return {term: sum(values.values()) / len(values) for term, values in by_term.items()}


def _pictures(
    workspace: Workspace, run: HeadRun, method: MethodConfig, curve: pa.Table, content: str
) -> dict[str, dg.MetadataValue]:
    """The course of the training, and its embeddings by t-SNE and PCA, where a method has any."""
    place = partial(workspace.plot, run.encoder, run.name, run.trained_on)
    title = f"{run.name} on {run.encoder}\n{run.trained_on}: dev utterances, seed {run.seeds[0]}"
    clouds = cache(lambda: _clouds(workspace, run, method))  # embedded once, and only if they are drawn
    drawings = {
        place(name="training_curve"): lambda: training_curve(curve),
        place(name="t_sne"): lambda: tsne(clouds(), title),
        place(name="pca"): lambda: pca(clouds(), title),
    }
    shown = list(drawings.items())[: 3 if method.method.embeddings else 1]
    return pictures(fingerprint(PICTURES_VERSION, run.inputs, content), dict(shown))


def _clouds(workspace: Workspace, run: HeadRun, method: MethodConfig) -> dict[str, np.ndarray]:
    """The first seed's embeddings of dev utterances, by language and embedding."""
    aligned = _aligned(workspace, run.trained_on)
    dev = aligned.filter(pc.equal(aligned["split"], "dev"))
    files = encoder_files(workspace, run.encoder, method)
    head = method.method.load(head_files(workspace, run).weights, method.settings, "cpu", files)
    known = {} if files is None else _texts(workspace, method, run.trained_on)
    points = {}
    for language in workspace.config.languages_of(run.trained_on):
        keys = _dev_keys(workspace, method, run.trained_on, language, dev)[:CLOUD]
        tables = open_embeddings(workspace, run.encoder, language, method.needs)
        texts = None if files is None else [known[key] for key in keys]
        features = text_features(keys, *tables, language=language, texts=texts)
        embedded = head.embed(features, run.seeds[0] if method.method.is_seeded else None)
        points |= {f"{language} {name}": embedded[name] for name in CLOUD_EMBEDDINGS if name in embedded}
    return points


def _dev_keys(workspace: Workspace, method: MethodConfig, entry: str, language: str, dev: pa.Table) -> list[str]:
    """Dev texts of a language: those of the pairs, or utterances where the entry is one language."""
    if entry != language:
        own = [dev.filter(pc.equal(dev[f"{side}_language"], language))[f"{side}_key"] for side in SIDES]
    else:
        tables = _of_languages(workspace, method, UTTERANCES, entry, ["split", "text_key"])
        own = [table.filter(pc.equal(table["split"], "dev"))["text_key"] for table in tables]
    return [key for keys in own for key in keys.to_pylist()]


def _texts(workspace: Workspace, method: MethodConfig, entry: str) -> dict[str, str]:
    """Texts of the utterances and sentence pairs that an entry trains on, by address."""
    by_key: dict[str, str] = {}
    for table in _of_languages(workspace, method, UTTERANCES, entry, ["text_key", "text"]):
        by_key |= dict(zip(table["text_key"].to_pylist(), table["text"].to_pylist(), strict=True))
    for table in _sentences(workspace, entry):
        for side in SIDES:
            by_key |= dict(zip(table[f"{side}_key"].to_pylist(), table[side].to_pylist(), strict=True))
    return by_key
