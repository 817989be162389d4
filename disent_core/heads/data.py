"""Frozen embeddings as training reads them: memory-mapped matrices, addressed by row.

A text's row counts through the vector tables of all languages, one after the other, so a batch of a mixture
of language pairs is one gather. Nothing here makes a Python object per text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disent_core.embeddings import StateTable, VectorTable
from disent_core.errors import TableError, TrainingError

Batch = dict[str, Tensor]
"""Tensors by name, `source_vectors`, `target_states`, ...: every one has a row per pair (or per text)."""

SIDES = ("source", "target")


class VectorBank:
    """Matrices under one another, without copying them together unless they move to another device."""

    def __init__(self, parts: Sequence[Float[Tensor, "_ dim"]]) -> None:
        self.parts = list(parts)
        self.starts = torch.tensor([0, *accumulate(len(part) for part in parts)])

    @property
    def dim(self) -> int:
        """Columns."""
        return self.parts[0].shape[1]

    def to(self, device: str) -> "VectorBank":
        """The same rows on a device, where one matrix is faster than several."""
        if device == "cpu":
            return self
        return VectorBank([torch.cat([part.to(device) for part in self.parts])])

    def take(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Rows as float32."""
        if len(self.parts) == 1:
            return self.parts[0].index_select(0, rows).float()
        taken = torch.empty(len(rows), self.dim)
        part_of = torch.bucketize(rows, self.starts[1:], right=True)
        for index, part in enumerate(self.parts):
            where = (part_of == index).nonzero().squeeze(1)
            if len(where):
                taken[where] = part.index_select(0, rows[where] - self.starts[index]).float()
        return taken


@dataclass(frozen=True)
class StateBank:
    """Token states of texts, ragged: text i has the rows `begin[i]` to `begin[i] + length[i]` of `values`."""

    values: VectorBank
    begin: Int[Tensor, " texts"]
    length: Int[Tensor, " texts"]

    def to(self, device: str) -> "StateBank":
        """The same states on a device."""
        return StateBank(self.values.to(device), self.begin.to(device), self.length.to(device))

    def take(self, rows: Int[Tensor, " rows"]) -> tuple[Float[Tensor, "rows length dim"], Bool[Tensor, "rows length"]]:
        """States padded to the longest of these texts, and where they are real.

        Padding repeats a text's first state, which costs nothing: whoever attends must mask.
        """
        length = self.length[rows]
        steps = torch.arange(int(length.max()) if len(rows) else 0, device=length.device)
        mask = steps < length.unsqueeze(1)
        positions = self.begin[rows].unsqueeze(1) + torch.where(mask, steps, 0)
        return self.values.take(positions.flatten()).view(*mask.shape, self.values.dim), mask


LENGTH_GROUPS = 4
"""Groups of about equal length into which the texts of a batch are padded: a batch has a few long texts."""


def grouped_states(bank: StateBank, rows: Int[Tensor, "seeds texts"]) -> Batch:
    """Token states of a batch, padded in groups of similar length.

    Returns:
        `order`: texts from the shortest to the longest; `place`: where each text is in that order; and for each
        group g of that order `states_g` [seeds, group, length, dim] with `mask_g`.
    """
    order = bank.length[rows].argsort(dim=1, stable=True)
    batch = {"order": order, "place": order.argsort(dim=1)}
    for group, chosen in enumerate(rows.gather(1, order).chunk(LENGTH_GROUPS, dim=1)):
        states, mask = bank.take(chosen.flatten())
        batch[f"states_{group}"] = states.view(*chosen.shape, *states.shape[1:])
        batch[f"mask_{group}"] = mask.view(*chosen.shape, mask.shape[1])
    return batch


def vector_bank(tables: Sequence[VectorTable]) -> VectorBank:
    """Bank over the tables' memory maps."""
    return VectorBank([torch.from_numpy(table.matrix) for table in tables])


