"""Add texts to an index. A killed run keeps the parts that it has written; the same command goes on after them."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from disent_core.errors import DamagedError, TableError, located
from disent_core.search.approximate import require_engine, wanted_engine, write_approximate
from disent_core.search.contents import (
    Approximate,
    Contents,
    EngineChoice,
    HeadRecord,
    Part,
    read_contents,
    write_contents,
)
from disent_core.search.parts import (
    EMBEDDINGS,
    TEXTS,
    checked_file,
    part_folder,
    part_schema,
    read_batches,
    read_texts,
    vectors_array,
    write_part,
)
from disent_core.search.texts import Text
from disent_core.storage.files import locked, remove_path
from disent_core.text import text_key

_LOG = logging.getLogger(__name__)

_PART_TEXTS = 16_384
"""New texts that are encoded before they are stored: what a kill costs at most."""
_LOOSE_SHARE, _LOOSE_PARTS = 10, 64
"""Parts of a language are joined when every tenth text is in a loose one, or when there are so many."""
_DIGITS = "[0-9]" * 5
_TEXT_FILES = {EMBEDDINGS, TEXTS}
"""Files of a part of which each has all texts."""

Encode = Callable[[Sequence[str], str | None], Mapping[str, np.ndarray]]
"""Vectors of texts of one language by the name of their embedding."""


@dataclass(frozen=True)
class Added:
    """What `add_texts` did.

    Attributes:
        read: texts that it read.
        new: of these, those that the index lacked.
        rows: all that the index has now.
        mended: texts of damaged parts that were stored again from what was whole.
        lost: texts of parts of which neither file of texts was whole; `damaged-*` has what is left.
        approximate: its index of faiss.
    """

    read: int
    new: int
    rows: int
    mended: int
    lost: int
    approximate: Approximate | None


def add_texts(
    index: Path,
    head: HeadRecord,
    encode: Encode,
    texts: Iterable[Text],
    *,
    embeddings: Sequence[str] | None = None,
    engine: EngineChoice | None = None,
    advance: Callable[[int], object] = lambda count: None,
) -> Added:
    """Encode the texts that an index lacks and store them; make the index if there is none.

    A text counts as another one in another language. The index needs about 100 MB of memory for a million texts.

    Args:
        index: its folder.
        head: what encodes.
        encode: gives the same vectors whatever other texts there are.
        texts: may repeat.
        embeddings: names of those that the index has; None: those that it has already or, if it is new, all.
        engine: what searches; None: what was chosen before or, if the index is new, `auto`.
        advance: is called with the number of texts that were read since the last call.
    """
    if engine is not None:
        require_engine(engine)
    index.mkdir(parents=True, exist_ok=True)
    with locked(index / "index"):
        contents = _contents_of(index, head)
        wanted = contents.embeddings or embeddings
        if embeddings and sorted(embeddings) != sorted(wanted or ()):
            problem = f"this index has the embeddings {', '.join(wanted or ())}"
            raise TableError(located(index, None, problem, "Leave --embedding out, or make a new index"))
        counts = {"read": 0, "new": 0, "mended": 0, "lost": 0}
        contents = _sound(index, contents, encode, counts)
        known = _known(index, contents)
        for block in _new_blocks(texts, known, counts, advance):
            contents = _with_block(index, contents, encode, block, wanted)
        contents = joined(index, contents)
        write_contents(index, contents)
        contents = _with_engine(index, replace(contents, engine=engine or contents.engine))
        write_contents(index, contents)
        _remove_others(index, contents)
    return Added(rows=contents.rows, approximate=contents.approximate, **counts)


def _contents_of(index: Path, head: HeadRecord) -> Contents:
    """Return what the index has, with this head."""
    contents = read_contents(index)
    if contents is None:
        if any(not file.name.startswith(".") for file in {*index.iterdir()} - _parts_in(index)):
            raise TableError(located(index, None, "this folder has other files", "Name a new folder"))
        return Contents(head=head, embeddings={})
    require_head(index, contents, head)
    return replace(contents, head=head if head.places else contents.head)


def require_head(index: Path, contents: Contents, head: HeadRecord) -> None:
    """Check that an index is of a head."""
    if not contents.head.is_same(head):
        problem = f"this index is of another head ({contents.head.title}) than {head.title}"
        if contents.head.title == head.title:
            problem = f"this index is of {head.title} as it was trained before"
        raise TableError(located(index, None, problem, "Use the head that made it, or make a new index"))


def _sound(index: Path, contents: Contents, encode: Encode, counts: dict[str, int]) -> Contents:
    """Store damaged parts again, each from what is whole of it; an index of faiss is made again.

    A part of which no texts are whole is set aside, so that nothing is deleted, and its texts count as new.
    """
    if (approximate := contents.approximate) is not None:
        folder = Approximate.folder(index, approximate.number)
        if not all(_is_whole(folder / name, approximate.files) for name in approximate.files):
            contents = replace(contents, approximate=None)
    parts = []
    for part in contents.parts:
        folder = part_folder(index, part.number)
        whole = {name for name in part.files if _is_whole(folder / name, part.files)}
        if whole == {*part.files}:
            parts.append(part)
        elif whole & _TEXT_FILES:
            batches = read_batches(folder) if EMBEDDINGS in whole else _encoded_again(index, contents, part, encode)
            language, dims = part.language, contents.embeddings
            parts.append(write_part(index, _next(index), language, dims, batches, is_loose=part.is_loose))
            counts["mended"] += part.rows
        else:
            counts["lost"] += part.rows
            if folder.exists():
                folder.rename(index / f"damaged-{_next(index):05d}")
    if counts["lost"]:
        return _renumbered(index, replace(contents, parts=tuple(parts)))
    if counts["mended"]:
        contents = replace(contents, parts=tuple(parts), approximate=None)
        write_contents(index, contents)
    return contents


def _is_whole(path: Path, files: Mapping[str, str]) -> bool:
    try:
        checked_file(path, files)
    except DamagedError as error:
        _LOG.warning("%s", error)
        return False
    return True


def _encoded_again(index: Path, contents: Contents, part: Part, encode: Encode) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of which the texts are whole."""
    for batch in read_texts(index, part).to_batches(_PART_TEXTS):
        vectors = encode(batch.column("text").to_pylist(), part.language)
        columns = [*batch.columns, *(vectors_array(vectors[name]) for name in contents.embeddings)]
        yield pa.RecordBatch.from_arrays(columns, schema=part_schema(contents.embeddings))


