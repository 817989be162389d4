"""The data that methods train on: memory-mapped matrices, addressed by row.

Rows are numbered consecutively over the vector tables of all languages, so that a batch of a mixture of language pairs
is one gather. Nothing here creates a Python object per text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from disent_core.embeddings.arrays import SCALE
from disent_core.embeddings.store import StateTable, VectorTable, encoded_tables
from disent_core.encoders.contract import Encoder, EncoderFiles
from disent_core.encoders.tokens import padded_widths
from disent_core.errors import TrainingError
from disent_core.text import text_keys
from disent_core.training.needs import SIDES

Batch = dict[str, Tensor]
"""Tensors by name (`source_vectors`, `target_states`, ...), each with one row per pair (or per text)."""


def no_pairs(languages: Sequence[str]) -> TrainingError:
    if len(languages) == 1:
        remedy = "Give the method pairs of its own, without this one"
        return TrainingError(f"{languages[0]} is one language, and the method trains on pairs of two. {remedy}")
    return TrainingError(f"there is no training pair of {'+'.join(languages)}. Check the partitions of the corpus")


_SHORT_RUN = 64
"""Least length of a run of rows from one matrix that is gathered separately."""


class VectorBank:
    """Matrices stacked row-wise, without a copy unless they move to another device.

    `order` maps rows of the bank to stacked rows; None: the identity. Rows of 8 bits are `embeddings.arrays.packed`.
    """

    def __init__(self, parts: Sequence[Num[Tensor, "_ _"]], order: Int[Tensor, " rows"] | None = None) -> None:
        self.parts, self.order = list(parts), order
        self.starts = torch.tensor([0, *accumulate(len(part) for part in parts)])

    @property
    def dim(self) -> int:
        return self.parts[0].shape[1] - SCALE.itemsize * self.is_packed

    @property
    def is_packed(self) -> bool:
        return self.parts[0].dtype == torch.int8

    def to(self, device: str) -> "VectorBank":
        """Return the bank on a device; on a GPU, as one matrix, because gathering from one is faster."""
        if device == "cpu":
            return self
        order = None if self.order is None else self.order.to(device)
        return VectorBank([torch.cat([part.to(device) for part in self.parts])], order)

    def take(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        return self.stored(rows).float()

    def stored(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return rows in the type that they are stored in, packed ones in half precision."""
        values = self._stacked(rows if self.order is None else self.order[rows])
        if not self.is_packed:
            return values
        return values[:, : self.dim] * values[:, self.dim :].contiguous().view(torch.float16)

    def _stacked(self, rows: Int[Tensor, " rows"]) -> Num[Tensor, "rows _"]:
        if len(self.parts) == 1:
            return self.parts[0].index_select(0, rows)
        # Gather runs of rows from one matrix: a batch has one language per side, or a few runs of sorted texts.
        part_of = torch.bucketize(rows, self.starts[1:], right=True)
        matrices, counts = part_of.unique_consecutive(return_counts=True)
        if len(counts) > max(len(self.parts), len(rows) // _SHORT_RUN):
            order = part_of.argsort(stable=True)
            return self._stacked(rows[order]).index_select(0, order.argsort())
        gathered = self.parts[0].new_empty(len(rows), self.parts[0].shape[1])
        runs = zip(matrices.tolist(), rows.split(counts.tolist()), gathered.split(counts.tolist()), strict=True)
        for matrix, of_run, into in runs:
            torch.index_select(self.parts[matrix], 0, of_run - self.starts[matrix], out=into)
        return gathered


@dataclass(frozen=True)
class StateBank:
    """Ragged token states of texts: text i has the rows `begin[i]` to `begin[i] + length[i]` of `values`."""

    values: VectorBank
    begin: Int[Tensor, " texts"]
    length: Int[Tensor, " texts"]

    def to(self, device: str) -> "StateBank":
        return StateBank(self.values.to(device), self.begin.to(device), self.length.to(device))

    def take(
        self, rows: Int[Tensor, " rows"], width: int | None = None, *, as_stored: bool = False
    ) -> tuple[Float[Tensor, "rows length dim"], Bool[Tensor, "rows length"]]:
        """Return states padded to `width` or to the longest of these texts, and a mask of the real tokens.

        Padding repeats a text's first state, to read no other memory; attention must mask it.
        """
        length = self.length[rows]
        if width is None:
            width = int(length.max()) if len(rows) else 0
        steps = torch.arange(width, device=length.device)
        mask = steps < length.unsqueeze(1)
        positions = self.begin[rows].unsqueeze(1) + torch.where(mask, steps, 0)
        states = self.values.stored(positions.flatten()).view(*mask.shape, self.values.dim)
        return states if as_stored else states.float(), mask


def ragged_positions(begin: Int[Tensor, " texts"], length: Int[Tensor, " texts"]) -> tuple[Tensor, Tensor]:
    """Return the positions of the items of ragged texts, and where each text starts (and all end) once concatenated."""
    starts = torch.nn.functional.pad(length.cumsum(0), (1, 0))
    # Item k of the result is item k - starts[i] of text i, which begins at begin[i].
    return (begin - starts[:-1]).repeat_interleave(length) + torch.arange(int(starts[-1]), device=length.device), starts


GROUP_ENDS = (0.3, 0.55, 0.78, 0.94)
"""Ends, as shares of a batch's texts, of the groups of similar length within which texts are padded.

Groups of longer texts are smaller, because only a few texts are long: on MASSIVE 0.2 of the tokens are padding, against
0.5 with four equal groups.
"""


def grouped_states(bank: StateBank, rows: Int[Tensor, "seeds texts"], widths: Sequence[int] | None = None) -> Batch:
    """Return the token states of a batch, padded in groups of similar length.

    `order` has the texts from shortest to longest, `place` the position of each text in that order. Each group g of
    that order has `states_g` [seeds, group, length, dim], as stored, and `mask_g`. Without the `group_widths` as
    `widths`, lengths are read, for which the CPU waits for the GPU.
    """
    order = bank.length[rows].argsort(dim=1, stable=True)
    # The argsort of a permutation is its inverse.
    batch = {"order": order, "place": order.argsort(dim=1)}
    ends = _group_ends(rows.shape[1])[:-1]
    for group, chosen in enumerate(rows.gather(1, order).tensor_split(ends, dim=1)):
        states, mask = bank.take(chosen.flatten(), None if widths is None else widths[group], as_stored=True)
        batch[f"states_{group}"] = states.view(*chosen.shape, *states.shape[1:])
        batch[f"mask_{group}"] = mask.view(*chosen.shape, mask.shape[1])
    return batch


def group_widths(lengths: Int[Tensor, "seeds texts"]) -> list[int]:
    """Return the length of the longest text of each group in `grouped_states`."""
    last = torch.tensor(_group_ends(lengths.shape[1])) - 1
    return lengths.sort(dim=1).values[:, last].amax(dim=0).tolist()


def _group_ends(count: int) -> list[int]:
    return [*sorted({round(share * count) for share in GROUP_ENDS} - {0, count}), count]


def vector_bank(tables: Sequence[VectorTable]) -> VectorBank:
    """Return a bank over the tables' memory maps; its rows are those of all tables in turn."""
    parts, order = [torch.from_numpy(table.matrix) for table in tables], None
    if any(table.order is not None for table in tables):
        starts = accumulate((len(part) for part in parts), initial=0)
        orders = (np.arange(len(table.keys)) if table.order is None else table.order for table in tables)
        order = torch.from_numpy(np.concatenate([start + rows for start, rows in zip(starts, orders, strict=False)]))
    return VectorBank(parts, order)


def state_bank(tables: Sequence[StateTable]) -> StateBank:
    """Return a bank over the tables' memory maps; only offsets are read."""
    token_starts = [0, *accumulate(len(table.values) for table in tables)]
    spans = [table.spans for table in tables]
    begin = [begin + start for (begin, _), start in zip(spans, token_starts, strict=False)]
    return StateBank(
        VectorBank([torch.from_numpy(table.values) for table in tables]),
        torch.from_numpy(np.concatenate(begin)),
        torch.from_numpy(np.concatenate([length for _, length in spans])),
    )


@dataclass(frozen=True)
class TextFeatures:
    """Texts of one language with the frozen encoder's outputs; `texts` is for methods that fine-tune the encoder."""

    vectors: VectorBank
    rows: Int[Tensor, " texts"]
    states: StateBank | None = None
    state_rows: Int[Tensor, " texts"] | None = None
    language: str = ""
    texts: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.rows)


