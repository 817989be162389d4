"""Makes inputs of tasks from invented rows, and vectors and late interactions for their texts."""

from datetime import UTC, datetime

import numpy as np
from worlds import sentence_pair, utterance

from disent_core.evaluation import EvaluationConfig, task
from disent_core.evaluation.contract import Inputs
from disent_core.evaluation.runner import evaluate
from disent_core.storage.tables import rows_table

CONFIG = EvaluationConfig(bootstrap_samples=50)
ENGLISH = {"1": "good night", "2": "wake me", "3": "stop"}
GERMAN = {"3": "halt", "1": "gute nacht", "2": "weck mich"}


def utterances(language, rows, split="test"):
    """From id to text, to (intent, text), or to (intent, text, tags)."""
    full_rows = {name: (None, row) if isinstance(row, str) else row for name, row in rows.items()}
    table = [
        utterance(language, name, text, split=split, intent=intent, **({"slot_tags": tags[0].split()} if tags else {}))
        for name, (intent, text, *tags) in full_rows.items()
    ]
    return rows_table(table, "utterances")


def utterance_inputs(tables, **more):
    return Inputs(
        corpus="toy",
        languages=tuple(tables),
        tables={("utterances", language): table for language, table in tables.items()},
        **more,
    )


def pair_table(pair, rows):
    """From id to (source, target), with more columns in a mapping behind them; split `test` unless there."""
    table = [sentence_pair(pair, name, *row[:2], **dict(*row[2:])) for name, row in rows.items()]
    return rows_table(table, "sentence_pairs")


def pair_inputs(languages, rows, kind):
    """Inputs of the sentence pairs of two languages, or of one language twice."""
    pair = "-".join(languages)
    tables = {("sentence_pairs", pair): pair_table(pair, rows)}
    return Inputs(corpus="toy", languages=languages, tables=tables, kind=kind)


def template_inputs(targets, language="en"):
    rows = [
        {"corpus": "toy", "language": language, "split": "test", "source_utterance_id": name, "target_index": index,
         "source_text": source, "target_text": target, "replaced_slots": []}
        for name, (source, source_targets) in targets.items()
        for index, target in enumerate(source_targets)
    ]  # fmt: skip
    tables = {("template_pairs", language): rows_table(rows, "template_pairs")}
    return Inputs(corpus="toy", languages=(language,), tables=tables)


def switched_inputs(rows, pair="de-en", switched="de", split="test"):
    """From pair id to switched text, original in English, number of words and words that were replaced."""
    table = [
        {"corpus": "toy", "pair": pair, "pair_id": name, "split": split, "switched_language": switched,
         "switched": text, "original_language": "en", "original": original, "words": words,
         "replaced_words": [{"old": old, "new": "x"} for old in replaced]}
        for name, (text, original, words, replaced) in rows.items()
    ]  # fmt: skip
    tables = {("code_switched_pairs", pair): rows_table(table, "code_switched_pairs")}
    return Inputs(corpus="toy", languages=tuple(pair.split("-")), tables=tables, kind="translations")


def problems(name, inputs, config=CONFIG):
    return task(name).problems(inputs, config)


def crosslingual(english, german, config=CONFIG):
    tables = {"en": utterances("en", english), "de": utterances("de", german)}
    return problems("crosslingual_retrieval", utterance_inputs(tables), config)


def scored(problem, **matrices):
    return {
        measured.metric: measured
        for measured in problem.score({role: np.asarray(rows) for role, rows in matrices.items()})
    }


def vectors(texts, seed=None, dim=16):
    """A random vector for each text, the same for equal texts and seeds."""
    rows = [
        np.random.default_rng([int(key[:8], 16), 0 if seed is None else seed]).normal(size=dim) for key in texts.keys
    ]
    return {"sentence": np.array(rows)}


def evaluated(of_problems, embed=vectors, label=None, *, seeds=None, config=CONFIG):
    subject = {"method": "dream", "encoder": "tiny", "trained_on": "en-de", "fingerprint": "f"}
    now = datetime(2024, 5, 1, tzinfo=UTC)
    return evaluate(of_problems, embed, label, **subject, seeds=seeds, config=config, created_at=now)


class Late:
    """A late interaction of given values, which `compare` compares by broadcasting; counts how often it does."""

    compared = 0

    def __init__(self, values, compare):
        self.values, self.compare = np.asarray(values), compare

    def __len__(self):
        return len(self.values)

    def take(self, rows):
        return Late(self.values[rows], self.compare)

    def identities(self):
        return self.values if self.values.ndim == 1 else np.arange(len(self.values))

    def similarity(self, pool):
        Late.compared += 1
        return self.compare(self.values[:, None], pool.values).astype(np.float32)

    def paired(self, other):
        return self.compare(self.values, other.values).astype(np.float32)