def _known(index: Path, contents: Contents) -> set[tuple[str | None, bytes]]:
    """Return the language and key of every text of the index."""
    return {
        (part.language, bytes.fromhex(key))
        for part in contents.parts
        for key in read_texts(index, part)["text_key"].to_pylist()
    }


def _new_blocks(
    texts: Iterable[Text],
    known: set[tuple[str | None, bytes]],
    counts: dict[str, int],
    advance: Callable[[int], object],
) -> Iterator[list[tuple[str, Text]]]:
    """Yield new texts with their keys, each once, in blocks; count what was read."""

    def new() -> Iterator[tuple[str, Text]]:
        for one in texts:
            counts["read"] += 1
            advance(1)
            key = text_key(one.text)
            identity = one.language, bytes.fromhex(key)
            if identity not in known:
                known.add(identity)
                counts["new"] += 1
                yield key, one

    found = new()
    while block := list(islice(found, _PART_TEXTS)):
        yield block


def _with_block(
    index: Path,
    contents: Contents,
    encode: Encode,
    block: list[tuple[str, Text]],
    embeddings: Collection[str] | None,
) -> Contents:
    """Store new texts, a part for each language."""
    by_language = sorted(enumerate(block, contents.rows), key=lambda item: item[1][1].language or "")
    for _, group in groupby(by_language, key=lambda item: item[1][1].language):
        rows = list(group)
        language = rows[0][1][1].language
        texts = [one.text for _, (_, one) in rows]
        vectors = encode(texts, language)
        dims = {name: matrix.shape[1] for name, matrix in vectors.items() if embeddings is None or name in embeddings}
        contents = replace(contents, embeddings=contents.embeddings or dims)
        columns = [
            pa.array([row for row, _ in rows], pa.int64()),
            pa.array([key for _, (key, _) in rows], pa.string()),
            pa.array(texts, pa.string()),
            pa.array([language] * len(rows), pa.string()),
            *(vectors_array(vectors[name]) for name in contents.embeddings),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=part_schema(contents.embeddings))
        part = write_part(index, _next(index), language, contents.embeddings, [batch], is_loose=True)
        contents = replace(contents, parts=(*contents.parts, part))
    write_contents(index, contents)
    return contents


