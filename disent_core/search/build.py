"""Add texts to an index, and build a faiss index beside it.

A killed run keeps the parts that it has written; the same command continues after them.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64

from disent_core.embeddings.arrays import KEY, positions
from disent_core.errors import DamagedError, TableError, located
from disent_core.evaluation.contract import SearchBackend
from disent_core.evaluation.metrics import approximate_search
from disent_core.evaluation.metrics.approximate_search import FROM_ROWS, NEIGHBOURS, TUNED_ON
from disent_core.search.contents import (
    CONTENTS,
    Approximate,
    Contents,
    EngineChoice,
    HeadRecord,
    Part,
    read_contents,
    write_contents,
)
from disent_core.search.noise import noise_levels
from disent_core.search.parts import (
    DIGITS,
    EMBEDDINGS,
    TEXTS,
    checked_file,
    checksums,
    next_number,
    part_folder,
    part_schema,
    read_batches,
    read_texts,
    record_batch,
    sorted_keys,
    write_part,
)
from disent_core.search.stored import Proposals, StoredIndex
from disent_core.search.texts import Text
from disent_core.storage.files import atomic_path, locked, remove_path
from disent_core.text import text_keys

log = logging.getLogger(__name__)

_PART_TEXTS = 16_384  # new texts encoded before they are stored, the most that a killed run loses
_LOOSE_SHARE, _LOOSE_PARTS = 10, 64
"""Join the parts of a language when a tenth of its texts are in loose parts, or when there are this many of those."""
_SEED, _MEASURED_ON = 0, 200
"""Seed and number of queries for the recall of a faiss index; the effort is chosen on other texts."""
_TEXT_FILES = {EMBEDDINGS, TEXTS}  # files of a part, each of which has all its texts

Encode = Callable[[Sequence[str], str | None], Mapping[str, np.ndarray]]
"""Embed texts of one language: vectors by the name of the embedding."""


@dataclass(frozen=True)
class Added:
    """Result of `add_texts`."""

    read: int  # texts read
    new: int  # texts that the index lacked
    rows: int  # all texts in the index now
    mended: int  # texts of damaged parts, stored again from intact files
    lost: int  # texts of parts without an intact file of texts; `damaged-*` has what is left
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

    Texts may repeat; the same text in another language counts as a different one. Of texts that the index has nothing
    is held in memory, of each new one its key. `encode` must give a text the same vectors in any batch. `embeddings`
    and `engine` default to those of the index, and to all embeddings and `auto` if it is new. `advance` gets the number
    of texts read.
    """
    if engine in ("hnsw", "ivf"):
        import_module("faiss")  # before anything is encoded; if it is missing, the message tells how to install it
    if index.is_dir() and not (index / CONTENTS).exists():
        _require_no_others(index)  # before the lock, which would stay in the folder
    index.mkdir(parents=True, exist_ok=True)
    with locked(index / "index"):
        contents = _contents_of(index, head)
        wanted = contents.embeddings or embeddings
        if embeddings and sorted(embeddings) != sorted(wanted or ()):
            problem = f"this index has the embeddings {', '.join(wanted or ())}"
            raise TableError(located(index, None, problem, "Leave --embedding out, or make a new index"))
        counts = {"read": 0, "new": 0, "mended": 0, "lost": 0}
        contents = _repaired(index, contents, encode, counts)
        new = _new_texts(index, contents, texts, counts, advance)
        while block := list(islice(new, _PART_TEXTS)):
            contents = _with_block(index, contents, encode, block, wanted)
        contents = joined(index, contents)
        write_contents(index, contents)
        contents = _with_engine(index, replace(contents, engine=engine or contents.engine))
        contents = _with_noise(index, contents, encode)
        write_contents(index, contents)
        _remove_others(index, contents)
    return Added(rows=contents.rows, approximate=contents.approximate, **counts)


def _contents_of(index: Path, head: HeadRecord) -> Contents:
    contents = read_contents(index)
    if contents is None:
        _require_no_others(index)
        return Contents(head=head, embeddings={})
    require_head(index, contents, head)
    return replace(contents, head=head if head.places else contents.head)


def _require_no_others(index: Path) -> None:
    if any(not file.name.startswith(".") for file in {*index.iterdir()} - _parts_in(index)):
        raise TableError(located(index, None, "this folder has other files", "Name a new folder"))


def require_head(index: Path, contents: Contents, head: HeadRecord) -> None:
    if not contents.head.is_same(head):
        problem = f"this index was made with another head ({contents.head.title}), not {head.title}"
        if contents.head.title == head.title:
            problem = f"this index was made with another version of {head.title}"
        raise TableError(located(index, None, problem, "Use the head that made it, or make a new index"))


