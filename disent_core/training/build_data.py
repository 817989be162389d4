"""Build `TrainingData` from tables: texts that tables address by key become rows of the frozen embeddings."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.corpora.languages import split_pair
from disent_core.embeddings.arrays import StateTable, VectorTable, keys_array
from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TableError, TrainingError
from disent_core.storage.tables import SCHEMAS
from disent_core.text import text_keys
from disent_core.training.data import (
    PairRows,
    ParallelMates,
    TrainingData,
    Utterances,
    no_pairs,
    state_bank,
    vector_bank,
)
from disent_core.training.needs import SIDES, TRAINING_SPLITS, training_rows


def training_data(
    aligned: Sequence[pa.Table],
    vectors: Mapping[str, VectorTable],
    states: Mapping[str, StateTable] | None = None,
    *,
    masked: bool = True,
    paired: bool = True,
    templates: Sequence[pa.Table] = (),
    mates: Sequence[pa.Table] = (),
    encoded_mates: bool = False,
    utterances: Sequence[pa.Table] | None = None,
    sentences: Sequence[pa.Table] = (),
    encoder: EncoderFiles | None = None,
) -> TrainingData:
    """Join the `aligned_pairs` of one or more language pairs with the frozen embeddings of their languages.

    Args:
        aligned: `aligned_pairs` tables, one a language pair.
        vectors: sentence vectors by language.
        states: token states by language, for methods that attend over tokens.
        masked: look up the masked texts, for methods that have them as targets; otherwise there are none.
        paired: whether two languages without training pairs are an error; False for taggers, which read no pairs.
        templates: `training_template_pairs` of every corpus and language, for methods that train on them.
        mates: `parallel_mates`, for methods that train on them; there may be none.
        encoded_mates: look up the texts of those of train among the embeddings.
        utterances: `utterances` of every corpus and language, for methods that read texts and annotations; there
            may be none.
        sentences: `sentence_pairs` of every corpus and pair, for the same methods.
        encoder: encoder of methods that fine-tune it.
    """
    languages = tuple(vectors)
    pairs = training_rows(pa.concat_tables(aligned), masked=masked)
    bank = vector_bank([vectors[language] for language in languages])
    rows = _Rows(pairs, languages, vectors, masked=masked)
    is_train = _equals(pairs["split"], "train")
    splits = {name: rows.pairs(_equals(pairs["split"], name)) for name in TRAINING_SPLITS}
    if paired and not len(splits["train"]) and not (utterances and len(languages) == 1):
        raise no_pairs(languages)
    data = TrainingData(
        languages=languages,
        vectors=bank,
        states=None if states is None else state_bank([states[language] for language in languages]),
        state_rows=None if states is None else _state_rows(languages, vectors, states),
        splits=splits,
        negatives=rows.by_language(is_train, only_negatives=True),
        sentences=rows.by_language(is_train, only_negatives=False),
        template_pairs={name: rows.template_pairs(templates, name) for name in TRAINING_SPLITS} if templates else {},
        mates={
            name: rows.mates(mates, name, encoded=encoded_mates and name == "train")
            for name in (TRAINING_SPLITS if mates else ())
        },
        utterances={} if utterances is None else {name: rows.utterances(utterances, name) for name in TRAINING_SPLITS},
        texts=rows.texts(sentences),
        encoder=encoder,
    )
    _check_states(data)
    return data


def _check_states(data: TrainingData) -> None:
    if data.state_rows is None:
        return
    all_pairs = [*data.splits.values(), *data.template_pairs.values()]
    rows_in_use = torch.cat([rows for pairs in all_pairs for rows in pairs.text.values()]).unique()
    if count := int((data.state_rows[rows_in_use] < 0).sum()):
        remedy = "Materialise the embeddings of this encoder again"
        raise TableError(f"the token states of {count} of {len(rows_in_use)} texts are missing. {remedy}")


class _Rows:
    """Looks up the bank rows of the texts that tables address by key; -1 stands for no text."""

    def __init__(
        self,
        pairs: pa.Table,
        languages: Sequence[str],
        vectors: Mapping[str, VectorTable],
        *,
        masked: bool,
    ) -> None:
        self.pairs_table, self.languages, self.vectors = pairs, languages, vectors
        self.starts = [0, *accumulate(len(vectors[language].keys) for language in languages)]
        language_names = pa.array(languages)
        self.language = {
            side: pc.index_in(pairs[f"{side}_language"], value_set=language_names).to_numpy() for side in SIDES
        }
        self.text = {side: self._rows(f"{side}_key", side) for side in SIDES}
        no_rows = {side: np.full(len(pairs), -1) for side in SIDES}
        self.template = {side: self._rows(f"{side}_template_key", side) for side in SIDES} if masked else no_rows
        self.residual = {side: self._rows(f"{side}_residual_key", side) for side in SIDES} if masked else no_rows

    def _rows(self, column: str, side: str) -> np.ndarray:
        keys = self.pairs_table[column]
        present = keys.is_valid().to_numpy()
        rows = np.full(len(keys), -1, dtype=np.int64)
        for label in range(len(self.languages)):
            is_language = present & (self.language[side] == label)
            if is_language.any():
                rows[is_language] = self.of_language(keys_array(keys.filter(pa.array(is_language))), label)
        return rows

    def of_language(self, keys: Sequence[str] | np.ndarray, label: int) -> np.ndarray:
        """Return the bank rows of texts of one language, by key."""
        return self.vectors[self.languages[label]].rows(keys) + self.starts[label]

    def pairs(self, is_chosen: np.ndarray) -> PairRows:
        """Return the chosen pairs, those of one split."""

        def of_sides(rows: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
            return {side: _tensor(rows[side][is_chosen]) for side in SIDES}

        return PairRows(of_sides(self.text), of_sides(self.language), of_sides(self.template), of_sides(self.residual))

    def by_language(self, is_in_split: np.ndarray, *, only_negatives: bool) -> list[Tensor]:
        """Return the distinct texts of each language, sorted."""
        # np.unique sorts: a pool does not depend on the order of pairs, so draws from it do not either.
        rows_by_label: list[list[np.ndarray]] = [[] for _ in self.languages]
        for side in SIDES:
            is_chosen = is_in_split.copy()
            if only_negatives:
                is_chosen &= self.pairs_table[f"{side}_is_negative"].to_numpy()
            for label in range(len(self.languages)):
                rows_by_label[label].append(self.text[side][is_chosen & (self.language[side] == label)])
        return [torch.from_numpy(np.unique(np.concatenate(rows))) for rows in rows_by_label]

    def template_pairs(self, tables: Sequence[pa.Table], split: str) -> PairRows:
        """Return the template pairs of one split; pairs whose source is in no language pair are left out."""
        template = self._templates()
        text: dict[str, list[np.ndarray]] = {side: [] for side in SIDES}
        template_rows, labels = [], []
        for table in tables:
            rows = table.filter(pc.equal(table["split"], split))
            # `position` of each source among the utterances of the language pairs; NaN where it is none of them.
            position = pc.index_in(_sources(rows, "source_utterance_id"), value_set=template["source"]).to_numpy(False)
            rows, position = rows.filter(pa.array(~np.isnan(position))), position[~np.isnan(position)].astype(np.int64)
            if not len(rows):
                continue
            label = self.languages.index(rows["language"][0].as_py())
            for side in SIDES:
                text[side].append(self.of_language(text_keys(rows[f"{side}_text"].to_pylist()), label))
            template_rows.append(template["row"][position])
            labels.append(np.full(len(rows), label))
        if not labels:
            raise TrainingError(
                f"there is no template pair in {split}: the method learns from utterances that differ in the values of "
                "their slots. Train on a corpus with slots, or choose a method that needs none, such as dream"
            )
        language, rows_of_template = _tensor(np.concatenate(labels)), _tensor(np.concatenate(template_rows))
        return PairRows(
            {side: _tensor(np.concatenate(text[side])) for side in SIDES},
            dict.fromkeys(SIDES, language),
            dict.fromkeys(SIDES, rows_of_template),
            dict.fromkeys(SIDES, torch.full_like(language, -1)),
        )

    def _templates(self) -> dict[str, Any]:
        """Return the template row of each utterance of the pairs, by corpus, language and id."""
        sources = [_sources(self.pairs_table, "utterance_id", f"{side}_language") for side in SIDES]
        rows = np.concatenate([self.template[side] for side in SIDES])
        return {"source": pa.concat_arrays(sources), "row": rows}

    def mates(self, tables: Sequence[pa.Table], split: str, *, encoded: bool) -> ParallelMates:
        """Return the mates of the pairs of one split, in the order of the pairs."""
        identity = ("corpus", "source_language", "target_language", "utterance_id")
        rows = pa.concat_tables(tables)
        pairs, rows = (table.filter(pc.equal(table["split"], split)) for table in (self.pairs_table, rows))
        pair = pc.index_in(_joined(rows, identity), value_set=_joined(pairs, identity)).to_numpy(zero_copy_only=False)
        order = np.argsort(pair, kind="stable")[: int((~np.isnan(pair)).sum())]  # nan, of no pair, comes last
        mates = rows.take(pa.array(order))
        return ParallelMates(
            _tensor(pair[order]),
            {side: mates[f"{side}_text"].to_pylist() for side in SIDES},
            {side: self._of_texts(mates[f"{side}_text"], mates[f"{side}_language"]) for side in SIDES if encoded},
        )

    def _of_texts(self, texts: pa.ChunkedArray, languages: pa.ChunkedArray) -> Tensor:
        """Return the bank rows of texts of several languages."""
        rows, keys = np.full(len(texts), -1, dtype=np.int64), np.asarray(text_keys(texts.to_pylist()))
        for label, language in enumerate(self.languages):
            chosen = pc.equal(languages, language).to_numpy()
            rows[chosen] = self.of_language(keys[chosen].tolist(), label)
        return _tensor(rows)

    def utterances(self, tables: Sequence[pa.Table], split: str) -> dict[str, Utterances]:
        """Return the utterances of one split, by language."""
        by_language = {}
        for label, language in enumerate(self.languages):
            tables_of_language = [
                SCHEMAS["utterances"].empty_table(),
                *(table for table in tables if len(table) and table["language"][0].as_py() == language),
            ]
            rows = pa.concat_tables([table.filter(pc.equal(table["split"], split)) for table in tables_of_language])
            by_language[language] = Utterances(
                **{
                    field: rows[column].to_pylist()
                    for field, column in (
                        ("ids", "utterance_id"), ("texts", "text"), ("tokens", "tokens"),
                        ("slot_tags", "slot_tags"), ("intents", "intent"),
                    )
                },
                rows=_tensor(self.of_language(keys_array(rows["text_key"]), label)),
            )  # fmt: skip
        return by_language

    def texts(self, tables: Sequence[pa.Table]) -> dict[int, str]:
        """Return the texts of sentence pairs of the training splits, by bank row."""
        texts: dict[int, str] = {}
        for table in tables:
            trained = table.filter(pc.is_in(table["split"], value_set=pa.array(TRAINING_SPLITS)))
            if not len(trained):
                continue
            for side, language in zip(SIDES, split_pair(trained["pair"][0].as_py(), self.languages), strict=True):
                rows = self.of_language(trained[f"{side}_key"].to_pylist(), self.languages.index(language))
                texts |= dict(zip(rows.tolist(), trained[side].to_pylist(), strict=True))
        return texts


def _equals(column: pa.ChunkedArray, value: str) -> np.ndarray:
    return pc.equal(column, value).to_numpy()


def _sources(table: pa.Table, utterance: str, language: str = "language") -> pa.Array:
    return _joined(table, ("corpus", language, utterance))


def _joined(table: pa.Table, columns: Sequence[str]) -> pa.Array:
    return pc.binary_join_element_wise(*(table[name].combine_chunks() for name in columns), "\0")


def _tensor(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows.astype(np.int64))


def _state_rows(
    languages: Sequence[str], vectors: Mapping[str, VectorTable], states: Mapping[str, StateTable]
) -> Int[Tensor, " texts"]:
    # Both tables are sorted by key: look each key of the vectors up among those of the states.
    start, rows = 0, []
    for language in languages:
        table = states[language]
        position = np.searchsorted(table.keys, vectors[language].keys)
        position = np.minimum(position, len(table.keys) - 1)
        has_states = table.keys[position] == vectors[language].keys
        rows.append(np.where(has_states, position + start, -1))
        start += len(table.keys)
    return torch.from_numpy(np.concatenate(rows).astype(np.int64))
