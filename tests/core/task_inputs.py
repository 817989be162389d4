"""Makes inputs of tasks from invented rows."""

import numpy as np

from disent_core.evaluation import EvaluationConfig, task
from disent_core.evaluation.contract import Inputs
from disent_core.storage.schemas import SCHEMAS
from disent_core.storage.tables import rows_table
from disent_core.text import text_key

CONFIG = EvaluationConfig(bootstrap_samples=50)


def utterances(language, rows, split="test"):
    """From id to (intent, text), or to (intent, text, tags)."""
    table = [
        {
            "corpus": "toy",
            "language": language,
            "utterance_id": name,
            "split": split,
            "domain": None,
            "intent": intent,
            "text": text,
            "tokens": text.split(),
            "slot_tags": tags[0].split() if tags else ["O"] * len(text.split()),
            "text_key": text_key(text),
        }
        for name, (intent, text, *tags) in rows.items()
    ]
    return rows_table(table, "utterances")


def utterance_inputs(tables, **more):
    """Inputs of tables by language."""
    return Inputs(
        corpus="toy",
        languages=tuple(tables),
        tables={("utterances", language): table for language, table in tables.items()},
        **more,
    )


def pair_table(pair, rows):
    """From id to (source, target), with more columns in a mapping behind them; split `test` unless there."""
    table = [
        {
            "corpus": "toy",
            "pair": pair,
            "pair_id": name,
            "split": "test",
            "source": source,
            "target": target,
            "score": None,
            "mean_score": None,
            "source_key": text_key(source),
            "target_key": text_key(target),
            **(more[0] if more else {}),
        }
        for name, (source, target, *more) in rows.items()
    ]
    return rows_table(table, "sentence_pairs") if table else SCHEMAS["sentence_pairs"].empty_table()


def pair_inputs(languages, rows, kind):
    """Inputs of the sentence pairs of two languages, or of one language twice."""
    pair = "-".join(languages)
    tables = {("sentence_pairs", pair): pair_table(pair, rows)}
    return Inputs(corpus="toy", languages=languages, tables=tables, kind=kind)


def problems(name, inputs, config=CONFIG):
    """Problems of a task by name."""
    return task(name).problems(inputs, config)


def scored(problem, **matrices):
    """Measurements by metric."""
    return {
        measured.metric: measured
        for measured in problem.score({role: np.asarray(rows) for role, rows in matrices.items()})
    }