def _repaired(index: Path, contents: Contents, encode: Encode, counts: dict[str, int]) -> Contents:
    """Store damaged parts again, each from its intact files, and rebuild a damaged faiss index.

    A part without intact texts is set aside, so that nothing is deleted, and its texts count as new.
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
            dims = contents.embeddings
            is_encoded = EMBEDDINGS in whole
            batches = read_batches(index, part, dims) if is_encoded else _encoded_again(index, contents, part, encode)
            parts.append(write_part(index, dims, part.language, batches, is_loose=part.is_loose))
            counts["mended"] += part.rows
        else:
            counts["lost"] += part.rows
            if folder.exists():
                folder.rename(index / f"damaged-{next_number(index):05d}")
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
        log.warning("%s", error)
        return False
    return True


def _encoded_again(index: Path, contents: Contents, part: Part, encode: Encode) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part whose texts are intact."""
    for batch in read_texts(index, part).combine_chunks().to_batches(_PART_TEXTS):
        vectors = encode(batch.column("text").to_pylist(), part.language)
        _require_widths(index, contents, vectors)
        yield record_batch(
            part_schema(contents.embeddings), vectors, **dict(zip(batch.schema.names, batch.columns, strict=True))
        )


def _require_widths(index: Path, contents: Contents, vectors: Mapping[str, np.ndarray]) -> None:
    for name, width in contents.embeddings.items():
        if name not in vectors or vectors[name].shape[1] != width:
            problem = f"it has the embedding {name} of {width} numbers, which its head does not give"
            raise TableError(located(index, None, problem, "Make a new index"))


def _new_texts(
    index: Path, contents: Contents, texts: Iterable[Text], counts: dict[str, int], advance: Callable[[int], object]
) -> Iterator[tuple[str, Text]]:
    """Yield the texts that the index lacks, each once, with their keys, and count the texts read."""
    known = KnownKeys((part.language, sorted_keys(index, part)) for part in contents.parts)
    remaining = iter(texts)
    while block := list(islice(remaining, _PART_TEXTS)):
        keys = text_keys(text.text for text in block)
        new = np.flatnonzero(known.add([text.language for text in block], np.array(keys, KEY)))
        counts["read"] += len(block)
        counts["new"] += len(new)
        advance(len(block))
        yield from ((keys[row], block[row]) for row in new)


class KnownKeys:
    """The keys of known texts by language, in sorted arrays: those of parts are mapped, 32 bytes a text are added."""

    def __init__(self, stored: Iterable[tuple[str | None, np.ndarray]]) -> None:
        self._stored: defaultdict[str | None, list[np.ndarray]] = defaultdict(list)
        self._added: defaultdict[str | None, list[np.ndarray]] = defaultdict(list)
        for language, keys in stored:
            self._stored[language].append(keys)

    def add(self, languages: Sequence[str | None], keys: np.ndarray) -> Bool[np.ndarray, " keys"]:
        """Add keys; return which of them are new, of equal ones the first."""
        is_new = np.zeros(len(keys), dtype=bool)
        for language in set(languages):
            rows = np.flatnonzero([of == language for of in languages])
            distinct, first = np.unique(keys[rows], return_index=True)
            added = self._added[language]
            is_known = np.zeros(len(distinct), dtype=bool)
            for other in (*self._stored[language], *added):
                is_known |= positions(other, distinct)[1]
            is_new[rows[first[~is_known]]] = True
            added.append(distinct[~is_known])
            while len(added) > 1 and len(added[-2]) <= 2 * len(added[-1]):  # few arrays, each key sorted a few times
                added[-2:] = [np.sort(np.concatenate(added[-2:]), kind="stable")]
        return is_new


def _with_block(
    index: Path,
    contents: Contents,
    encode: Encode,
    block: list[tuple[str, Text]],
    embeddings: Collection[str] | None,
) -> Contents:
    """Store new texts, one part per language."""
    numbered = [(row, key, text.text, text.language) for row, (key, text) in enumerate(block, contents.rows)]
    for language, group in groupby(sorted(numbered, key=lambda item: item[3] or ""), key=lambda item: item[3]):
        rows, keys, texts, languages = zip(*group, strict=True)
        vectors = encode(list(texts), language)
        dims = {name: matrix.shape[1] for name, matrix in vectors.items() if embeddings is None or name in embeddings}
        contents = replace(contents, embeddings=contents.embeddings or dims)
        _require_widths(index, contents, vectors)
        schema = part_schema(contents.embeddings)
        batch = record_batch(schema, vectors, row=rows, text_key=keys, text=texts, language=languages)
        part = write_part(index, contents.embeddings, language, [batch], is_loose=True)
        contents = replace(contents, parts=(*contents.parts, part))
    contents = replace(contents, unmeasured=contents.unmeasured + len(block))
    write_contents(index, contents)
    return contents


# --- parts ------------------------------------------------------------------------------------------------


def joined(index: Path, contents: Contents) -> Contents:
    """Join the parts of each language into one, if many texts or parts are loose."""
    loose = [part for part in contents.parts if part.is_loose]
    if sum(part.rows for part in loose) * _LOOSE_SHARE <= contents.rows and len(loose) <= _LOOSE_PARTS:
        return contents
    parts = []
    for language in dict.fromkeys(part.language for part in contents.parts):
        same = [part for part in contents.parts if part.language == language]
        parts.append(replace(same[0], is_loose=False) if len(same) == 1 else _join(index, contents, same))
    return replace(contents, parts=tuple(parts), approximate=None)


