"""Stage `embeddings`: every distinct text of a language x a frozen encoder -> vectors and token states.

What belongs here: which texts an encoder has to see, and, where the lineage pretrains the encoder, when.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disent_assets import partitions
from disent_assets.asset_results import clear_errors, materialized, spec, step_name
from disent_assets.checks import passed, vector_checks
from disent_assets.resources import Workspace
from disent_assets.stages.corpora import SENTENCE_PAIRS, UTTERANCES
from disent_assets.stages.targets import MASKED, SWITCHED, TEMPLATES, TRAINING_TEMPLATES
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore
from disent_core.encoders.configured import LazyEncoder
from disent_core.encoders.imported import VectorsConfig, known_keys
from disent_core.errors import TableError, located
from disent_core.storage.files import atomic_path
from disent_core.storage.tables import SCHEMAS, Refreshed, TableInfo, fingerprint, read_table
from disent_core.text import text_keys
from disent_core.training.needs import Need, TextPlan, texts_to_encode

CODE_VERSION = "1"
GPU_POOL = "gpu"
SOURCES = (UTTERANCES, MASKED, TEMPLATES, TRAINING_TEMPLATES)


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage."""
    assets = []
    for name in workspace.config.encoders:
        encoder = lazy_encoder(workspace, name)
        if encoder.is_pretrained_here:
            assets.append(_pretrained(workspace, name))
        assets.append(_vectors(workspace, name))
    return assets


def lazy_encoder(workspace: Workspace, name: str) -> LazyEncoder:
    """The encoder of that name, not loaded yet."""
    device = workspace.config.experiment.device
    return LazyEncoder(workspace.config.encoders[name], workspace.pretrained(name), device)


def store(workspace: Workspace, encoder: str, encoder_fingerprint: str, language: str) -> EmbeddingStore:
    """Where the embeddings of one encoder and language lie."""
    return EmbeddingStore(workspace.home, encoder=encoder, fingerprint=encoder_fingerprint, language=language)


def pretrained_key(encoder: str) -> list[str]:
    """Key of the model that the lineage pretrains."""
    return ["embeddings", encoder, "pretrained_encoder"]


def embedding_keys(workspace: Workspace, encoder: str) -> list[list[str]]:
    """Keys of what the encoder gives: sentence vectors, and token states where a method needs them."""
    needs_states = Need.TOKEN_STATES in workspace.config.needs(encoder)
    tables = [VECTORS, STATES] if needs_states else [VECTORS]
    return [["embeddings", encoder, table] for table in tables]


def _pretrained(workspace: Workspace, name: str) -> dg.AssetsDefinition:
    settings = workspace.config.encoders[name]

    @dg.asset(
        key=pretrained_key(name),
        group_name="embeddings",
        description="A transformer with its own tokenizer, pretrained on the corpora's training texts by masked-"
        "language modelling. It is pretrained once and then frozen: texts that change later do not change it. "
        "Delete its folder to pretrain anew.",
        deps=[dg.AssetKey(key) for key in _pretraining_sources(workspace)],
        code_version=fingerprint(CODE_VERSION, settings)[:12],
        kinds={"pytorch", "huggingface"},
        owners=["team:disent"],
        pool=GPU_POOL,
    )
    def pretrained_encoder() -> dg.MaterializeResult:
        with clear_errors():
            report = lazy_encoder(workspace, name).pretrain(
                lambda: _training_texts(workspace), lambda: _training_pairs(workspace)
            )
            version = lazy_encoder(workspace, name).fingerprint
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "pretraining_steps": report.steps,
                "loss": report.loss,
                "texts": report.texts,
                "recomputed": report.steps > 0,
            },
        )

    return pretrained_encoder


def _pretraining_sources(workspace: Workspace) -> list[list[str]]:
    config = workspace.config
    of_pairs = [SENTENCE_PAIRS] if config.trains_on_sentence_pairs else []
    return [*([UTTERANCES] if config.utterance_languages else []), *of_pairs]


def _training_texts(workspace: Workspace) -> list[str]:
    """Distinct training texts of all languages, in a fixed order."""
    texts: dict[str, None] = {}
    for language in workspace.config.utterance_languages:
        for corpus in workspace.config.corpora_of(language, training=True):
            texts |= dict.fromkeys(_training_by_id(workspace, corpus.name, language).values())
    for corpus in workspace.config.corpora:
        for pair in corpus.pairs if corpus.trains else ():
            texts |= dict.fromkeys(text for two in _training_sentences(workspace, corpus.name, pair) for text in two)
    return list(texts)


