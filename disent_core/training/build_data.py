"""Build `TrainingData` from tables: map the text keys in tables to rows of the frozen embeddings."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from disent_core.corpora.languages import split_pair
from disent_core.embeddings.arrays import StateTable, VectorTable, keys_array, positions
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
from disent_core.training.needs import SIDES, TRAINING_SPLITS, in_training_splits, training_rows


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

    `aligned` has at least one table, which may have no rows. `vectors` and `states` are by language, and `encoder` is
    the one to fine-tune. The other tables are those of every corpus and language, or pair, for the methods that read
    them; there may be none. With `masked`, look up the masked texts too, and with `encoded_mates` the
    embeddings of the training mates' texts. Two languages without training pairs are an error, unless `paired` is
    False, as for taggers.
    """
    languages = tuple(vectors)
    rows = _Rows(training_rows(pa.concat_tables(aligned), masked=masked), vectors, masked=masked)
    splits = {split: rows.pairs_of(split) for split in TRAINING_SPLITS}
    if paired and not len(splits["train"]) and not (utterances and len(languages) == 1):
        raise no_pairs(languages)
    template_pairs = {split: rows.template_pairs(templates, split) for split in TRAINING_SPLITS if templates}
    of_utterances = () if utterances is None else TRAINING_SPLITS
    state_rows = None
    if states is not None:
        state_rows = _state_rows(languages, vectors, states)
        every_pair = [*splits.values(), *template_pairs.values()]
        in_use = torch.cat([texts for pairs in every_pair for texts in pairs.text.values()]).unique()
        if count := int((state_rows[in_use] < 0).sum()):
            remedy = "Materialise the embeddings of this encoder again"
            raise TableError(f"the token states of {count} of {len(in_use)} texts are missing. {remedy}")
    return TrainingData(
        languages=languages,
        vectors=vector_bank([vectors[language] for language in languages]),
        states=None if states is None else state_bank([states[language] for language in languages]),
        state_rows=state_rows,
        splits=splits,
        negatives=rows.training_texts(only_negatives=True),
        sentences=rows.training_texts(only_negatives=False),
        template_pairs=template_pairs,
        mates={
            split: rows.mates(mates, split, encoded=encoded_mates and split == "train")
            for split in TRAINING_SPLITS if mates
        },
        groups={split: rows.groups(split) for split in TRAINING_SPLITS},
        utterances={split: rows.utterances(utterances or (), split) for split in of_utterances},
        texts=rows.texts(sentences),
        encoder=encoder,
    )  # fmt: skip


