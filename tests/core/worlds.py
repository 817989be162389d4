"""Small configurations and rows that tests of several folders share."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from disent_core.corpora.lines import sentence_pairs_table
from disent_core.text import text_key


def section(name: str, /, **keys: object) -> str:
    """Return a table of TOML, in which numbers, texts and lists are as in JSON."""
    return f"\n[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def corpus(name: str, format: str = "massive", **keys: object) -> str:
    return section("[corpora]", **{"name": name, "format": format, "path": name} | keys)


def encoder(name: str = "toy", kind: str = "scratch", **keys: object) -> str:
    return section("[encoders]", name=name, kind=kind, **keys)


def experiment(*methods: str, pairs: Sequence[str] = ("en-de",), **keys: object) -> str:
    return section("experiment", pairs=pairs, methods=methods or ["raw"], **keys)


def utterance(language: str, name: str, text: str, **changes: object) -> dict[str, Any]:
    """Return a row of `utterances`, whose tokens are its words and have no slots unless `changes` say otherwise."""
    tokens = text.split()
    row = {"corpus": "toy", "language": language, "utterance_id": name, "split": "test", "domain": None, "intent": None}
    row |= {"text": text, "tokens": tokens, "slot_tags": ["O"] * len(tokens), "text_key": text_key(text)}
    return row | changes


def sentence_pair(pair: str, name: str, source: str, target: str, **changes: object) -> dict[str, Any]:
    """Return a row of `sentence_pairs`, without scores unless `changes` say otherwise."""
    row = {"corpus": "toy", "pair": pair, "pair_id": name, "split": "test", "source": source, "target": target}
    row |= {"score": None, "mean_score": None, "source_key": text_key(source), "target_key": text_key(target)}
    return row | changes


def sentence_pairs(
    sentences: Sequence[tuple[str, str]], pair: str = "en-de", splits: Sequence[str] = (), corpus: str = "toy"
) -> pa.Table:
    """Return `sentence_pairs` that are numbered, in `test` unless there are other splits."""
    ids, splits = [str(number) for number in range(len(sentences))], splits or ["test"] * len(sentences)
    sources, targets = ([side[place] for side in sentences] for place in (0, 1))
    return sentence_pairs_table(corpus, pair, pair_id=ids, split=splits, source=sources, target=targets)


TOY = corpus("one", languages=["en-US", "de-DE"]) + encoder() + experiment()
"""A configuration with one corpus, one encoder and the method `raw`."""
METRIC = {
    "task": "sts", "dataset": "toy", "method": "gone", "encoder": "toy", "trained_on": "", "evaluated_on": "en-de",
    "embedding": "sentence", "metric": "pearson", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 100, "seed": None,
    "settings": "{}", "fingerprint": "f", "created_at": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip
"""A row of the table `metrics`."""