def _with_engine(index: Path, contents: Contents) -> Contents:
    """Build the chosen faiss index if it is missing, with all texts except those of loose parts."""
    # `auto` is exact search as long as that is fast.
    auto: SearchBackend = "ivf" if contents.rows >= FROM_ROWS and find_spec("faiss") is not None else "exact"
    engine = auto if contents.engine == "auto" else contents.engine
    if engine == "exact" or not contents.rows:
        return replace(contents, approximate=None)
    if contents.approximate is not None and contents.approximate.engine == engine:
        return contents
    return replace(contents, approximate=write_approximate(index, contents, engine, next_number(index)))


def _with_noise(index: Path, contents: Contents, encode: Encode) -> Contents:
    """Measure which cosines mean nothing, so that no search has to; see `noise_levels`."""
    if contents.level is not None or not contents.rows:
        return contents
    stored = StoredIndex(index, contents)

    def nearest(texts: list[str]) -> dict[str, np.ndarray]:
        vectors = encode(texts, stored.languages[0])
        return {name: stored.nearest(vectors[name], name, 1)[0][:, 0] for name in contents.embeddings}

    return replace(contents, noise=noise_levels(nearest), unmeasured=0)


def _join(index: Path, contents: Contents, parts: Sequence[Part]) -> Part:
    batches = (batch for part in parts for batch in read_batches(index, part, contents.embeddings))
    return write_part(index, contents.embeddings, parts[0].language, batches, is_loose=False)


def _renumbered(index: Path, contents: Contents) -> Contents:
    """Close the gaps that lost parts left between the rows of all parts."""
    stored = [read_texts(index, part)["row"].to_numpy() for part in contents.parts]
    order = np.sort(np.concatenate([*stored, np.empty(0, np.int64)]))
    parts = []
    for part in contents.parts:
        batches = (
            batch.set_column(0, "row", pa.array(np.searchsorted(order, batch.column(0).to_numpy())))
            for batch in read_batches(index, part, contents.embeddings)
        )
        parts.append(write_part(index, contents.embeddings, part.language, batches, is_loose=True))
    return replace(contents, parts=tuple(parts), approximate=None, noise=None)


def _remove_others(index: Path, contents: Contents) -> None:
    """Remove parts that no longer belong to the index, and leftovers of killed runs."""
    needed = {part_folder(index, part.number) for part in contents.parts}
    if contents.approximate is not None:
        needed.add(Approximate.folder(index, contents.approximate.number))
    for path in _parts_in(index) - needed:
        remove_path(path)


def _parts_in(index: Path) -> set[Path]:
    """Return the folders of parts and of faiss, whether they belong to the index or not."""
    parts = {path for path in index.glob(f"part-{DIGITS}") if any((path / name).is_file() for name in _TEXT_FILES)}
    return parts | {path for path in index.glob(f"faiss-{DIGITS}") if any(path.glob("*.faiss"))}


# --- faiss ------------------------------------------------------------------------------------------------


def write_approximate(index: Path, contents: Contents, engine: SearchBackend, number: int) -> Approximate:
    """Build a faiss index of every embedding, over all parts, which have at least one text."""
    import faiss

    stored = StoredIndex(index, contents)
    # The effort is chosen on some rows, as queries, and the recall is measured on others.
    drawn = np.random.default_rng(_SEED).permutation(contents.rows)
    few = min(TUNED_ON, contents.rows // 2)
    tuned_on, measured_on = drawn[:few] if few else drawn, drawn[few : few + _MEASURED_ON]
    recalls, efforts = {}, {}
    with atomic_path(Approximate.folder(index, number)) as temporary:
        temporary.mkdir()
        for name, dim in contents.embeddings.items():
            engine_index = approximate_search.build(*stored.distinct(name), dim, engine)
            efforts[name] = approximate_search.tune(engine_index, _recall(stored, name, engine_index, tuned_on))
            recalls[name] = _recall(stored, name, engine_index, measured_on)()
            faiss.write_index(engine_index, str(temporary / f"{name}.faiss"))
        files = checksums(temporary)
    return Approximate(
        number=number,
        engine=engine,
        parts=tuple(part.number for part in contents.parts),
        recall_at_10=recalls,
        queries=len(measured_on),
        effort=efforts,
        files=files,
    )


def _recall(
    stored: StoredIndex, name: str, engine_index: Any, rows: Int64[np.ndarray, " queries"]
) -> Callable[[], float]:
    """Return a function that measures the share of the ten nearest other texts found with the current effort."""
    queries, keys = stored.units(name, rows), [key.decode() for key in stored.keys[rows]]
    exact, _ = stored.nearest(queries, name, NEIGHBOURS, without=keys, is_exact=True)
    proposals = Proposals(engine_index, frozenset(part.number for part in stored.contents.parts))

    def recall() -> float:
        scores, _ = stored.nearest(queries, name, NEIGHBOURS, without=keys, proposals=proposals)
        kept = [expected[np.isfinite(expected)] for expected in exact]
        pairs = [(row, expected) for row, expected in zip(scores, kept, strict=True) if len(expected)]
        return approximate_search.recall_of(*zip(*pairs, strict=True)) if pairs else 1.0

    return recall
