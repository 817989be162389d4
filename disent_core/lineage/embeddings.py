"""Stage `embeddings`: encode every distinct text of a language with a frozen encoder to vectors and token states."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float

from disent_core.config.model import Config
from disent_core.embeddings.arrays import (
    StateTable,
    Texts,
    VectorTable,
    distinct_texts,
    key_column,
    keys_array,
    keys_fingerprint,
    keys_of_texts,
)
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore
from disent_core.encoders import LazyEncoder
from disent_core.encoders.contract import Device, EncoderFiles, EncoderStep
from disent_core.errors import TableError, located
from disent_core.lineage.result import Check, StepResult
from disent_core.lineage.workspace import MASKED, MATES, SENTENCE_PAIRS, SWITCHED, TEMPLATES, UTTERANCES, Key, Workspace
from disent_core.lineage.workspace import TRAINING_TEMPLATES as TRAINED
from disent_core.registry import imported
from disent_core.shards.backend import sharded
from disent_core.storage.files import atomic_path
from disent_core.storage.results import result_exists
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table, rows_of
from disent_core.storage.text_columns import TextColumn
from disent_core.training.needs import Need, in_training_splits

CODE_VERSION = "1"
SOURCES = {
    UTTERANCES: ["corpus", "utterance_id", "split", "text", "text_key"],
    MASKED: ["corpus", "utterance_id", "template_text", "template_key", "residual_text", "residual_key"],
    TEMPLATES: ["source_text", "target_text"],
    TRAINED: ["source_text", "target_text"],
}
"""Tables of a language whose texts are encoded, and the columns read from each."""
FINITE = Check("training_did_not_diverge", "The loss and every other figure of the training is a finite number.", True)
ALL_ENCODED = Check("every_text_is_encoded", "Every text that a later stage reads is encoded.", True)


def version(config: Config, encoder: str) -> str:
    """Return the fingerprint of the code and settings that determine the embeddings of an encoder."""
    return fingerprint(CODE_VERSION, config.encoders[encoder], sorted(config.needs(encoder)))


def lazy_encoder(workspace: Workspace, name: str) -> LazyEncoder:
    """Return the encoder of that name; its model is not loaded yet."""
    device = workspace.config.experiment.device
    return LazyEncoder(workspace.config.encoders[name], workspace.encoder(name), device)


def store(workspace: Workspace, encoder: str, language: str) -> EmbeddingStore:
    model_fingerprint = lazy_encoder(workspace, encoder).fingerprint
    return EmbeddingStore(workspace.home, encoder=encoder, fingerprint=model_fingerprint, language=language)


def open_embeddings(
    workspace: Workspace, encoder: str, language: str, needs: frozenset[Need]
) -> tuple[VectorTable, StateTable | None]:
    """Open memory-mapped vectors, and token states if they are needed."""
    embedding_store = store(workspace, encoder, language)
    return embedding_store.open_vectors(), embedding_store.open_states() if Need.TOKEN_STATES in needs else None


# --- encoders that the lineage makes ----------------------------------------------------------------------


@dataclass(frozen=True)
class EncoderWorkspace:
    """The `encoders.contract.EncoderInputs` of a run."""

    workspace: Workspace

    @property
    def config(self) -> Config:
        return self.workspace.config

    @property
    def device(self) -> Device:
        return self.config.experiment.device

    def folder(self, encoder: str, part: str = "encoder") -> Path:
        return self.workspace.encoder(encoder, part)

    def texts(self, table: str, corpus: str, partition: str, splits: Sequence[str]) -> pa.Table:
        names = {"utterances": ["utterance_id", "text"], "sentence_pairs": ["source", "target"]}[table]
        rows = self.workspace.read("corpora", table, corpus, partition, columns=[*names, "split"])
        return rows.filter(pc.is_in(rows["split"], pa.array(splits))).select(names)

    def files(self, encoder: str) -> EncoderFiles:
        return lazy_encoder(self.workspace, encoder).files

    def vectors(self, encoder: str, language: str, texts: TextColumn) -> tuple[int, Float[np.ndarray, "texts dim"]]:
        column = texts.arrow()
        keys = keys_of_texts(column)
        distinct = distinct_texts([(keys, column, False)])
        embeddings = store(self.workspace, encoder, language)
        embeddings.quarantine_damaged()
        missing = int(embeddings.lacks(distinct.keys, states=False).sum())
        if missing:
            embeddings.add(lazy_encoder(self.workspace, encoder).load(language), distinct)
        table = embeddings.open_vectors()
        return missing, table.take(table.rows(keys))


def encoder_steps(config: Config, encoder: str) -> Sequence[EncoderStep]:
    """Return the steps that make an encoder; none if it comes from elsewhere."""
    return config.encoders[encoder].steps(config)


def make_encoder(workspace: Workspace, encoder: str, part: str = "encoder") -> StepResult:
    """Make an encoder, or a part of one, unless it exists."""
    step = next(step for step in encoder_steps(workspace.config, encoder) if step.part == part)
    report = imported(step.make)(workspace.config.encoders[encoder], EncoderWorkspace(workspace))
    numbers = {name: value for name, value in report.figures.items() if isinstance(value, float)}
    others = sorted(name for name, value in numbers.items() if not math.isfinite(value))
    return StepResult(rows=None, **vars(report), checks=(FINITE.result(not others, others=others),))


# --- encoding ---------------------------------------------------------------------------------------------


def tables_of(config: Config, encoder: str) -> list[str]:
    """Return the tables of the encoder: sentence vectors, and token states if a method needs them."""
    return [VECTORS, STATES] if Need.TOKEN_STATES in config.needs(encoder) else [VECTORS]


def encode(workspace: Workspace, name: str, language: str) -> list[StepResult]:
    """Encode every text of a language that is not stored yet; return a result for each of `tables_of`."""
    plan, lazy = text_plan(workspace, name, language), lazy_encoder(workspace, name)
    embedding_store = store(workspace, name, language)
    embedding_store.quarantine_damaged()
    with sharded(workspace.shard_backend):
        figures = _encode(lazy, language, embedding_store, plan)
    vectors, *others = (
        _result(embedding_store, table, plan, lazy.fingerprint, figures) for table in tables_of(workspace.config, name)
    )
    return [replace(vectors, summary=f"{name}, {language}: {figures['encoded']} texts encoded"), *others]


def _encode(lazy: LazyEncoder, language: str, embedding_store: EmbeddingStore, plan: Texts) -> dict[str, Any]:
    """Encode missing texts; the model is loaded only if there are any."""
    with_states = plan.keys[plan.with_states]
    if not (
        embedding_store.lacks(plan.keys, states=False).any() or embedding_store.lacks(with_states, states=True).any()
    ):
        return {"encoded": 0, "reused": len(plan)}
    if lazy.config.reads_one_language:  # from files that each worker would read whole
        report = embedding_store.add(lazy.load(language), plan)
    else:
        from disent_core.encoders.transformer import resolve_device  # loads torch

        lazy = replace(lazy, device=resolve_device(lazy.device))  # the same for all shards, for equal bits
        load = partial(lazy.load, language)
        report = embedding_store.add_in_shards(load, plan, on_gpu=lazy.device == "cuda")
    return {
        "encoded": report.encoded,
        "reused": report.reused,
        "texts_per_second": report.encoded / max(report.seconds, 1e-9),
        "tokens": report.tokens,
        "truncated": report.truncated,
    }


def _result(
    embedding_store: EmbeddingStore, table: str, plan: Texts, encoder: str, figures: dict[str, Any]
) -> StepResult:
    is_states = table == STATES
    keys = plan.keys[plan.with_states] if is_states else plan.keys
    missing = int(embedding_store.lacks(keys, states=is_states).sum())
    return StepResult(
        rows=len(keys),
        content=fingerprint(keys_fingerprint(encoder, keys)),
        is_reused=figures["encoded"] == 0,
        figures=figures,
        checks=(ALL_ENCODED.result(not missing, missing=missing, texts=len(keys)),),
    )


# --- texts ------------------------------------------------------------------------------------------------


def text_plan(workspace: Workspace, encoder: str, language: str) -> Texts:
    """Return the texts of the language that the methods and tasks of the encoder read."""
    utterances, masked, templates, training_templates = (
        [read_table(path, SCHEMAS[key[1]], SOURCES[key]) for path in paths]
        for key, paths in _paths(workspace, language).items()
    )
    texts_of_pairs = chain(_texts_of_pairs(workspace, language), _texts_of_mates(workspace, encoder, language))
    needs = workspace.config.needs(encoder)
    return texts_to_encode(utterances, masked, templates, training_templates, needs, texts_of_pairs)


def _paths(workspace: Workspace, language: str) -> dict[Key, list[Path]]:
    return {
        key: [
            workspace.table(*key, corpus.name, language)
            for corpus in workspace.config.corpora_of(language, training=key in (MASKED, TRAINED))
        ]
        for key in SOURCES
    }


def _texts_of_pairs(workspace: Workspace, language: str) -> Iterator[tuple[np.ndarray, pa.ChunkedArray]]:
    """Yield keys and texts of the language in all sentence pairs and code-switched sentences.

    Leave out the training split of a corpus that no head trains on, because nothing reads it.
    """
    config = workspace.config
    for corpus in (corpus for corpus in config.corpora if corpus.is_of_pairs):
        for pair in config.sentence_pairs[corpus.name]:
            if language not in pair:
                continue
            sides = [side for side, spoken in zip(("source", "target"), pair, strict=True) if spoken == language]
            names = ["split", *(f"{side}{ending}" for side in sides for ending in ("", "_key"))]
            table = workspace.read(*SENTENCE_PAIRS, corpus.name, "-".join(pair), columns=names)
            table = table if corpus.trains else table.filter(pc.not_equal(table["split"], "train"))
            for side in sides:
                yield keys_array(table[f"{side}_key"]), table[side]
            if config.targets.code_switching.dictionaries and corpus.is_switchable:
                switched = workspace.read(*SWITCHED, corpus.name, "-".join(pair))
                switched = switched.filter(pc.not_equal(switched["split"], "train"))
                for side in ("switched", "original"):
                    texts = switched.filter(pc.equal(switched[f"{side}_language"], language))[side]
                    yield keys_of_texts(texts), texts


def _texts_of_mates(workspace: Workspace, encoder: str, language: str) -> Iterator[tuple[np.ndarray, pa.ChunkedArray]]:
    for path in _mates_of(workspace, encoder, language):
        mates = read_table(path, SCHEMAS["parallel_mates"])
        mates = mates.filter(pc.equal(mates["split"], "train"))
        for side in ("source", "target"):
            texts = mates.filter(pc.equal(mates[f"{side}_language"], language))[f"{side}_text"]
            yield keys_of_texts(texts), texts


def _mates_of(workspace: Workspace, encoder: str, language: str) -> list[Path]:
    config = workspace.config
    sets = config.training_sets if Need.MATE_STATES in config.needs(encoder) else ()
    return [workspace.table(*MATES, name) for name in sets if language in config.languages_of(name)]


# --- texts for vectors that are made elsewhere ------------------------------------------------------------


def texts_of(workspace: Workspace, encoder: str, *, only_missing: bool) -> pa.Table:
    """Return the distinct texts that an encoder has to embed: `text_key`, `language`, `text`.

    The tables up to the targets must exist. `only_missing` leaves out texts that imported vectors have already.
    """
    if encoder not in workspace.config.encoders:
        raise ValueError(f"unknown encoder {encoder!r}; choose one of {', '.join(workspace.config.encoders)}")
    settings = workspace.config.encoders[encoder]
    schema = pa.schema([(name, pa.string()) for name in ("text_key", "language", "text")])
    tables = [schema.empty_table()]
    for language in workspace.config.languages:
        _check_made(workspace, encoder, language)
        plan = text_plan(workspace, encoder, language)
        columns = [key_column(plan.keys), pa.repeat(language, len(plan)), plan.column.cast(pa.string())]
        texts = pa.table(columns, schema=schema)
        if only_missing:
            if (known := settings.known_keys(language)) is None:
                raise ValueError(f"encoder {encoder!r} embeds its texts itself; --missing is for imported vectors")
            texts = texts.filter(pc.invert(pc.is_in(texts["text_key"], known)))
        tables.append(texts)
    return pa.concat_tables(tables)


def _check_made(workspace: Workspace, encoder: str, language: str) -> None:
    of_pairs = (
        workspace.table(*SENTENCE_PAIRS, corpus, "-".join(pair))
        for corpus, pairs in workspace.config.sentence_pairs.items()
        for pair in pairs
        if language in pair
    )
    for path in chain(*_paths(workspace, language).values(), of_pairs, _mates_of(workspace, encoder, language)):
        if not result_exists(path):
            remedy = "Run `disent materialize '+group:targets'` first"
            raise TableError(located(path, None, "this table does not exist yet", remedy))


def write_texts(texts: pa.Table, path: Path) -> None:
    """Write texts as Parquet (`.parquet`) or as JSON lines (`.jsonl`)."""
    if path.suffix not in (".parquet", ".jsonl"):
        raise ValueError(f"{path} must end in .parquet or .jsonl")
    with atomic_path(path) as beside:
        if path.suffix == ".parquet":
            pq.write_table(texts, beside)  # noqa: TID251 - a file that the user names
        else:
            with beside.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(texts))


def texts_to_encode(
    utterances: Sequence[pa.Table],
    masked: Sequence[pa.Table],
    template_pairs: Sequence[pa.Table],
    training_template_pairs: Sequence[pa.Table],
    needs: frozenset[Need],
    sentence_pairs: Iterable[tuple[np.ndarray, pa.ChunkedArray]] = (),
) -> Texts:
    """Return distinct texts of one language that methods with these needs read, in training and in every task.

    Tables are of all corpora; `masked` only of those that heads train on, because only training reads it.
    `sentence_pairs` are keys and texts.
    """
    plain = [*sentence_pairs, *((keys_array(table["text_key"]), table["text"]) for table in utterances)]
    trained_templates = training_template_pairs if Need.TEMPLATE_PAIRS in needs else ()
    for table in (*template_pairs, *trained_templates):
        for column in ("source_text", "target_text"):
            texts = table[column].unique()
            plain.append((keys_of_texts(texts), texts))
    of_masked = []
    for table in masked if Need.MASKED_TARGETS in needs else ():
        trained = _of_training(table, utterances)
        for name in ("template", "residual"):
            present = trained.filter(trained[f"{name}_key"].is_valid())
            of_masked.append((keys_array(present[f"{name}_key"]), present[f"{name}_text"]))
    with_states = Need.TOKEN_STATES in needs
    return distinct_texts([*((*column, with_states) for column in plain), *((*column, False) for column in of_masked)])


def _of_training(masked: pa.Table, utterances: Sequence[pa.Table]) -> pa.Table:
    """Return rows of one corpus's `masked_utterances` whose utterance is in a training split."""
    tables_of_corpus = (
        table for table in utterances if len(masked) and len(table) and table["corpus"][0] == masked["corpus"][0]
    )
    ids = [in_training_splits(table)["utterance_id"].combine_chunks() for table in tables_of_corpus]
    return masked.filter(pc.is_in(masked["utterance_id"], value_set=ids[0])) if ids else masked