# --- parts ------------------------------------------------------------------------------------------------


def joined(index: Path, contents: Contents) -> Contents:
    """Join the parts of each language to one, if many texts or parts are loose."""
    loose = [part for part in contents.parts if part.is_loose]
    if sum(part.rows for part in loose) * _LOOSE_SHARE <= contents.rows and len(loose) <= _LOOSE_PARTS:
        return contents
    parts = []
    for language in dict.fromkeys(part.language for part in contents.parts):
        same = [part for part in contents.parts if part.language == language]
        parts.append(replace(same[0], is_loose=False) if len(same) == 1 else _join(index, contents, same))
    return replace(contents, parts=tuple(parts), approximate=None)


def _with_engine(index: Path, contents: Contents) -> Contents:
    """Make the index of faiss that is wanted, if it is missing; it has all texts but those of loose parts."""
    engine = wanted_engine(contents.engine, contents.rows)
    made = None if contents.approximate is None else contents.approximate.engine
    if engine == "exact" or not contents.rows:
        return replace(contents, approximate=None)
    if made == engine:
        return contents
    return replace(contents, approximate=write_approximate(index, contents, engine, _next(index)))


def _join(index: Path, contents: Contents, parts: Sequence[Part]) -> Part:
    batches = (batch for part in parts for batch in read_batches(part_folder(index, part.number)))
    return write_part(index, _next(index), parts[0].language, contents.embeddings, batches, is_loose=False)


def _renumbered(index: Path, contents: Contents) -> Contents:
    """Close the gaps between the rows of all parts, where parts were lost."""
    stored = [read_texts(index, part)["row"].to_numpy() for part in contents.parts]
    order = np.sort(np.concatenate([*stored, np.empty(0, np.int64)]))
    parts = []
    for part in contents.parts:
        batches = (
            batch.set_column(0, "row", pa.array(np.searchsorted(order, batch.column(0).to_numpy())))
            for batch in read_batches(part_folder(index, part.number))
        )
        parts.append(write_part(index, _next(index), part.language, contents.embeddings, batches, is_loose=True))
    return replace(contents, parts=tuple(parts), approximate=None)


def _next(index: Path) -> int:
    """Return a number that no folder has, not even one that is left of a killed run, or damaged."""
    return 1 + max((int(path.name[-5:]) for path in index.glob(f"*-{_DIGITS}")), default=0)


def _remove_others(index: Path, contents: Contents) -> None:
    """Remove parts that belong to the index no longer, and what killed runs left."""
    kept = {part_folder(index, part.number) for part in contents.parts}
    if contents.approximate is not None:
        kept.add(Approximate.folder(index, contents.approximate.number))
    for path in _parts_in(index) - kept:
        remove_path(path)


def _parts_in(index: Path) -> set[Path]:
    """Return the folders of parts and of faiss, whether they belong to the index or not."""
    parts = {path for path in index.glob(f"part-{_DIGITS}") if any((path / name).is_file() for name in _TEXT_FILES)}
    return parts | {path for path in index.glob(f"faiss-{_DIGITS}") if any(path.glob("*.faiss"))}
