"""Index texts as sparse n-gram matrices, in which the product of two rows counts their clipped matches.

Repeated n-grams of a text get different columns: the second "the" has a different column from the first. Two binary
rows then share min(count, count) columns, the clipped matches of BLEU, and `X @ X.T` has them for all pairs of texts.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int, Int64


@dataclass(frozen=True)
class Numbered:
    """Texts one after another, as token numbers in order of first occurrence."""

    tokens: Int64[np.ndarray, " tokens"]
    lengths: Int64[np.ndarray, " texts"]

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: Int64[np.ndarray, " some"]) -> "Numbered":
        """Select texts by ascending rows; together they must contain every token."""
        is_taken = np.zeros(len(self), np.bool_)
        is_taken[rows] = True
        return Numbered(self.tokens[np.repeat(is_taken, self.lengths)], self.lengths[rows])


def numbered(texts: Iterable[Sequence[str]]) -> Numbered:
    """Number the tokens of texts, holding one text at a time."""
    vocabulary: dict[str, int] = {}
    number, lengths = vocabulary.setdefault, array("q")

    def flat() -> Iterator[int]:
        for text in texts:
            lengths.append(len(text))
            for token in text:
                yield number(token, len(vocabulary))

    tokens = np.fromiter(flat(), np.int64)
    return Numbered(tokens, np.array(lengths, np.int64))


@dataclass(frozen=True)
class NgramIndex:
    lengths: Int64[np.ndarray, " texts"]  # tokens of each text
    # For order 1, 2, ... a binary CSR matrix, texts x numbered n-grams, with columns from rare to frequent, without
    # columns of a single text.
    orders: tuple[sp.csr_array, ...]


def index_ngrams(texts: Numbered, order: int) -> NgramIndex:
    """Index all n-grams up to `order`, in O(tokens log tokens) time and O(tokens) memory."""
    lengths, token = texts.lengths, texts.tokens
    distinct = int(token.max(initial=-1)) + 1
    row = np.repeat(np.arange(len(texts)), lengths)
    end = np.cumsum(lengths)[row]
    # `gram` numbers the n-gram that starts at position `at` of the flat list of tokens.
    gram, at = token, np.arange(len(token))
    orders = []
    for n in range(1, order + 1):
        if n > 1:
            # An n-gram can only recur where its first n - 1 tokens do.
            can_recur = (at + n <= end[at]) & (np.bincount(gram)[gram] > 1)
            at, gram = at[can_recur], gram[can_recur]
            _, gram = np.unique(gram * distinct + token[at + n - 1], return_inverse=True)
        orders.append(_matrix(row[at], gram, len(texts)))
    return NgramIndex(lengths, tuple(orders))


def _matrix(row: Int64[np.ndarray, " grams"], gram: Int64[np.ndarray, " grams"], texts: int) -> sp.csr_array:
    """Build the binary matrix texts x numbered n-grams, without columns of a single text."""
    if not len(gram):
        return sp.csr_array((texts, 0), dtype=np.int32)
    width = int(gram.max()) + 1
    # One cell per text and n-gram, with its count; then one numbered n-gram per occurrence within the text.
    cell, count = np.unique(row * width + gram, return_counts=True)
    occurrence = np.arange(len(gram)) - np.repeat(np.cumsum(count) - count, count)
    numbered = np.repeat(cell % width, count) * int(count.max()) + occurrence
    row = np.repeat(cell // width, count)
    _, column, frequency = np.unique(numbered, return_inverse=True, return_counts=True)
    # Rank columns by their number of texts; columns of a single text get negative ranks and are dropped.
    by_frequency = np.argsort(frequency, kind="stable")
    singles = int((frequency == 1).sum())
    rank = np.empty_like(by_frequency)
    rank[by_frequency] = np.arange(len(rank)) - singles
    shared = frequency[column] > 1
    row, column = row[shared], rank[column[shared]]
    pointers = np.zeros(texts + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=texts), out=pointers[1:])
    content = (np.ones(len(row), np.int32), column.astype(np.int32), pointers.astype(np.int32))
    matrix = sp.csr_array(content, shape=(texts, len(frequency) - singles))
    matrix.sort_indices()
    return matrix


def first_columns(matrix: sp.csr_array, counts: Int[np.ndarray, " rows"]) -> sp.csr_array:
    """Keep the first `counts` columns of each row (its rarest n-grams)."""
    sizes = np.diff(matrix.indptr)
    position = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], sizes)
    kept: Bool[np.ndarray, " values"] = position < np.repeat(counts, sizes)
    pointers = np.concatenate([[0], np.cumsum(np.minimum(sizes, counts))]).astype(np.int32)
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)


def matches(
    matrix: sp.csr_array, left: Int[np.ndarray, " pairs"], right: Int[np.ndarray, " pairs"]
) -> Int[np.ndarray, " pairs"]:
    return np.diff(matrix[left].multiply(matrix[right]).indptr)


def blocks(costs: Int[np.ndarray, " items"], budget: int) -> Iterator[slice]:
    """Yield consecutive slices, each with a total cost of at most `budget`, or with a single item."""
    total = np.cumsum(costs)
    start, spent = 0, 0
    while start < len(costs):
        stop = max(int(np.searchsorted(total, spent + budget, side="right")), start + 1)
        yield slice(start, stop)
        start, spent = stop, int(total[stop - 1])
