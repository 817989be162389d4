"""Align and distil an encoder on the training splits of its corpora, without any evaluation text."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.encoders.contract import EncoderInputs, EncoderReport, not_made_yet
from disent_core.encoders.kinds.distilled import ALIGNED_VERSION, STUDENT_VERSION, DistilledConfig
from disent_core.encoders.kinds.distilled.pairs import Material, Translations, exclusion_digests, without
from disent_core.encoders.kinds.huggingface import files_fingerprint, record_of
from disent_core.storage.results import fetch, open_result, sole_maker, write_folder
from disent_core.storage.tables import fingerprint
from disent_core.storage.text_columns import TextColumn, joined


def align(settings: DistilledConfig, inputs: EncoderInputs) -> EncoderReport:
    """Make the aligned encoder, unless it exists."""
    from disent_core.encoders.kinds.distilled.aligned import make_aligned

    folder, teacher = inputs.folder(settings.name, "aligned"), inputs.files(settings.teacher)
    material = material_of(settings, inputs)
    identity = settings.identity(is_student=False)
    made_from = fingerprint(ALIGNED_VERSION, identity, teacher.fingerprint, material.training_fingerprint)
    with sole_maker(folder):
        if not (is_reused := is_made(folder, made_from)):
            record = {"made_from": made_from, **_record(settings, inputs.config, material)}
            make_aligned(material.training, settings, teacher.folder, folder, record)
    pairs = sum(map(len, material.training))
    content = fingerprint(files_fingerprint(folder))
    return EncoderReport(content, is_reused, _counts(material), f"{settings.name}: {pairs} pairs aligned")


def distil(settings: DistilledConfig, inputs: EncoderInputs) -> EncoderReport:
    """Train the student, unless it exists. The teacher encodes only sentences it has not encoded before.

    An encoder that differs from an earlier one only in how it is read, such as its layer, gets a copy.
    """
    from disent_core.encoders.kinds.distilled.student import train_student

    config, folder = inputs.config, inputs.folder(settings.name)
    aligned = inputs.folder(settings.aligned_by(config), "aligned")
    if record_of(aligned) is None:
        raise not_made_yet(aligned, settings.aligned_by(config), "aligned")
    teacher, material = inputs.files(settings.teacher), material_of(settings, inputs)
    made_from = fingerprint(
        STUDENT_VERSION,
        settings.identity(is_student=True),
        teacher.fingerprint,
        files_fingerprint(aligned),
        material.fingerprint,
    )
    figures: dict[str, Any] = _counts(material)
    first = settings.student_of(config)
    with sole_maker(folder):
        is_reused = is_made(folder, made_from)
        if not is_reused and first != settings.name:
            student = inputs.folder(first)
            if not is_made(student, made_from):
                raise not_made_yet(student, first)
            with write_folder(folder) as beside:
                shutil.copytree(fetch(student), beside)
        elif not is_reused:
            figures["sentences_encoded_by_teacher"] = 0

            def teacher_vectors(sentences: TextColumn) -> Float[np.ndarray, "sentences dim"]:
                encoded, vectors = inputs.vectors(settings.teacher, settings.pivot, sentences)
                figures["sentences_encoded_by_teacher"] = encoded
                return vectors

            record = {"made_from": made_from, **_record(settings, config, material)}
            for report in train_student(material, teacher_vectors, settings, aligned, folder, record, inputs.device):
                figures["steps"] = report.steps
    record = record_of(folder) or {}
    held_out = {f"held_out_{term}": value for term, value in record.get("held_out", {}).items()}
    kept_step = record.get("steps", 0)
    return EncoderReport(
        settings.fingerprint(folder),
        is_reused,
        {**figures, "kept_step": kept_step, **held_out},
        f"{settings.name}: {kept_step} steps of distillation",
    )


def is_made(folder: Path, made_from: str) -> bool:
    """Return whether the encoder exists, undamaged and made from the same inputs."""
    record = record_of(folder)
    return record is not None and record.get("made_from") == made_from and open_result(folder) is not None


def _counts(material: Material) -> dict[str, int]:
    return {
        "pairs": sum(map(len, material.training)),
        "held_out_pairs": sum(map(len, material.held_out)),
        "dropped_pairs": material.dropped,
    }


def _record(settings: DistilledConfig, config: Any, material: Material) -> dict[str, Any]:
    """Return the record of an encoder, kept beside its files."""
    return {
        "encoder_saw": settings.has_seen(config),
        "teacher": settings.teacher,
        "corpora": list(settings.corpora),
        "texts_excluded_of": [corpus.name for corpus in config.corpora],
        **_counts(material),
    }


def material_of(settings: DistilledConfig, inputs: EncoderInputs) -> Material:
    """Return training and held-out pairs, without any text of a dev or test split of the configuration.

    A pair is left out if a side equals such a text up to case, punctuation and form (`pairs.exclusion_key`). Held-out
    pairs are the dev splits of its sentence-pair corpora; training has none of their texts either.
    """
    training, held_out = (
        [part for part in _translations(settings, inputs, split) if len(part)] for split in ("train", "dev")
    )
    evaluated = exclusion_digests(joined(_evaluation_texts(settings, inputs)))
    also_held_out = exclusion_digests(joined(side for part in held_out for side in (part.pivots, part.foreign)))
    excluded = np.concatenate([evaluated, also_held_out])
    kept = [without(part, excluded) for part in training]
    return Material(
        training=kept,
        held_out=[without(part, evaluated) for part in held_out],
        dropped=sum(map(len, training)) - sum(map(len, kept)),
    )


def _translations(settings: DistilledConfig, inputs: EncoderInputs, split: str) -> Iterator[Translations]:
    """Yield a split's pairs for each corpus and language. Utterances are paired only in the training split."""
    config, pivot = inputs.config, settings.pivot
    languages = settings.taught_languages(config)
    for corpus in settings.corpora:
        for pair in config.sentence_pairs.get(corpus, ()):
            other = next((language for language in pair if language != pivot), pivot)
            if pivot in pair and other in languages:
                rows = inputs.texts("sentence_pairs", corpus, "-".join(pair), [split])
                columns = ["source", "target"] if pair[0] == pivot else ["target", "source"]
                yield Translations(corpus, other, *(TextColumn.whole(rows[column]) for column in columns))
        locales = config.locales.get(corpus, {})
        for language in locales if pivot in locales and split == "train" else ():
            if language in languages:
                sides = (inputs.texts("utterances", corpus, side, [split]) for side in (pivot, language))
                yield Translations(corpus, language, *_of_same_id(*sides))


def _of_same_id(utterances: pa.Table, others: pa.Table) -> tuple[TextColumn, TextColumn]:
    """Return the texts of the utterances that are in both tables, in the order of the first."""
    row_of_other = pc.index_in(utterances["utterance_id"], others["utterance_id"].combine_chunks())
    shared = np.flatnonzero(row_of_other.is_valid())
    texts, translations = (TextColumn.whole(table["text"]) for table in (utterances, others))
    return texts.take(shared), translations.take(row_of_other.drop_null().to_numpy())


def _evaluation_texts(settings: DistilledConfig, inputs: EncoderInputs) -> Iterator[TextColumn]:
    """Yield the texts of the dev and test splits of all corpora, except the held-out pairs."""
    config = inputs.config
    for language in config.utterance_languages:
        for corpus in config.corpora_of(language):
            yield TextColumn.whole(inputs.texts("utterances", corpus.name, language, ["dev", "test"])["text"])
    for corpus, pairs in config.sentence_pairs.items():
        for pair in pairs:
            splits = ["test"] if corpus in settings.corpora else ["dev", "test"]
            rows = inputs.texts("sentence_pairs", corpus, "-".join(pair), splits)
            yield from (TextColumn.whole(rows[side]) for side in ("source", "target"))