def words_alone(texts: Sequence[str], language: str) -> TextFeatures:
    """Return the features of texts for a method that reads no encoder: the texts, with dummy vectors."""
    return TextFeatures(
        VectorBank([torch.zeros(1, 1)]),
        torch.zeros(len(texts), dtype=torch.int64),
        language=language,
        texts=list(texts),
    )


def text_features(
    keys: Sequence[str],
    *tables: tuple[VectorTable, StateTable | None],
    language: str = "",
    texts: Sequence[str] | None = None,
) -> TextFeatures:
    """Return the features of the texts with these keys, which may repeat, in order.

    `tables` have their vectors and, all or none of them, token states; each text is read from the first table with it.
    """
    vectors, states = [table for table, _ in tables], [table for _, table in tables if table is not None]
    of_states = (state_bank(states), _rows(states, keys)) if states else (None, None)
    return TextFeatures(vector_bank(vectors), _rows(vectors, keys), *of_states, language, texts)


def _rows(tables: Sequence[VectorTable] | Sequence[StateTable], keys: Sequence[str]) -> Int[Tensor, " texts"]:
    """Return the row of each key in the concatenated tables; the last table must have all keys that no other has."""
    sought, rows, start = np.asarray(keys), np.empty(len(keys), dtype=np.int64), 0
    is_open = np.ones(len(keys), dtype=bool)
    for table in tables:
        is_here = is_open & table.has(sought) if table is not tables[-1] else is_open
        rows[is_here] = start + table.rows(sought[is_here])
        is_open = is_open & ~is_here
        start += len(table.keys)
    return torch.from_numpy(rows)


