"""Stage `embeddings`: distil a multilingual encoder from a teacher and the training splits of corpora."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.config.model import Config
from disent_core.embeddings.texts import distinct_texts, keys_of_texts
from disent_core.encoders.config import DistilledConfig, distilled_identity
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.distilled import ALIGNED_VERSION, STUDENT_VERSION
from disent_core.encoders.distilled.pairs import Material, Translations, exclusion_digests, without
from disent_core.encoders.files import files_fingerprint, record_of
from disent_core.errors import TableError, located
from disent_core.experiment.embeddings import lazy_encoder, store
from disent_core.experiment.keys import aligned_key, encoder_key
from disent_core.experiment.result import StepResult
from disent_core.experiment.workspace import SENTENCE_PAIRS, UTTERANCES, Key, Workspace
from disent_core.storage.remote import sole_maker
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table
from disent_core.storage.text_columns import TextColumn, joined

CODE_VERSION = "1"


def settings_of(config: Config, encoder: str) -> DistilledConfig:
    """Settings of an encoder that is distilled here."""
    settings = config.encoders[encoder]
    assert isinstance(settings, DistilledConfig)  # only their assets are made here
    return settings


def alignment_version(config: Config, encoder: str) -> str:
    """Fingerprint of the code and settings that determine an aligned encoder."""
    settings = settings_of(config, encoder)
    of_teacher = config.encoders[settings.teacher]
    return fingerprint(CODE_VERSION, ALIGNED_VERSION, distilled_identity(settings, is_student=False), of_teacher)


def student_version(config: Config, encoder: str) -> str:
    """Fingerprint of the code and settings that determine a student."""
    settings = distilled_identity(settings_of(config, encoder), is_student=True)
    return fingerprint(STUDENT_VERSION, alignment_version(config, encoder), settings)


def shared_with(config: Config, encoder: str, version: Callable[[Config, str], str] = alignment_version) -> str:
    """The first encoder of the same version: aligned as this one is, or with the same student.

    Both begin with the aligned encoder of the first, or have its student.
    """
    own = version(config, encoder)
    distilled = (name for name, settings in config.encoders.items() if isinstance(settings, DistilledConfig))
    return next(name for name in distilled if version(config, name) == own)


# --- the two steps ----------------------------------------------------------------------------------------


def align(workspace: Workspace, name: str) -> StepResult:
    """Make the aligned encoder of an encoder, unless it is there.

    Raises:
        TableError: if a table of the corpora does not exist.
        EncoderError: if the teacher can't be one, or there are no pairs.
    """
    from disent_core.encoders.distilled.aligned import make_aligned
    from disent_core.encoders.distilled.folders import is_made

    settings, folder = settings_of(workspace.config, name), workspace.aligned(name)
    teacher, material = _teacher(workspace, settings), material_of(workspace, name)
    identity = distilled_identity(settings, is_student=False)
    made_from = fingerprint(ALIGNED_VERSION, identity, teacher.fingerprint, material.training_fingerprint)
    with sole_maker(folder):
        if not (is_reused := is_made(folder, made_from)):
            record = {"made_from": made_from, **_told(workspace, name, material)}
            make_aligned(material.training, settings, teacher.folder, folder, record)
    return StepResult(
        rows=None,
        content=fingerprint(files_fingerprint(folder)),
        is_reused=is_reused,
        figures=_counts(material),
        summary=f"{name}: {sum(map(len, material.training))} pairs aligned",
    )


def distil(workspace: Workspace, name: str) -> StepResult:
    """Train the student of an encoder, unless it is there. The teacher encodes only sentences that are new to it.

    The student of another encoder that differs in what is read of it alone is copied.

    Raises:
        TableError: if a table of the corpora, the aligned encoder, or the student to copy, does not exist.
        EncoderError: if no pairs are held out.
        TrainingError: if the loss is not finite.
    """
    from disent_core.encoders.distilled.folders import copy_encoder, is_made
    from disent_core.encoders.distilled.student import train_student

    lazy, settings = lazy_encoder(workspace, name), settings_of(workspace.config, name)
    folder = workspace.pretrained(name)
    start = workspace.aligned(shared_with(workspace.config, name))
    if record_of(start) is None:
        remedy = f"Materialise the asset {'/'.join(aligned_key(start.name))} first"
        raise TableError(located(start, None, "this aligned encoder does not exist", remedy))
    teacher, material = _teacher(workspace, settings), material_of(workspace, name)
    made_from = fingerprint(
        STUDENT_VERSION,
        distilled_identity(settings, is_student=True),
        teacher.fingerprint,
        files_fingerprint(start),
        material.fingerprint,
    )
    figures: dict[str, Any] = _counts(material)
    first = shared_with(workspace.config, name, student_version)
    with sole_maker(folder):
        is_reused = is_made(folder, made_from)
        if not is_reused and first != name:
            if not is_made(workspace.pretrained(first), made_from):
                remedy = f"Materialise the asset {'/'.join(encoder_key(first))} first"
                raise TableError(located(workspace.pretrained(first), None, "this student does not exist", remedy))
            copy_encoder(workspace.pretrained(first), folder)
        elif not is_reused:
            figures["sentences_encoded_by_teacher"] = 0

            def taught(sentences: TextColumn) -> Float[np.ndarray, "sentences dim"]:
                figures["sentences_encoded_by_teacher"], vectors = _teacher_vectors(workspace, settings, sentences)
                return vectors

            record = {"made_from": made_from, **_told(workspace, name, material)}
            for report in train_student(material, taught, settings, start, folder, record, lazy.device):
                figures["steps"] = report.steps
    record = record_of(folder) or {}
    held_out = {f"held_out_{term}": value for term, value in record.get("held_out", {}).items()}
    return StepResult(
        rows=None,
        content=lazy.fingerprint,
        is_reused=is_reused,
        figures={**figures, "kept_step": record.get("steps", 0), **held_out},
        summary=f"{name}: {record.get('steps', 0)} steps of distillation",
    )


def _teacher(workspace: Workspace, settings: DistilledConfig) -> EncoderFiles:
    return lazy_encoder(workspace, settings.teacher).files


def _teacher_vectors(
    workspace: Workspace, settings: DistilledConfig, sentences: TextColumn
) -> tuple[int, Float[np.ndarray, "sentences dim"]]:
    """Number of sentences that were encoded, and the vectors of all, from the teacher's own embeddings."""
    column = sentences.arrow()
    keys = keys_of_texts(column)
    texts = distinct_texts([(keys, column, False)])
    embeddings = store(workspace, settings.teacher, settings.pivot)
    embeddings.quarantine_damaged()
    encoded = int(embeddings.lacks(texts.keys, states=False).sum())
    if encoded:
        embeddings.add(lazy_encoder(workspace, settings.teacher).load(settings.pivot), texts)
    table = embeddings.open_vectors()
    return encoded, table.take(table.rows(keys))


