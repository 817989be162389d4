"""Small builders for tests: invented utterances with random frozen embeddings, no encoder in sight."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import pad
from worlds import utterance

from disent_core.embeddings.arrays import KEY, StateTable, VectorTable
from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.targets.parallel_mates import ParallelMateConfig, parallel_mates
from disent_core.text import text_key, text_keys
from disent_core.training.build_data import training_data
from disent_core.training.data import StateBank, TrainingData, VectorBank, grouped_states

DIM = 6


def sorted_keys(texts: Iterable[str]) -> np.ndarray:
    return np.sort(np.asarray(text_keys(dict.fromkeys(texts)), dtype=KEY))


def vector_table(texts: Iterable[str], *, dim: int = DIM, seed: int = 0) -> VectorTable:
    """Random vectors of these texts, which depend on text and seed alone."""
    keys = sorted_keys(texts)
    return VectorTable("vectors", keys, np.stack([_random(key, (dim,), seed, "float32") for key in keys]))


def state_table(texts: Iterable[str], *, dim: int = DIM, seed: int = 0) -> StateTable:
    keys = sorted_keys(texts)
    states = [_random(key, (3 + key[0] % 5, dim), seed + 1, "float16") for key in keys]
    return StateTable("states", keys, np.concatenate(states), np.cumsum([0, *map(len, states)]))


def _random(key: bytes, shape: tuple[int, ...], seed: int, dtype: str) -> np.ndarray:
    return np.random.default_rng([int(key[:8], 16), seed]).standard_normal(shape).astype(dtype)


def aligned_rows(
    pair: str, *, train: int = 12, dev: int = 6, test: int = 3, corpus: str = "toy"
) -> tuple[pa.Table, dict[str, set[str]]]:
    """An `aligned_pairs` table and the texts of each language.

    Every third utterance has no slot, hence no residual and itself as template; every second one is in the pool.
    """
    texts: dict[str, set[str]] = {language: set() for language in pair.split("-")}
    rows = []
    for i, split in enumerate(["train"] * train + ["dev"] * dev + ["test"] * test):
        row = {"corpus": corpus, "pair": pair, "utterance_id": str(i), "split": split}
        for side, language in zip(("source", "target"), pair.split("-"), strict=True):
            text, has_slot = f"{corpus} {language} {i}", i % 3 > 0
            template, residual = (f"{text} <mask>", f"<mask> {i}") if has_slot else (text, None)
            texts[language] |= {text, template, residual} - {None}
            row |= {
                f"{side}_language": language,
                f"{side}_key": text_key(text),
                f"{side}_template_key": text_key(template),
                f"{side}_residual_key": residual and text_key(residual),
                f"{side}_is_negative": i % 2 == 0,
            }
        rows.append(row)
    return rows_table(rows, "aligned_pairs").cast(SCHEMAS["aligned_pairs"]), texts


@dataclass(frozen=True)
class World:
    """`aligned_pairs` of some language pairs, and the frozen embeddings of their languages."""

    aligned: list[pa.Table]
    texts: dict[str, set[str]]
    vectors: dict[str, VectorTable]
    states: dict[str, StateTable]

    templates: list[pa.Table]
    utterances: list[pa.Table]

    @property
    def data(self) -> TrainingData:
        return training_data(
            self.aligned, self.vectors, self.states, templates=self.templates, utterances=self.utterances
        )


def world(*pairs: str, dim: int = DIM, seed: int = 0, **counts: int) -> World:
    aligned, texts = [], {}
    for pair in pairs or ("en-de",):
        table, added = aligned_rows(pair, **counts)
        aligned.append(table)
        texts = {language: texts.get(language, set()) | added.get(language, set()) for language in {**texts, **added}}
    templates = [template_rows(language, aligned) for language in texts]
    for language, table in zip(texts, templates, strict=True):
        texts[language] |= set(table["target_text"].to_pylist())
    return World(
        aligned,
        texts,
        {language: vector_table(of_language, dim=dim, seed=seed) for language, of_language in texts.items()},
        {language: state_table(of_language, dim=dim, seed=seed) for language, of_language in texts.items()},
        templates,
        [utterance_rows(language, aligned) for language in texts],
    )


def mates_of(toy: World, config: ParallelMateConfig) -> list[pa.Table]:
    by_language = {table["language"][0].as_py(): table for table in toy.utterances}
    pairs = [table["pair"][0].as_py() for table in toy.aligned]
    return [parallel_mates(pair, *(by_language[code] for code in pair.split("-")), config) for pair in pairs]


def data_with_mates(toy: World, config: ParallelMateConfig) -> TrainingData:
    mates = mates_of(toy, config)
    return training_data(toy.aligned, toy.vectors, masked=False, mates=mates, utterances=toy.utterances)


def _rows_of_language(language: str, aligned: Sequence[pa.Table]) -> dict[str, dict]:
    return {
        row["utterance_id"]: row
        for table in aligned
        for row in table.to_pylist()
        if language in (row["source_language"], row["target_language"])
    }


def template_rows(language: str, aligned: Sequence[pa.Table]) -> pa.Table:
    """One target for every utterance that has a slot."""
    rows = [
        {
            **{name: row[name] for name in ("corpus", "split")},
            "language": language,
            "source_utterance_id": i,
            "target_index": 0,
            "source_text": f"{row['corpus']} {language} {i}",
            "target_text": f"{row['corpus']} {language} {i} with another value",
            "replaced_slots": [],
        }
        for i, row in _rows_of_language(language, aligned).items()
        if int(i) % 3 > 0
    ]
    return rows_table(rows, "training_template_pairs")


def utterance_rows(language: str, aligned: Sequence[pa.Table]) -> pa.Table:
    """Utterances of three intents: the last word is a slot where there is one."""
    rows = []
    for i, row in _rows_of_language(language, aligned).items():
        columns = {"corpus": row["corpus"], "split": row["split"], "intent": f"intent_{int(i) % 3}"}
        tags = ["O", "O", "B-number" if int(i) % 3 else "O"]
        rows.append(utterance(language, i, f"{row['corpus']} {language} {i}", slot_tags=tags, **columns))
    return rows_table(rows, "utterances")


def random_rows(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ragged_bank(lengths: Sequence[int], dim: int, *, seed: int) -> StateBank:
    values = VectorBank([random_rows(sum(lengths), dim, seed=seed)])
    length = torch.tensor(list(lengths))
    return StateBank(values, length.cumsum(0) - length, length)


def grouped_texts(lengths: Sequence[int], dim: int, *, seed: int) -> dict[str, torch.Tensor]:
    """Random token states as a head reads them, in float64, with more padding of a value that must not matter."""
    texts = {}
    grouped = grouped_states(ragged_bank(lengths, dim, seed=seed), torch.arange(len(lengths)).unsqueeze(0))
    for name, value in grouped.items():
        if name.startswith("states"):
            texts[name] = pad(value[0].double(), (0, 0, 0, 2), value=100.0)
        else:
            texts[name] = pad(value[0], (0, 2)) if name.startswith("mask") else value[0]
    return texts
