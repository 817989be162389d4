"""Embed texts by a table of hashed words, with numpy alone: a head such as `lexicon` after its training.

A text is split into its distinct words, a word is the sum of rows of the table (`methods.modules.word_rows`), and a
text is the sum of its words, split into parts such as `template` and `residual`. The rows that training has seen are
stored as integers of 4 or 8 bits with a scale each; any other row is random and made from its number.

    model = StaticModel.load("FOLDER")
    model.encode(["wake me up at nine"], "template")  # float32 [1, dim]

Neither torch, scipy or pyarrow nor anything that imports them is imported here.
"""

import hashlib
import threading
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disent_core.embedding_names import (
    MEANING,
    ByEmbedding,
    asked_name,
    embedding_of,
    is_vectors,
    plain_word,
    require_no_name,
)
from disent_core.errors import Notice
from disent_core.methods.modules.word_rows import TABLE_ROWS, random_rows, rows_of_word, words_of
from disent_core.progress import text_bar
from disent_core.static_folder import Header, content_of, read, write
from disent_core.text import iterable_texts, require_batch_size, require_text, require_unicode

CACHED_WORDS = 1 << 16
"""Most words whose vectors are cached: 64 MB at 256 dimensions. All are dropped when there are more."""
_CHARACTERS = 32
"""Most characters of the cached chunks, per word that may be cached: a chunk can be long."""
_LARGEST_SCALE = 65_504  # of float16
_NEW_WORDS = 1024  # words whose rows are unpacked at once
_BLOCK_CHARACTERS = 1 << 18  # of texts embedded at once, which bounds the words whose vectors are computed

TRAINED_SHARE = 0.92
"""Mean share of trained rows below which `encode` warns. In `small`, texts of its five languages have 0.96 or more, be
they requests, news or captions; those of other languages have 0.27 to 0.89."""
_FEW = 16  # texts up to which a mean says too little to warn


class UnseenTextWarning(Notice):
    """Many words of the texts were not trained: the texts are in other languages, or about other things."""


