"""Make the aligned encoder: the teacher's blocks under a vocabulary of all languages, without training."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int

from disent_core.encoders.checkpoint import quiet_transformers
from disent_core.encoders.config import DistilledConfig
from disent_core.encoders.distilled.alignment import align, aligned_rows
from disent_core.encoders.distilled.folders import publish
from disent_core.encoders.distilled.pairs import Translations
from disent_core.encoders.distilled.teacher import ROLES, Teacher, load_teacher
from disent_core.encoders.distilled.vocabulary import START, train_vocabulary
from disent_core.errors import EncoderError
from disent_core.progress import Progress
from disent_core.storage.atomic import remove_path
from disent_core.storage.checksums import checksummed_path, verified

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

    Args:
        training: pairs to align.
        config: of the encoder.
        teacher_folder: folder of the teacher's model.
        folder: of the encoder.
        record: what it is made from, see `folders.publish`.

    Raises:
        EncoderError: if the teacher can't be one, or there are no pairs.
    """
    if not any(map(len, training)):
        raise EncoderError(f"encoder {config.name!r}: its corpora have no pair to align. Name others in corpora")
    teacher = load_teacher(teacher_folder)
    work = folder.with_name(f".{folder.name}.work-{record['made_from'][:12]}")
    tokeniser = _vocabulary(training, config, teacher, work / "tokenizer.json")
    rows = _rows(training, config, teacher, tokeniser)
    publish(_with_rows(teacher, rows), _fast(tokeniser, teacher), folder, record)
    remove_path(work)


def _vocabulary(training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, path: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    if verified(path) is None:
        pivots = list(dict.fromkeys(text for part in training for text in part.pivots))
        foreign = list(dict.fromkeys(text for part in training for text in part.foreign))
        log.info("%s: learning a vocabulary from %d texts", config.name, len(pivots) + len(foreign))
        trained = train_vocabulary(
            pivots, foreign, teacher, size=config.vocab_size, keep_words=config.keep_teacher_words
        )
        with checksummed_path(path) as beside:
            trained.save(str(beside))
    return Tokenizer.from_file(str(path))


def _rows(
    training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, tokeniser: "Tokenizer"
) -> Float[np.ndarray, "pieces dim"]:
    size = tokeniser.get_vocab_size()
    in_pivots, in_foreign, alignments = np.zeros(size), np.zeros(size), []
    progress = Progress(log, sum(map(len, training)), "pairs aligned", what=config.name)
    seen, done = set[str](), 0
    by_language = {part.language: [] for part in training}
    for part in training:
        by_language[part.language].append(part)
    for parts in by_language.values():
        pivots = [text for part in parts for text in part.pivots]
        foreign = _cut(tokeniser, [text for part in parts for text in part.foreign])
        new = [text for text in dict.fromkeys(pivots) if text not in seen]
        seen.update(new)
        in_pivots += _occurrences(_cut(tokeniser, new), size)
        in_foreign += _occurrences(foreign, size)
        alignments.append(align(teacher.cut(pivots), foreign, iterations=config.align_iterations))
        progress.advance(done := done + len(pivots))
    occurrences = in_pivots + in_foreign
    share = np.where(occurrences > 0, in_pivots / np.maximum(occurrences, 1), 1.0)
    return aligned_rows(teacher.rows, _spelt(tokeniser, teacher), share, alignments)


def _cut(tokeniser: "Tokenizer", texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokeniser.encode_batch_fast(list(texts), add_special_tokens=False)]


def _occurrences(texts: Sequence[Sequence[int]], size: int) -> Int[np.ndarray, " pieces"]:
    return np.bincount(np.fromiter((piece for text in texts for piece in text), np.int64), minlength=size)


def _spelt(tokeniser: "Tokenizer", teacher: Teacher) -> list[list[int]]:
    """For each new piece, the teacher's piece that it copies, or those that the teacher cuts it into."""
    own, unknown = teacher.vocabulary, teacher.vocabulary[teacher.special[ROLES.index("unk")]]
    vocabulary = tokeniser.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    cut = teacher.cut([piece.removeprefix(START) for piece in pieces])

    def spelt(piece: str, parts: list[int]) -> list[int]:
        if piece in teacher.special:
            return [own[piece]]
        copy = piece.removeprefix(START) if piece.startswith(START) else f"##{piece}"
        known = [part for part in parts if part != unknown]
        return [own[copy]] if copy in own else known or [unknown]

    return [spelt(piece, parts) for piece, parts in zip(pieces, cut, strict=True)]


def _with_rows(teacher: Teacher, rows: Float[np.ndarray, "pieces dim"]) -> Any:
    """The teacher's model with other rows. The model itself is changed."""
    model = teacher.model
    model.set_input_embeddings(torch.nn.Embedding(*rows.shape, padding_idx=0, _weight=torch.from_numpy(rows)))
    model.config.vocab_size, model.config.pad_token_id, model.config.name_or_path = len(rows), 0, ""
    return model


def _fast(tokeniser: "Tokenizer", teacher: Teacher) -> Any:
    from transformers import PreTrainedTokenizerFast

    roles = {f"{role}_token": token for role, token in zip(ROLES, teacher.special, strict=True)}
    with quiet_transformers():
        return PreTrainedTokenizerFast(
            tokenizer_object=tokeniser, model_max_length=teacher.model.config.max_position_embeddings, **roles
        )