def _training_pairs(workspace: Workspace) -> list[tuple[str, str]]:
    """Training translations of every language pair, in a fixed order."""
    config = workspace.config
    found: list[tuple[str, str]] = []
    for left, right in dict.fromkeys(two for entry in config.pair_languages.values() for two in entry):
        for corpus in config.corpora_of_pair(left, right, training=True):
            texts = [_training_by_id(workspace, corpus.name, language) for language in (left, right)]
            found += [(text, texts[1][key]) for key, text in texts[0].items() if key in texts[1]]
        for corpus, name in config.training_pairs(left, right):
            found += _training_sentences(workspace, corpus.name, name)
    return found


def _training_sentences(workspace: Workspace, corpus: str, pair: str) -> list[tuple[str, str]]:
    path = workspace.table(*SENTENCE_PAIRS, corpus, pair)
    rows = read_table(path, SCHEMAS["sentence_pairs"], ["source", "target", "split"]).to_pylist()
    return [(row["source"], row["target"]) for row in rows if row["split"] == "train"]


def _training_by_id(workspace: Workspace, corpus: str, language: str) -> dict[str, str]:
    path = workspace.table("corpora", "utterances", corpus, language)
    rows = read_table(path, SCHEMAS["utterances"], ["utterance_id", "text", "split"]).to_pylist()
    return {row["utterance_id"]: row["text"] for row in rows if row["split"] == "train"}


