"""Small invented corpora as problems, and random vectors for their texts."""

import numpy as np

from disent_core.evaluation import EvaluationConfig, task
from disent_core.evaluation.contract import Inputs
from disent_core.storage.tables import rows_table
from disent_core.text import text_key

ENGLISH = {"1": "good night", "2": "wake me", "3": "stop"}
GERMAN = {"3": "halt", "1": "gute nacht", "2": "weck mich"}
CONFIG = EvaluationConfig(bootstrap_samples=50)


def utterances(language, texts, split="test"):
    rows = [
        {
            "corpus": "toy",
            "language": language,
            "utterance_id": name,
            "split": split,
            "text": text,
            "tokens": text.split(),
            "slot_tags": ["O"] * len(text.split()),
            "text_key": text_key(text),
        }
        for name, text in texts.items()
    ]
    return rows_table(rows, "utterances")


def pair_inputs(left, right):
    tables = {("utterances", "en"): left, ("utterances", "de"): right}
    return Inputs(corpus="toy", languages=("en", "de"), tables=tables)


def crosslingual(english, german, config=CONFIG):
    inputs = pair_inputs(utterances("en", english), utterances("de", german))
    return task("crosslingual_retrieval").problems(inputs, config)


def vectors(texts, seed=None, dim=16):
    """A random vector for each text, the same for equal texts and seeds."""
    rows = [
        np.random.default_rng([int(key[:8], 16), 0 if seed is None else seed]).normal(size=dim) for key in texts.keys
    ]
    return {"sentence": np.array(rows)}
