"""Make the aligned encoder: the teacher's blocks under a vocabulary of all languages, without training."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from disent_core.encoders.checkpoint import quiet_transformers, save_model
from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.alignment import align, aligned_rows
from disent_core.encoders.kinds.distilled.pairs import Translations, record_file
from disent_core.encoders.kinds.distilled.vocabulary import ROLES, START, Teacher, cut, load_teacher, train_vocabulary
from disent_core.errors import EncoderError
from disent_core.progress import Progress
from disent_core.storage.files import remove_path
from disent_core.storage.results import open_result, write_result
from disent_core.storage.text_columns import blocks, joined, numbered

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)


def make_aligned(
    training: Sequence[Translations],
    config: DistilledConfig,
    teacher_folder: Path,
    folder: Path,
    record: Mapping[str, Any],
) -> None:
    """Write the aligned encoder, completely or not at all. An interrupted call keeps the vocabulary that it trained.

    `record` is what it is made from, `made_from` a fingerprint of that.
    """
    from transformers import PreTrainedTokenizerFast

    if not any(map(len, training)):
        raise EncoderError(f"encoder {config.name!r}: its corpora have no pair to align. Name others in corpora")
    teacher = load_teacher(teacher_folder)
    work = folder.with_name(f".{folder.name}.work-{record['made_from'][:12]}")
    tokeniser = _vocabulary(training, config, teacher, work / "tokenizer.json")
    rows = _rows(training, config, teacher, tokeniser)
    model = teacher.model
    model.set_input_embeddings(torch.nn.Embedding(*rows.shape, padding_idx=0, _weight=torch.from_numpy(rows)))
    model.config.vocab_size, model.config.pad_token_id, model.config.name_or_path = len(rows), 0, ""
    roles = {f"{role}_token": token for role, token in zip(ROLES, teacher.special, strict=True)}
    length = model.config.max_position_embeddings
    with quiet_transformers():
        fast = PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=length, **roles)
    save_model(model, fast, folder, record_file(record))
    remove_path(work)


def _vocabulary(training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, path: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    if open_result(path) is None:
        pivots, _ = numbered(joined(part.pivots for part in training))
        foreign, _ = numbered(joined(part.foreign for part in training))
        log.info("%s: learning a vocabulary from %d texts", config.name, len(pivots) + len(foreign))
        size, keep_words = config.vocab_size, config.keep_teacher_words
        trained = train_vocabulary(pivots, foreign, teacher, size=size, keep_words=keep_words)
        with write_result(path) as beside:
            trained.save(str(beside))
    return Tokenizer.from_file(str(path))


def _rows(
    training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, tokeniser: "Tokenizer"
) -> Float[np.ndarray, "pieces dim"]:
    size = tokeniser.get_vocab_size()
    sentences, _ = numbered(joined(part.pivots for part in training))
    in_pivots, in_foreign = np.bincount(cut(tokeniser, blocks(sentences)).ids, minlength=size), np.zeros(size)
    progress, done, alignments = Progress(log, sum(map(len, training)), "pairs aligned", what=config.name), 0, []
    for language in dict.fromkeys(part.language for part in training):
        parts = [part for part in training if part.language == language]
        pivots, foreign = joined(part.pivots for part in parts), joined(part.foreign for part in parts)
        pieces = cut(tokeniser, blocks(foreign))
        in_foreign += np.bincount(pieces.ids, minlength=size)
        alignments.append(align(teacher.cut(blocks(pivots)), pieces, iterations=config.align_iterations))
        progress.advance(done := done + len(pivots))
    occurrences = in_pivots + in_foreign
    share = np.where(occurrences > 0, in_pivots / np.maximum(occurrences, 1), 1.0)
    return aligned_rows(teacher.rows, _spelt(tokeniser, teacher), share, alignments)


def _spelt(tokeniser: "Tokenizer", teacher: Teacher) -> list[list[int]]:
    """Return for each new piece the teacher's piece that it copies, or those that the teacher cuts it into."""
    teacher_ids, unknown = teacher.vocabulary, teacher.vocabulary[teacher.special[ROLES.index("unk")]]
    vocabulary = tokeniser.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    cut_pieces = teacher.cut([[piece.removeprefix(START) for piece in pieces]])
    cuts = [part.tolist() for part in np.split(cut_pieces.ids, np.cumsum(cut_pieces.lengths)[:-1])]

    def spelt(piece: str, parts: list[int]) -> list[int]:
        if piece in teacher.special:
            return [teacher_ids[piece]]
        copy = piece.removeprefix(START) if piece.startswith(START) else f"##{piece}"
        known = [part for part in parts if part != unknown]
        return [teacher_ids[copy]] if copy in teacher_ids else known or [unknown]

    return [spelt(piece, parts) for piece, parts in zip(pieces, cuts, strict=True)]