class StaticModel:
    """A table of hashed words as a model: texts in, unit vectors out. `StaticModel.load` returns one.

    The vector of a text is the same to the bit alone and among others, whatever was embedded before. A text of nothing
    but white space has the vector 0. Threads may share a model.

    Attributes:
        names: names of its embeddings, `meaning` first; the others are parts of it. Heads call them `embeddings`.
        dim: dimensions of the meaning.
        widths: dimensions of each embedding.
        languages: those that it was trained on; in `disent.Model`, those that must be named with a text. Here the
            language of a text need not be known.
        description: what was trained, on what, under what licence; see `static_folder`.
        header: its properties in numbers, and all of the above.
        path: its folder; None if it was not loaded.
        fingerprint: SHA-256 of its weights as `save` writes them.
    """

    max_length = None
    """Most tokens of a text that count: there is no limit."""
    device = "cpu"

    def __init__(
        self,
        header: Header,
        known: NDArray[np.int64],
        rows: NDArray[Any],
        scales: NDArray[np.float16],
        *,
        cached_words: int = CACHED_WORDS,
    ) -> None:
        """Take rows as they are stored, with `known`, their sorted numbers; `of_table` makes them from floats."""
        self.header = header
        self.widths: dict[str, int] = {MEANING: header.dim, **header.parts}
        self.names: tuple[str, ...] = (MEANING, *header.named_parts)
        self.embeddings = self.names
        self.dim: int = header.dim
        self.languages: tuple[str, ...] = header.languages
        self.description: Mapping[str, Any] = header.description
        self.path: Path | None = None
        self._known, self._rows, self._scales = known, rows, scales
        self._place = np.full(header.table_rows, -1, dtype=np.int32)
        self._place[known] = np.arange(len(known), dtype=np.int32)
        self._words = _Words(header.dim, cached_words)

    def __repr__(self) -> str:
        parts = " + ".join(f"{plain_word(name)} {width}" for name, width in self.header.named_parts.items())
        name, languages = str(self.description.get("name", "unnamed")), ", ".join(self.languages) or "any"
        size = (self._rows.nbytes + self._scales.nbytes) / 1e6
        meaning = " = ".join(filter(None, (f"{MEANING} {self.dim}", parts)))
        what = f"{meaning}; int{self.header.bits}, {size:.1f} MB; languages: {languages}"
        return f"StaticModel({name!r}, {what})"

    @classmethod
    def of_table(
        cls,
        known: ArrayLike,
        table: ArrayLike,
        *,
        parts: Mapping[str, int],
        seed: int,
        table_rows: int = TABLE_ROWS,
        unseen: float = 1.0,
        bits: int = 8,
        languages: Sequence[str] = (),
        description: Mapping[str, Any] | None = None,
    ) -> "StaticModel":
        """Pack a trained table.

        Args:
            known: numbers of the trained rows among `table_rows`, sorted, each once.
            table: those rows, [known, dim].
            parts: name and width of each part of `dim`, in order.
            seed: seed of the rows that are not trained.
            table_rows: number of rows that words are hashed to.
            unseen: norm of the rows that are not trained; 0 leaves them out.
            bits: bits per value, 4 or 8.
            languages: those of the training texts.
            description: see `static_folder`.

        Raises:
            ValueError: if numbers, widths and table do not match.
        """
        numbers, values = np.asarray(known, dtype=np.int64), np.asarray(table, dtype=np.float32)
        header = Header(dict(parts), bits, len(numbers), table_rows, seed, unseen, tuple(languages), description or {})
        header.check()
        if values.shape != (len(numbers), header.dim):
            raise ValueError(f"{len(numbers)} known rows of {dict(parts)} need a table of {(len(numbers), header.dim)}")
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= table_rows or (np.diff(numbers) <= 0).any()):
            raise ValueError(f"known rows must be sorted numbers from 0 to {table_rows - 1}, each once")
        if not np.isfinite(values).all():
            raise ValueError("the table has values that are not finite; train it again with a lower learning rate")
        return cls(header, numbers, *_packed(values, bits))

    @classmethod
    def load(cls, folder: str | Path) -> "StaticModel":
        """Load a model from its folder. Its files are data; no code of it is run.

        Raises:
            DamagedError: if there is no model, or it is not as it was written; the message names file and remedy.
        """
        path = Path(folder).expanduser()
        header, known, rows, scales, sha256 = read(path)
        model = cls(header, known, rows, scales)
        model.path, model.fingerprint = path, sha256
        return model

    @cached_property
    def fingerprint(self) -> str:
        weights = content_of(self.header, self._known, self._rows, self._scales)
        return hashlib.sha256(weights).hexdigest()

    def has_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each row of the table is stored, [numbers]; the others are random."""
        return self._place[numbers] >= 0

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return rows of the table, stored ones and random ones, [numbers, dim]."""
        place = self._place[numbers]
        is_known = place >= 0
        rows = np.zeros((len(numbers), self.dim), dtype=np.float32)
        rows[is_known] = _unpacked(
            self._rows[place[is_known]], self._scales[place[is_known]], self.header.bits, self.dim
        )
        if self.header.unseen:
            others = random_rows(numbers[~is_known], self.dim, self.header.seed)
            rows[~is_known] = others * np.float32(self.header.unseen)
        return rows

    def with_rows(self, numbers: NDArray[np.int64], rows: NDArray[np.float32], language: str) -> "StaticModel":
        """Return a model that stores more rows, for one more language; its present rows stay the same to the bit.

        Args:
            numbers: distinct numbers of the rows, none of which is stored yet.
            rows: [numbers, dim].
            language: its code.
        """
        packed, scales = _packed(rows, self.header.bits)
        known = np.concatenate([self._known, numbers])
        order = np.argsort(known)
        header = replace(self.header, known=len(known), languages=(*self.languages, language))
        return StaticModel(
            header,
            known[order],
            np.concatenate([self._rows, packed])[order],
            np.concatenate([self._scales, scales])[order],
        )

    def described(self, **facts: Any) -> "StaticModel":
        """Return the same model with further facts in its description, which replace those of the same name."""
        header = replace(self.header, description={**self.description, **facts})
        return StaticModel(header, self._known, self._rows, self._scales)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, whole or not at all: weights, `model.json` and a card.

        Raises:
            ValueError: if the folder has files other than those of such a model.
        """
        write(Path(folder).expanduser(), self.header, self._known, self._rows, self._scales)

    def encode(
        self,
        texts: str | Iterable[str],
        name: str | None = None,
        *,
        normalize: bool = True,
        batch_size: int = 1024,
        show_progress: bool = False,
        embedding: str | None = None,
        language: str | None = None,
    ) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: one text, or several as a list, an array or any other iterable.
            name: one of `names`, or `shape` for the template and `values` for the residual; None: the meaning.
            normalize: return unit vectors, which the trained heads of `disent.Model` do only if asked; False: the sums
                of the words' vectors, whose parts differ in length.
            batch_size: number of texts embedded at once.
            show_progress: show on stderr how many are done, and the time left.
            embedding: the same as `name`.
            language: of the texts, one of `languages`, which trained heads of `disent.Model` may need; the vectors do
                not depend on it.

        Returns:
            float32 [dim] for one text, [texts, dim] for several, in order.

        Raises:
            ValueError: if there is no such embedding or language, a text is not a str, or has half of a surrogate pair.
        """
        chosen = self._embedding(asked_name(name, embedding))
        self._check_language(language)
        listed = [texts] if isinstance(texts, str) else texts
        vectors = self._encoded(listed, (chosen,), normalize, batch_size, show_progress)[chosen]
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_all(
        self,
        texts: Iterable[str],
        *,
        normalize: bool = True,
        batch_size: int = 1024,
        show_progress: bool = False,
        language: str | None = None,
    ) -> dict[str, NDArray[np.float32]]:
        """Embed texts by every embedding, adding up the rows of words only once.

        Arguments and errors are those of `encode`, but a single text is refused. Returns a matrix for each of `names`,
        and for `shape` and `values`, float32 [texts, dim].
        """
        self._check_language(language)
        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts, not one text")
        return self._encoded(texts, self.names, normalize, batch_size, show_progress)

    def _encoded(
        self, texts: Iterable[str], names: Sequence[str], normalize: bool, batch_size: int, show_progress: bool
    ) -> dict[str, NDArray[np.float32]]:
        require_batch_size(batch_size)
        blocks = _blocks(iterable_texts(texts), batch_size)
        if show_progress:
            blocks = _shown(blocks, len(texts) if isinstance(texts, Sequence | np.ndarray) else None)
        matrices = {name: [np.empty((0, self.widths[name]), dtype=np.float32)] for name in names}
        for block in blocks:
            sums = self._sums(block)
            for name, rows in matrices.items():
                rows.append(self._vectors_of(sums, name, normalize))
        return ByEmbedding({name: np.concatenate(rows) for name, rows in matrices.items()})

    def trained_share(self, texts: str | Iterable[str]) -> NDArray[np.float32]:
        """Return the share of trained rows of each text, a mean over its words, float32 [texts].

        It is near 1 in the languages of the model. If it is far lower, a text is in another language, or about other
        things, and search results for it are less reliable. A text without words has 0.

        Raises:
            ValueError: as `encode`.
        """
        words, shares = self._words, [np.empty(0, dtype=np.float32)]
        for block in _blocks(iterable_texts([texts] if isinstance(texts, str) else texts), 1024):
            with words.lock:
                bags = words.bags(block)
                words.vectors_of_new(self._vectors)
                shares.append(_shares(words.shares, bags))
        return np.concatenate(shares)

    def similarity(
        self,
        left: str | Iterable[str] | NDArray[np.floating],
        right: str | Iterable[str] | NDArray[np.floating],
        name: str | None = None,
        *,
        embedding: str | None = None,
        language: str | None = None,
    ) -> NDArray[np.float32]:
        """Compare all with all by cosine.

        Args:
            left: n texts, or their vectors [n, dim].
            right: m texts, or their vectors [m, dim].
            name: the embedding of texts, as in `encode`; not for vectors alone, which leave no choice.
            embedding: the same as `name`.
            language: as in `encode`.

        Returns:
            float32 [n, m]; a single text or vector counts as n = 1.
        """
        chosen = asked_name(name, embedding)
        require_no_name(chosen, left, right)
        self._check_language(language)
        first, second = (self._rows_of(side, chosen) for side in (left, right))
        if first.shape[1] != second.shape[1]:
            raise ValueError(f"vectors of {first.shape[1]} and {second.shape[1]} dimensions can't be compared")
        return first @ second.T

    def _rows_of(self, side: Any, name: str | None) -> NDArray[np.float32]:
        if is_vectors(side):
            rows = np.atleast_2d(side).astype(np.float32)
            return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
        return np.atleast_2d(self.encode(side, name))

    def _embedding(self, name: str | None) -> str:
        return embedding_of(name, self.names, "this model", had_slots=bool(self.header.named_parts))

    def _check_language(self, language: str | None) -> None:
        if language is not None and self.languages and language not in self.languages:
            known = ", ".join(self.languages)
            raise ValueError(f"this model was trained on {known}, not {language!r}; it needs no language=")

    def _sums(self, block: "_Block") -> NDArray[np.float32]:
        words = self._words
        with words.lock:
            bags = words.bags(block)
            words.vectors_of_new(self._vectors)
            sums = _sums(words.vectors, bags)
            shares = _shares(words.shares, bags) if block.first == 1 and len(block.texts) > _FEW else None
        if shares is not None and len(self._known) and (share := float(shares.mean())) < TRAINED_SHARE:
            languages = ", ".join(self.languages) or "those that it was trained on"
            message = (
                f"{share:.2f} of the rows of these texts' words were trained; in the model's languages ({languages}) "
                "nearly all are. What is found among them is less reliable; disent train --extend adds a language"
            )
            warnings.warn(message, UnseenTextWarning, stacklevel=4)
        return sums

    def _vectors_of(self, sums: NDArray[np.float32], name: str, normalize: bool) -> NDArray[np.float32]:
        """Return an embedding of texts from the sums of their words' vectors, [texts, dim]."""
        start, parts = 0, []
        for part, width in self.header.parts.items():
            if name in (part, MEANING):
                parts.append(sums[:, start : start + width])
            start += width
        if normalize:
            parts = [_unit(part) * np.float32(len(parts) ** -0.5) for part in parts]
        return np.concatenate(parts, axis=1)

    def _vectors(self, words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the sums of the rows of words, each in the order of its rows, [words, dim], and the trained shares."""
        lists = [rows_of_word(word, self.header.table_rows) for word in words]
        numbers, order = np.unique(np.fromiter(chain.from_iterable(lists), np.int64), return_inverse=True)
        rows = self.rows_of(numbers)
        bags = _Bags(order, np.fromiter(map(len, lists), np.int64, len(lists)))
        return _sums(rows, bags), _shares(self.has_rows(numbers).astype(np.float32), bags)


class _Bags(NamedTuple):
    """Lists of numbers one after another, and their lengths."""

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]


class _Block(NamedTuple):
    """Texts embedded at once, and the number of the first of them, from 1."""

    texts: list[str]
    first: int


class _Words:
    """Cached vectors of words, and the words of each chunk, the text between two stretches of white space.

    The words of a chunk do not depend on the text, with one exception: a text without any letter or digit is one word.
    """

    def __init__(self, dim: int, most: int) -> None:
        self.dim, self.most = dim, most
        self.lock = threading.Lock()
        self.drop()

    def __reduce__(self) -> tuple[type, tuple[int, int]]:  # a copy of a model, or one in another process, starts empty
        return type(self), (self.dim, self.most)

    def drop(self) -> None:
        self.numbers: dict[str, int] = {}
        self.chunks: dict[str, tuple[int, ...]] = {}
        self.characters = 0
        self.summed = 0
        self.vectors = np.empty((1024, self.dim), dtype=np.float32)
        self.shares = np.empty(1024, dtype=np.float32)

    def bags(self, block: _Block) -> _Bags:
        """Return the numbers of the distinct words of each text, in the order in which they first occur."""
        if len(self.numbers) > self.most or self.characters > self.most * _CHARACTERS:
            self.drop()
        chunks, bags = self.chunks, []
        for number, text in enumerate(block.texts, block.first):
            listed = [chunks.get(chunk) for chunk in text.split()]
            if None in listed:
                require_unicode(text, number)
                listed = [self._chunk(chunk) for chunk in text.split()]
            bag = tuple(dict.fromkeys(chain.from_iterable(listed)))  # pyright: ignore[reportArgumentType]
            if not bag and listed:
                bag = tuple(self._number(word) for word in words_of(text))
                self.characters += len(text)
            bags.append(bag)
        lengths = np.fromiter(map(len, bags), np.int64, len(bags))
        return _Bags(np.fromiter(chain.from_iterable(bags), np.int64, int(lengths.sum())), lengths)

    def _chunk(self, chunk: str) -> tuple[int, ...]:
        numbers = self.chunks.get(chunk)
        if numbers is None:
            words = list(words_of(chunk))
            # Without letters `words_of` takes the chunk as a word, which it is only if the whole text has none.
            has_letters = bool(words) and unicodedata.category(words[0][0])[0] in "LMN"
            numbers = self.chunks[chunk] = tuple(self._number(word) for word in words) if has_letters else ()
            self.characters += len(chunk)
        return numbers

    def _number(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers))

    def vectors_of_new(self, vectors_of: Any) -> None:
        """Compute the vectors and shares of words that have none yet; `vectors_of` does so for a list of words."""
        count = len(self.numbers)
        if self.summed == count:
            return
        if count > len(self.vectors):
            size = max(count, 2 * len(self.vectors))
            self.vectors = _grown(self.vectors, self.summed, size)
            self.shares = _grown(self.shares, self.summed, size)
        new = list(islice(self.numbers, self.summed, None))
        for start in range(0, len(new), _NEW_WORDS):
            vectors, shares = vectors_of(new[start : start + _NEW_WORDS])
            self.vectors[self.summed : self.summed + len(vectors)] = vectors
            self.shares[self.summed : self.summed + len(vectors)] = shares
            self.summed += len(vectors)


def _grown(rows: NDArray[np.float32], used: int, size: int) -> NDArray[np.float32]:
    grown = np.empty((size, *rows.shape[1:]), dtype=np.float32)
    grown[:used] = rows[:used]
    return grown


def _shares(values: NDArray[np.float32], bags: _Bags) -> NDArray[np.float32]:
    """Return the mean of the values that each list refers to, [lists]; 0 for an empty list."""
    owners = np.repeat(np.arange(len(bags.lengths)), bags.lengths)
    sums = np.bincount(owners, weights=values[bags.numbers], minlength=len(bags.lengths))
    return (sums / np.maximum(bags.lengths, 1)).astype(np.float32)


def _sums(vectors: NDArray[np.float32], bags: _Bags) -> NDArray[np.float32]:
    """Sum the vectors that each list refers to, [lists, dim], in the order of that list whatever the others are."""
    lengths = bags.lengths
    order = np.argsort(-lengths, kind="stable")  # the lists that have a j-th number are the first ones, for every j
    starts = (np.cumsum(lengths) - lengths)[order]
    sums = np.zeros((len(lengths), vectors.shape[1]), dtype=np.float32)
    longest = int(lengths.max(initial=0))
    having = np.searchsorted(-lengths[order], -np.arange(longest), side="left")
    for position, count in enumerate(having):
        sums[:count] += vectors[bags.numbers[starts[:count] + position]]
    restored = np.empty_like(sums)
    restored[order] = sums
    return restored


def _unit(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide rows by their norms; a row of zeros stays zero."""
    part = np.ascontiguousarray(part)
    norms = np.sqrt((part * part).sum(axis=1, keepdims=True))
    return part / np.maximum(norms, np.float32(1e-12))


def _packed(table: NDArray[np.float32], bits: int) -> tuple[NDArray[Any], NDArray[np.float16]]:
    """Round rows to integers of 4 or 8 bits, two or one per byte, and return them with the scales of the rows."""
    top = 2 ** (bits - 1) - 1
    largest = np.abs(table).max(axis=1, initial=0).clip(1e-4)
    if largest.max(initial=0) > top * _LARGEST_SCALE:
        raise ValueError(f"the table has values above {top * _LARGEST_SCALE:,.0f}, too large for a scale of float16")
    scales = (largest / top).astype(np.float16)
    rounded = np.rint(table / scales.astype(np.float32)[:, None]).clip(-top, top).astype(np.int8)
    if bits == 8:
        return rounded, scales
    halves = np.zeros((len(table), table.shape[1] + table.shape[1] % 2), dtype=np.uint8)
    halves[:, : table.shape[1]] = rounded + 8  # 1 to 15
    return halves[:, 0::2] | (halves[:, 1::2] << 4), scales  # the even column in the low half


def _unpacked(rows: NDArray[Any], scales: NDArray[np.float16], bits: int, dim: int) -> NDArray[np.float32]:
    """Return stored rows as floats, [rows, dim]."""
    values = rows.astype(np.float32) if bits == 8 else np.empty((len(rows), 2 * rows.shape[1]), dtype=np.float32)
    if bits == 4:
        values[:, 0::2], values[:, 1::2] = rows & 15, rows >> 4
        values -= 8
    return values[:, :dim] * scales.astype(np.float32)[:, None]


def _blocks(texts: Iterable[str], size: int) -> Iterator[_Block]:
    """Yield texts in blocks of `size`, or fewer if they are long."""
    block, characters, first = [], 0, 1
    for number, text in enumerate(texts, 1):
        require_text(text, number)
        block.append(text)
        characters += len(text)
        if len(block) == size or characters > _BLOCK_CHARACTERS:
            yield _Block(block, first)
            block, characters, first = [], 0, number + 1
    if block:
        yield _Block(block, first)


def _shown(blocks: Iterator[_Block], total: int | None) -> Iterator[_Block]:
    with text_bar(total) as bar:
        for block in blocks:
            yield block
            bar.update(len(block.texts))