def _counts(material: Material) -> dict[str, int]:
    return {
        "pairs": sum(map(len, material.training)),
        "held_out_pairs": sum(map(len, material.held_out)),
        "dropped_pairs": material.dropped,
    }


def _told(workspace: Workspace, name: str, material: Material) -> dict[str, Any]:
    """What is recorded of an encoder beside its files."""
    config, settings = workspace.config, settings_of(workspace.config, name)
    return {
        "encoder_saw": config.saw(name),
        "teacher": settings.teacher,
        "corpora": list(settings.corpora),
        "texts_excluded_of": [corpus.name for corpus in config.corpora],
        **_counts(material),
    }


# --- what it is made from ---------------------------------------------------------------------------------


def material_of(workspace: Workspace, name: str) -> Material:
    """Training and held-out pairs of an encoder, without any text of a dev or test split of the configuration.

    A pair is left out if one of its sides is such a text up to case, punctuation and form (`pairs.exclusion_key`). The
    held-out pairs are the dev splits of its corpora of sentence pairs; training has none of their texts either.

    Raises:
        TableError: if a table of the corpora does not exist.
    """
    settings = settings_of(workspace.config, name)
    training, held_out = (
        [part for part in _translations(workspace, settings, split) if len(part)] for split in ("train", "dev")
    )
    evaluated = exclusion_digests(joined(_evaluation_texts(workspace, settings)))
    also_held_out = exclusion_digests(joined(side for part in held_out for side in (part.pivots, part.foreign)))
    excluded = np.concatenate([evaluated, also_held_out])
    kept = [without(part, excluded) for part in training]
    return Material(
        training=kept,
        held_out=[without(part, evaluated) for part in held_out],
        dropped=sum(map(len, training)) - sum(map(len, kept)),
    )


def _translations(workspace: Workspace, settings: DistilledConfig, split: str) -> Iterator[Translations]:
    """Pairs of a split, of each corpus and language. Utterances have no pairs but those of training."""
    config, pivot = workspace.config, settings.pivot
    languages = config.taught_languages(settings)
    for corpus in settings.corpora:
        for pair in config.sentence_pairs.get(corpus, ()):
            other = next((language for language in pair if language != pivot), pivot)
            if pivot in pair and other in languages:
                rows = _rows(workspace, SENTENCE_PAIRS, corpus, "-".join(pair), [split])
                columns = ["source", "target"] if pair[0] == pivot else ["target", "source"]
                yield Translations(corpus, other, *(TextColumn.whole(rows[column]) for column in columns))
        locales = config.locales.get(corpus, {})
        for language in locales if pivot in locales and split == "train" else ():
            if language in languages:
                sides = (_rows(workspace, UTTERANCES, corpus, side, [split]) for side in (pivot, language))
                yield Translations(corpus, language, *_of_same_id(*sides))


def _of_same_id(utterances: pa.Table, others: pa.Table) -> tuple[TextColumn, TextColumn]:
    """Texts of the utterances that are in both tables, in the order of the first."""
    place = pc.index_in(utterances["utterance_id"], others["utterance_id"].combine_chunks())
    shared = np.flatnonzero(place.is_valid())
    texts, translations = (TextColumn.whole(table["text"]) for table in (utterances, others))
    return texts.take(shared), translations.take(place.drop_null().to_numpy())


def _evaluation_texts(workspace: Workspace, settings: DistilledConfig) -> Iterator[TextColumn]:
    """Texts of the dev and test splits of all corpora, but not the pairs that are held out."""
    config = workspace.config
    for language in config.utterance_languages:
        for corpus in config.corpora_of(language):
            yield TextColumn.whole(_rows(workspace, UTTERANCES, corpus.name, language, ["dev", "test"])["text"])
    for corpus, pairs in config.sentence_pairs.items():
        for pair in pairs:
            splits = ["test"] if corpus in settings.corpora else ["dev", "test"]
            rows = _rows(workspace, SENTENCE_PAIRS, corpus, "-".join(pair), splits)
            yield from (TextColumn.whole(rows[side]) for side in ("source", "target"))


_COLUMNS = {UTTERANCES: ["utterance_id", "text"], SENTENCE_PAIRS: ["source", "target"]}


def _rows(workspace: Workspace, table: Key, corpus: str, part: str, splits: list[str]) -> pa.Table:
    """Ids and texts of some splits of a table."""
    path = workspace.table(*table, corpus, part)
    rows = read_table(path, SCHEMAS[table[1]], [*_COLUMNS[table], "split"])
    return rows.filter(pc.is_in(rows["split"], pa.array(splits))).select(_COLUMNS[table])