class _Rows:
    """Looks up the bank rows of texts by the keys in tables; -1 means no text."""

    def __init__(self, table: pa.Table, vectors: Mapping[str, VectorTable], *, masked: bool) -> None:
        self.table, self.languages, self.vectors = table, tuple(vectors), vectors
        self.starts = [0, *accumulate(len(vectors[language].keys) for language in self.languages)]
        self.label = {side: self._labels(table[f"{side}_language"]) for side in SIDES}
        absent: dict[str, Tensor] = dict.fromkeys(SIDES, torch.full((len(table),), -1))
        self.pairs = PairRows(
            text=self._of_sides("key"),
            language={side: _tensor(label) for side, label in self.label.items()},
            template=self._of_sides("template_key") if masked else absent,
            residual=self._of_sides("residual_key") if masked else absent,
        )

    def _labels(self, column: pa.ChunkedArray) -> np.ndarray:
        return pc.index_in(column, value_set=pa.array(self.languages)).to_numpy()

    def _of_sides(self, column: str) -> dict[str, Tensor]:
        return {side: self._of_keys(self.table[f"{side}_{column}"], self.label[side]) for side in SIDES}

    def _of_keys(self, keys: pa.ChunkedArray, labels: np.ndarray) -> Int[Tensor, " keys"]:
        """Return the bank rows of texts of several languages, -1 for null."""
        rows, present = np.full(len(keys), -1, dtype=np.int64), keys.is_valid().to_numpy()
        for label in range(len(self.languages)):
            is_language = present & (labels == label)
            if is_language.any():
                rows[is_language] = self.of_language(keys_array(keys.filter(pa.array(is_language))), label)
        return _tensor(rows)

    def of_language(self, keys: Sequence[str] | np.ndarray, label: int) -> Int[np.ndarray, " keys"]:
        """Return the bank rows of texts of one language, by key."""
        return self.vectors[self.languages[label]].rows(keys) + self.starts[label]

    def pairs_of(self, split: str) -> PairRows:
        return self.pairs.select(_tensor(np.flatnonzero(_equals(self.table["split"], split))))

    def groups(self, split: str) -> Int[Tensor, " pairs"]:
        """Return for each pair of a split the index of its utterance, in order of first appearance."""
        rows = self.table.filter(pc.equal(self.table["split"], split))
        identities = _joined(rows, "corpus", "source_language", "utterance_id")
        return _tensor(pc.index_in(identities, value_set=identities.unique()).to_numpy(zero_copy_only=False))

    def training_texts(self, *, only_negatives: bool) -> list[Int[Tensor, " texts"]]:
        """Return the distinct texts of the training pairs of each language, sorted."""
        is_train = _equals(self.table["split"], "train")
        chosen = {
            side: is_train & self.table[f"{side}_is_negative"].to_numpy() if only_negatives else is_train
            for side in SIDES
        }
        rows_by_label = (
            [self.pairs.text[side].numpy()[chosen[side] & (self.label[side] == label)] for side in SIDES]
            for label in range(len(self.languages))
        )
        # np.unique sorts, so neither a pool nor the draws from it depend on the order of pairs.
        return [torch.from_numpy(np.unique(np.concatenate(rows))) for rows in rows_by_label]

    def template_pairs(self, tables: Sequence[pa.Table], split: str) -> PairRows:
        """Return the template pairs of one split; pairs whose source is in no language pair are left out."""
        table = self.table
        sources = pa.concat_arrays([_joined(table, "corpus", f"{side}_language", "utterance_id") for side in SIDES])
        template_of_source = torch.cat([self.pairs.template[side] for side in SIDES]).numpy()
        text: dict[str, list[np.ndarray]] = {side: [] for side in SIDES}
        template_rows, labels = [], []
        for table in tables:
            rows = table.filter(pc.equal(table["split"], split))
            # `position` of each source among the utterances of the language pairs; NaN if it is not among them.
            identities = _joined(rows, "corpus", "language", "source_utterance_id")
            position = pc.index_in(identities, value_set=sources).to_numpy(False)
            rows, position = rows.filter(pa.array(~np.isnan(position))), position[~np.isnan(position)].astype(np.int64)
            if not len(rows):
                continue
            label = self.languages.index(rows["language"][0].as_py())
            for side in SIDES:
                text[side].append(self.of_language(text_keys(rows[f"{side}_text"].to_pylist()), label))
            template_rows.append(template_of_source[position])
            labels.append(np.full(len(rows), label))
        if not labels:
            raise TrainingError(
                f"there is no template pair in {split}: the method learns from utterances that differ in the values of "
                "their slots. Train on a corpus with slots, or choose a method that needs none, such as dream"
            )
        language = _tensor(np.concatenate(labels))
        return PairRows(
            text={side: _tensor(np.concatenate(text[side])) for side in SIDES},
            language=dict.fromkeys(SIDES, language),
            template=dict.fromkeys(SIDES, _tensor(np.concatenate(template_rows))),
            residual=dict.fromkeys(SIDES, torch.full_like(language, -1)),
        )

    def mates(self, tables: Sequence[pa.Table], split: str, *, encoded: bool) -> ParallelMates:
        """Return the mates of the pairs of one split, in the order of the pairs."""
        pairs, rows = (
            table.filter(pc.equal(table["split"], split)) for table in (self.table, pa.concat_tables(tables))
        )
        identities, of_pairs = (
            _joined(table, "corpus", "source_language", "target_language", "utterance_id") for table in (rows, pairs)
        )
        pair = pc.index_in(identities, value_set=of_pairs).to_numpy(zero_copy_only=False)
        order = np.argsort(pair, kind="stable")[: int((~np.isnan(pair)).sum())]  # NaN (no pair) comes last
        mates = rows.take(pa.array(order))
        return ParallelMates(
            _tensor(pair[order]),
            _tensor(mates["mate_index"].to_numpy()),
            {side: mates[f"{side}_text"].to_pylist() for side in SIDES},
            {
                side: self._of_keys(
                    pa.chunked_array([text_keys(mates[f"{side}_text"].to_pylist())], pa.string()),
                    self._labels(mates[f"{side}_language"]),
                )
                for side in SIDES if encoded
            },
        )  # fmt: skip

    def utterances(self, tables: Sequence[pa.Table], split: str) -> dict[str, Utterances]:
        by_language = {}
        for label, language in enumerate(self.languages):
            of_language = [table for table in tables if len(table) and table["language"][0].as_py() == language]
            rows = pa.concat_tables([SCHEMAS["utterances"].empty_table(), *of_language])
            rows = rows.filter(pc.equal(rows["split"], split))
            by_language[language] = Utterances(
                ids=rows["utterance_id"].to_pylist(),
                texts=rows["text"].to_pylist(),
                tokens=rows["tokens"].to_pylist(),
                slot_tags=rows["slot_tags"].to_pylist(),
                intents=rows["intent"].to_pylist(),
                rows=_tensor(self.of_language(keys_array(rows["text_key"]), label)),
            )
        return by_language

    def texts(self, tables: Sequence[pa.Table]) -> dict[int, str]:
        """Return the texts of the training splits' sentence pairs, by bank row."""
        texts: dict[int, str] = {}
        for table in tables:
            trained = in_training_splits(table)
            if not len(trained):
                continue
            for side, language in zip(SIDES, split_pair(trained["pair"][0].as_py(), self.languages), strict=True):
                rows = self.of_language(trained[f"{side}_key"].to_pylist(), self.languages.index(language))
                texts |= dict(zip(rows.tolist(), trained[side].to_pylist(), strict=True))
        return texts


def _equals(column: pa.ChunkedArray, value: str) -> Bool[np.ndarray, " rows"]:
    return pc.equal(column, value).to_numpy()


def _joined(table: pa.Table, *columns: str) -> pa.Array:
    return pc.binary_join_element_wise(*(table[name].combine_chunks() for name in columns), "\0")


def _tensor(rows: np.ndarray) -> Int[Tensor, " rows"]:
    return torch.from_numpy(rows.astype(np.int64))


def _state_rows(
    languages: Sequence[str], vectors: Mapping[str, VectorTable], states: Mapping[str, StateTable]
) -> Int[Tensor, " texts"]:
    start, rows = 0, []
    for language in languages:
        position, has_states = positions(states[language].keys, vectors[language].keys)
        rows.append(np.where(has_states, position + start, -1))
        start += len(states[language].keys)
    return _tensor(np.concatenate(rows))