@dataclass(frozen=True)
class PairRows:
    """Parallel utterances of one split. The row of a missing text (no slot, so no residual) is -1.

    `text`, `language`, `template` and `residual` have, for each side (`source` and `target`), one value per pair.
    """

    text: Mapping[str, Int[Tensor, " pairs"]]
    language: Mapping[str, Int[Tensor, " pairs"]]
    template: Mapping[str, Int[Tensor, " pairs"]]
    residual: Mapping[str, Int[Tensor, " pairs"]]

    def __len__(self) -> int:
        return len(self.text["source"])

    @property
    def language_pair(self) -> Int[Tensor, " pairs"]:
        """Return the index of each row's language pair; all rows within one language (template pairs) share one."""
        labels = torch.stack([self.language[side] for side in SIDES], dim=1)
        labels[labels[:, 0] == labels[:, 1]] = -1
        return labels.unique(dim=0, return_inverse=True)[1]

    def select(self, index: Int[Tensor, " chosen"]) -> "PairRows":
        return PairRows(**{kind: {side: of[side][index] for side in SIDES} for kind, of in vars(self).items()})


@dataclass(frozen=True)
class Utterances:
    """Utterances of one language and split, with annotations; `rows` has the bank rows of their texts."""

    ids: Sequence[str]
    texts: Sequence[str]
    tokens: Sequence[Sequence[str]]
    slot_tags: Sequence[Sequence[str]]
    intents: Sequence[str | None]
    rows: Int[Tensor, " utterances"]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class ParallelMates:
    """Translation pairs of one split with other slot values: `texts` by side and, if encoded, their `rows`.

    `pair` [mates] is the position in `TrainingData.splits` of the pair that each is a mate of, in increasing order;
    `number` counts the mates of a pair from 0, with gaps where a language lacks a mate.
    """

    pair: Int[Tensor, " mates"]
    number: Int[Tensor, " mates"]
    texts: Mapping[str, Sequence[str]]
    rows: Mapping[str, Int[Tensor, " mates"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pair)


@dataclass(frozen=True)
class TrainingData:
    """Everything that a method trains on: a language pair, or a mixture of several.

    `state_rows[text]` is the row of a text in `states`, -1 if its states are not stored. `negatives` has, per language,
    the distinct texts of the negative pool; `sentences` those of all training utterances. Only some methods need the
    rest: `template_pairs` by split, pairs in one language whose target has other slot values (both sides have the
    source's template target, and no residual); `mates` by split; `groups`, by split, the index of each pair's
    utterance, the same for its translations to several languages; `utterances` by split and language; `texts` of
    sentence pairs by row; the `encoder` to fine-tune.
    """

    languages: tuple[str, ...]
    vectors: VectorBank
    states: StateBank | None
    state_rows: Int[Tensor, " texts"] | None
    splits: Mapping[str, PairRows]
    negatives: Sequence[Int[Tensor, " _"]]
    sentences: Sequence[Int[Tensor, " _"]] = field(repr=False)
    template_pairs: Mapping[str, PairRows] = field(default_factory=dict)
    mates: Mapping[str, ParallelMates] = field(default_factory=dict)
    groups: Mapping[str, Int[Tensor, " pairs"]] = field(default_factory=dict, repr=False)
    utterances: Mapping[str, Mapping[str, Utterances]] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict, repr=False)
    encoder: EncoderFiles | None = None

    @property
    def dim(self) -> int:
        return self.vectors.dim