def state_bank(tables: Sequence[StateTable]) -> StateBank:
    """Bank over the tables' memory maps; only the offsets are read."""
    tokens = [0, *accumulate(len(table.values) for table in tables)]
    begin = [table.offsets[:-1] + start for table, start in zip(tables, tokens, strict=False)]
    length = [np.diff(table.offsets) for table in tables]
    return StateBank(
        VectorBank([torch.from_numpy(table.values) for table in tables]),
        torch.from_numpy(np.concatenate(begin)),
        torch.from_numpy(np.concatenate(length)),
    )


@dataclass(frozen=True)
class TextFeatures:
    """Texts with what the frozen encoder gives for each."""

    vectors: VectorBank
    rows: Int[Tensor, " texts"]
    states: StateBank | None = None
    state_rows: Int[Tensor, " texts"] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, size: int, device: str) -> Iterator[Batch]:
        """Blocks of at most `size` texts, in order: `vectors`, and their `grouped_states` where there are any."""
        for start in range(0, len(self), size):
            block = slice(start, start + size)
            batch = {"vectors": self.vectors.take(self.rows[block])}
            if self.states is not None and self.state_rows is not None:
                grouped = grouped_states(self.states, self.state_rows[block].unsqueeze(0))
                batch |= {name: value.squeeze(0) for name, value in grouped.items()}
            yield {name: value.to(device) for name, value in batch.items()}


def text_features(keys: Sequence[str], vectors: VectorTable, states: StateTable | None = None) -> TextFeatures:
    """Features of the texts with these keys, in order.

    Raises:
        TableError: if a text has not been encoded.
    """
    return TextFeatures(
        vector_bank([vectors]),
        torch.from_numpy(vectors.rows(keys)),
        None if states is None else state_bank([states]),
        None if states is None else torch.from_numpy(states.rows(keys)),
    )