def _vectors(workspace: Workspace, name: str) -> dg.AssetsDefinition:
    keys = embedding_keys(workspace, name)
    lazy = lazy_encoder(workspace, name)
    config = workspace.config
    sources = []
    if config.utterance_languages:
        mapping = partitions.same_language(config)
        sources += [dg.AssetDep(key, partition_mapping=mapping) for key in SOURCES]
    if config.pair_names:
        mapping = partitions.pair_to_languages(config)
        keys_of_pairs = [SENTENCE_PAIRS, *([SWITCHED] if config.targets.code_switching.dictionaries else [])]
        sources += [dg.AssetDep(key, partition_mapping=mapping) for key in keys_of_pairs]
    if lazy.is_pretrained_here:
        sources.append(dg.AssetDep(pretrained_key(name)))
    version = fingerprint(CODE_VERSION, workspace.config.encoders[name], sorted(workspace.config.needs(name)))[:12]
    descriptions = {
        VECTORS: "One vector for each distinct text. A text that is there already is never encoded again.",
        STATES: "The last layer's state of every token, special tokens included. One row a distinct text.",
    }

    @dg.multi_asset(
        name=step_name(keys[0]),
        specs=[
            spec(
                key,
                descriptions[key[-1]],
                code_version=version,
                kinds={"parquet", "huggingface"},
                deps=sources,
            )
            for key in keys
        ],
        partitions_def=partitions.languages(workspace.config),
        check_specs=[check for key in keys for check in vector_checks(key)],
        pool=GPU_POOL,
    )
    def vectors(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        with clear_errors():
            plan = text_plan(workspace, name, language)
            place = store(workspace, name, lazy.fingerprint, language)
            place.set_damaged_aside()
            metadata = _encode(lazy, language, place, plan)
            results = [_result(place, key, plan, lazy.fingerprint, metadata) for key in keys]
        context.log.info("%s, %s: %d texts encoded", name, language, metadata["encoded"])
        yield from results

    return vectors


def _encode(lazy: LazyEncoder, language: str, place: EmbeddingStore, plan: TextPlan) -> dict[str, Any]:
    """Encode what is missing; the model is loaded only if something is."""
    if not place.missing(plan.texts, states=False) and not place.missing(plan.state_keys, states=True):
        return {"encoded": 0, "reused": len(plan.texts)}
    report = place.encode_missing(lazy.load(language), plan.texts, state_keys=plan.state_keys)
    return {
        "encoded": report.encoded,
        "reused": report.reused,
        "texts_per_second": report.encoded / max(report.seconds, 1e-9),
        "tokens": report.tokens,
        "truncated": report.truncated,
    }


def _result(
    place: EmbeddingStore, key: list[str], plan: TextPlan, encoder_fingerprint: str, metadata: dict[str, Any]
) -> dg.MaterializeResult:
    is_states = key[-1] == STATES
    wanted = plan.state_keys if is_states else plan.texts
    left = place.missing(wanted, states=is_states)
    content = fingerprint(encoder_fingerprint, sorted(wanted))
    table = Refreshed(TableInfo(len(wanted), content, content), is_reused=metadata["encoded"] == 0)
    check = passed(key, "every_text_is_encoded", not left, {"missing": len(left), "texts": len(wanted)})
    return materialized([table], key=key, metadata=metadata, checks=[check])


def text_plan(workspace: Workspace, encoder: str, language: str) -> TextPlan:
    """Texts of the language that the encoder's methods and tasks read."""
    config = workspace.config
    utterances, masked, templates, training_templates = (
        [
            read_table(workspace.table(*key, corpus.name, language), SCHEMAS[key[1]])
            for corpus in config.corpora_of(language, training=key in (MASKED, TRAINING_TEMPLATES))
        ]
        for key in SOURCES
    )
    others = list(_texts_of_pairs(workspace, language))
    return texts_to_encode(utterances, masked, templates, training_templates, config.needs(encoder), others)


def _texts_of_pairs(workspace: Workspace, language: str) -> Iterator[tuple[pa.ChunkedArray, pa.ChunkedArray]]:
    """Keys and texts of the language in every sentence pair and code-switched sentence.

    Nobody reads the training split of a corpus that no head trains on.
    """
    config = workspace.config
    for corpus in (each for each in config.corpora if each.is_of_pairs):
        for pair in config.sentence_pairs[corpus.name]:
            if language not in pair:
                continue
            path = workspace.table(*SENTENCE_PAIRS, corpus.name, "-".join(pair))
            table = read_table(path, SCHEMAS["sentence_pairs"])
            table = table if corpus.trains else table.filter(pc.not_equal(table["split"], "train"))
            for side, own in zip(("source", "target"), pair, strict=True):
                if own == language:
                    yield table[f"{side}_key"], table[side]
            if config.targets.code_switching.dictionaries and corpus.is_switchable:
                path = workspace.table(*SWITCHED, corpus.name, "-".join(pair))
                switched = read_table(path, SCHEMAS["code_switched_pairs"])
                switched = switched.filter(pc.not_equal(switched["split"], "train"))
                for side in ("switched", "original"):
                    texts = switched.filter(pc.equal(switched[f"{side}_language"], language))[side]
                    yield pa.chunked_array([pa.array(text_keys(texts.to_pylist()), pa.string())]), texts


def texts_of(workspace: Workspace, encoder: str, *, only_missing: bool) -> pa.Table:
    """Distinct texts that an encoder has to embed: `text_key`, `language`, `text`.

    Args:
        workspace: its tables up to the targets must be there.
        encoder: name of the encoder.
        only_missing: leave out texts that the files of imported vectors have.

    Raises:
        ValueError: if there is no such encoder, or `only_missing` is asked of one that is no imported vectors.
        TableError: if a table is not there yet.
    """
    if encoder not in workspace.config.encoders:
        raise ValueError(f"unknown encoder {encoder!r}; choose one of {', '.join(workspace.config.encoders)}")
    settings = workspace.config.encoders[encoder]
    if only_missing and not isinstance(settings, VectorsConfig):
        raise ValueError(f"encoder {encoder!r} embeds its texts itself; --missing is for imported vectors")
    rows: list[tuple[str, str, str]] = []
    for language in workspace.config.languages:
        _check_made(workspace, language)
        known = known_keys(settings, language) if only_missing else ()
        plan = text_plan(workspace, encoder, language)
        rows += [(key, language, text) for key, text in plan.texts.items() if key not in known]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(column, pa.string()) for column in columns], names=["text_key", "language", "text"])


def _check_made(workspace: Workspace, language: str) -> None:
    """The tables that texts come from are there."""
    config = workspace.config
    paths = [
        workspace.table(*key, corpus.name, language)
        for key in SOURCES
        for corpus in config.corpora_of(language, training=key in (MASKED, TRAINING_TEMPLATES))
    ]
    paths += [
        workspace.table(*SENTENCE_PAIRS, corpus, "-".join(pair))
        for corpus, pairs in config.sentence_pairs.items()
        for pair in pairs
        if language in pair
    ]
    for path in paths:
        if not path.is_file():
            remedy = "Run `disent materialize '+group:targets'` first"
            raise TableError(located(path, None, "this table does not exist yet", remedy))


def write_texts(texts: pa.Table, path: Path) -> None:
    """Write them as Parquet or, if the file is named so, as JSON lines.

    Raises:
        ValueError: if it is named otherwise.
    """
    if path.suffix not in (".parquet", ".jsonl"):
        raise ValueError(f"{path} must end in .parquet or .jsonl")
    with atomic_path(path) as beside:
        if path.suffix == ".parquet":
            pq.write_table(texts, beside)
        else:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in texts.to_pylist())
            beside.write_text("".join(lines), encoding="utf-8")