def features_of(encoder: Encoder, texts: Sequence[str], language: str, *, states: bool) -> TextFeatures:
    """Return the features of at least one text, in order, with token states if `states`; texts may repeat."""
    keys = text_keys(texts)
    tables = encoded_tables(encoder, dict(zip(keys, texts, strict=True)), states=states)
    return text_features(keys, tables, language=language, texts=list(texts))


# --- blocks -----------------------------------------------------------------------------------------------

# The rounding of a matrix product depends on its shape. So heads are applied to blocks whose shape depends on no other
# text: all blocks of one width have the same number of rows (rows are repeated if there are too few texts), and a
# text's width depends only on its own length.
_ROWS = {"cpu": 256, "cuda": 4096}
_TOKENS = {"cpu": 1024, "cuda": 65_536}
"""Tokens of a block, by device; few enough on the CPU that a single text is fast."""


def embedded(
    embed: Callable[[Batch, Int[Tensor, " texts"]], Batch], features: TextFeatures, device: str
) -> dict[str, Float[np.ndarray, "texts _"]]:
    """Return the embeddings of at least one text by name, in order, computed by `embed`.

    `embed` maps some texts' `vectors` (with their `grouped_states`, if there are states) and the indices of these
    texts, which may repeat, to one matrix per name.
    """
    matrices: dict[str, np.ndarray] = {}
    for count, texts, batch in _blocks(features, device):
        for name, value in embed({key: part.to(device) for key, part in batch.items()}, texts).items():
            rows = value[:count].cpu().numpy()  # the rest of the block is padding
            matrix = matrices.setdefault(name, np.empty((len(features), rows.shape[1]), rows.dtype))
            matrix[texts[:count].numpy()] = rows
    return matrices


def in_fixed_shapes(function: Callable[[Tensor], Tensor], rows: Num[Tensor, "rows _"]) -> Num[Tensor, "rows _"]:
    """Apply a function that treats matrix rows independently to a matrix of any number of rows."""
    size = _ROWS[rows.device.type]
    return torch.cat([function(block[_padded(len(block), size)])[: len(block)] for block in rows.split(size)])


def _blocks(features: TextFeatures, device: str) -> Iterator[tuple[int, Int[Tensor, " texts"], Batch]]:
    """Yield for each block its number of distinct texts, its texts' indices (distinct, then repeated), and itself."""
    states, state_rows = features.states, features.state_rows
    if states is None or state_rows is None:
        for chosen in torch.arange(len(features)).split(_ROWS[device]):
            texts = chosen[_padded(len(chosen), _ROWS[device])]
            yield len(chosen), texts, {"vectors": features.vectors.take(features.rows[texts])}
        return
    widths = torch.from_numpy(padded_widths(states.length[state_rows].numpy()))
    for width in widths.unique().tolist():
        order = torch.arange(max(_TOKENS[device] // width, 1))
        for chosen in (widths == width).nonzero().squeeze(1).split(len(order)):
            texts = chosen[_padded(len(chosen), len(order))]
            values, mask = states.take(state_rows[texts], width)
            of_states = {"order": order, "place": order, "states_0": values, "mask_0": mask}
            yield len(chosen), texts, {"vectors": features.vectors.take(features.rows[texts]), **of_states}


def _padded(count: int, size: int) -> Int[Tensor, " size"]:
    """Return 0 to `count` - 1, repeated up to `size`."""
    return torch.arange(size) % count