@dataclass(frozen=True)
class PairRows:
    """Parallel utterances of one split. A text's row is -1 where there is no such text (no slot, no residual).

    `text`, `language`, `template` and `residual` are by side, `source` and `target`, one entry a pair.
    """

    text: Mapping[str, Int[Tensor, " pairs"]]
    language: Mapping[str, Int[Tensor, " pairs"]]
    template: Mapping[str, Int[Tensor, " pairs"]]
    residual: Mapping[str, Int[Tensor, " pairs"]]

    def __len__(self) -> int:
        return len(self.text["source"])

    def select(self, index: Int[Tensor, " chosen"]) -> "PairRows":
        """Some of the pairs, in the order of `index`."""

        def part(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {side: rows[side][index] for side in SIDES}

        return PairRows(part(self.text), part(self.language), part(self.template), part(self.residual))


@dataclass(frozen=True)
class TrainingData:
    """Everything that a head on frozen embeddings trains on: a language pair, or a mixture of several.

    `state_rows[text]` is the row of a text in `states`, -1 where its states are not stored. `negatives` has,
    per language, the distinct texts of the negative pool; `sentences` those of all training utterances.
    """

    languages: tuple[str, ...]
    vectors: VectorBank
    states: StateBank | None
    state_rows: Int[Tensor, " texts"] | None
    splits: Mapping[str, PairRows]
    negatives: Sequence[Int[Tensor, " _"]]
    sentences: Sequence[Int[Tensor, " _"]] = field(repr=False)

    @property
    def dim(self) -> int:
        """Width of the encoder."""
        return self.vectors.dim


def training_data(
    aligned: Sequence[pa.Table],
    vectors: Mapping[str, VectorTable],
    states: Mapping[str, StateTable] | None = None,
    *,
    masked: bool = True,
) -> TrainingData:
    """Join the `aligned_pairs` of one or more language pairs with the frozen embeddings of their languages.

    Args:
        aligned: `aligned_pairs` tables, one a language pair.
        vectors: sentence vectors by language.
        states: token states by language, for methods that attend over tokens.
        masked: look up the masked texts, for methods that have them as targets; otherwise there are none.

    Raises:
        TableError: if a text has not been encoded.
        TrainingError: if there is no training pair.
    """
    pairs = pa.concat_tables(aligned)
    pairs = pairs.filter(pc.is_in(pairs["split"], value_set=pa.array(("train", "dev"))))
    languages = tuple(vectors)
    bank = vector_bank([vectors[language] for language in languages])
    rows = _Rows(pairs, languages, vectors, bank.starts, masked=masked)
    split = np.asarray(pairs["split"].to_pylist())
    splits = {name: rows.pairs(split == name) for name in ("train", "dev")}
    if not len(splits["train"]):
        raise TrainingError(f"no training pair for {'+'.join(languages)}. Check the corpus's partitions")
    data = TrainingData(
        languages=languages,
        vectors=bank,
        states=None if states is None else state_bank([states[language] for language in languages]),
        state_rows=None if states is None else _state_rows(languages, vectors, states),
        splits=splits,
        negatives=rows.by_language(split == "train", only_negatives=True),
        sentences=rows.by_language(split == "train", only_negatives=False),
    )
    _check_states(data)
    return data


def _check_states(data: TrainingData) -> None:
    if data.state_rows is None:
        return
    read = torch.cat([rows for pairs in data.splits.values() for rows in pairs.text.values()]).unique()
    if count := int((data.state_rows[read] < 0).sum()):
        remedy = "Materialise the embeddings of this encoder again"
        raise TableError(f"the token states of {count} of {len(read)} texts are missing. {remedy}")


class _Rows:
    """Bank rows of the texts that `aligned_pairs` addresses by key."""

    def __init__(
        self,
        pairs: pa.Table,
        languages: Sequence[str],
        vectors: Mapping[str, VectorTable],
        starts: Tensor,
        *,
        masked: bool,
    ) -> None:
        self.pairs_table, self.languages = pairs, languages
        self.vectors, self.starts = vectors, starts.numpy()
        known = pa.array(languages)
        self.language = {side: pc.index_in(pairs[f"{side}_language"], value_set=known).to_numpy() for side in SIDES}
        self.text = {side: self._rows(f"{side}_key", side) for side in SIDES}
        none = {side: np.full(len(pairs), -1) for side in SIDES}
        self.template = {side: self._rows(f"{side}_template_key", side) for side in SIDES} if masked else none
        self.residual = {side: self._rows(f"{side}_residual_key", side) for side in SIDES} if masked else none

    def _rows(self, column: str, side: str) -> np.ndarray:
        keys = self.pairs_table[column]
        present = keys.is_valid().to_numpy()
        rows = np.full(len(keys), -1, dtype=np.int64)
        for label, language in enumerate(self.languages):
            here = present & (self.language[side] == label)
            if here.any():
                own = keys.filter(pa.array(here)).to_pylist()
                rows[here] = self.vectors[language].rows(own) + self.starts[label]
        return rows

    def pairs(self, where: np.ndarray) -> PairRows:
        """The pairs of one split."""

        def part(rows: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
            return {side: torch.from_numpy(rows[side][where].astype(np.int64)) for side in SIDES}

        return PairRows(part(self.text), part(self.language), part(self.template), part(self.residual))

    def by_language(self, where: np.ndarray, *, only_negatives: bool) -> list[Tensor]:
        """Distinct texts of each language, sorted."""
        found: list[list[np.ndarray]] = [[] for _ in self.languages]
        for side in SIDES:
            chosen = where.copy()
            if only_negatives:
                chosen &= self.pairs_table[f"{side}_is_negative"].to_numpy()
            for label in range(len(self.languages)):
                found[label].append(self.text[side][chosen & (self.language[side] == label)])
        return [torch.from_numpy(np.unique(np.concatenate(rows))) for rows in found]


def _state_rows(
    languages: Sequence[str], vectors: Mapping[str, VectorTable], states: Mapping[str, StateTable]
) -> Int[Tensor, " texts"]:
    start, rows = 0, []
    for language in languages:
        table = states[language]
        position = np.searchsorted(table.keys, vectors[language].keys)
        position = np.minimum(position, len(table.keys) - 1)
        found = table.keys[position] == vectors[language].keys
        rows.append(np.where(found, position + start, -1))
        start += len(table.keys)
    return torch.from_numpy(np.concatenate(rows).astype(np.int64))
