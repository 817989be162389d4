"""The model card of an exported folder."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.routes import Routes
from disent_core.heads.identity import ENCODER_CONFIG


@dataclass(frozen=True)
class Measured:
    """One measured number: of an embedding, on a task and data set, with its 95 % interval if it has one."""

    task: str
    dataset: str
    evaluated_on: str
    embedding: str
    metric: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    gold: str = ""
    """The human score that it is compared with, of a task that has several."""

    @property
    def score(self) -> str:
        """Its metric, and the human score."""
        return f"{self.metric} with {self.gold}" if self.gold else self.metric


_ABOUT = {
    "meaning": "what the text says, whatever its language",
    "language": "the language of the text",
    "template": "what the text says without its slot values",
    "residual": "the slot values of the text",
    "sentence": "the text",
}
_CARD = """\
---
{head}
---

# {title}

A head of the method `{method}` on the encoder `{encoder}`, trained on {trained_on} with disent
and saved for sentence-transformers 6 or newer. {code}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("FOLDER"{flag})
model.encode(["wake me up at nine"], task="{first}")
```

A load report that `pooler.dense` is missing is harmless: no route reads that layer.

| `task=` | embedding of |
| --- | --- |
{routes}

{default} Compare vectors by their cosine.{graph}
The encoder reads {max_length} tokens of a text and ignores the rest.{left_out}

## Trained on

Languages: {languages}. {seed}Fingerprint of the weights: `{fingerprint}`. All settings are in `disent_head.json`.
{measured}
## Exact

When this folder was written it gave the head's own vectors of eight texts, which `disent_head.json` has, up to rounding
(2e-6 of the largest value, states in float32). `disent check FOLDER` compares again, and tells a file that has changed.
Licence: that of the encoder and of the training corpora.
"""
_CODE = "Its head is computed by `modeling_disent.py` in this folder, hence the flag."
_GRAPH = """

`disent.onnx` is the same as one ONNX graph with an output for each of them:

```python
import onnxruntime
from transformers import AutoTokenizer{imports}

session = onnxruntime.InferenceSession("FOLDER/disent.onnx")
tokeniser = AutoTokenizer.from_pretrained("FOLDER")
inputs = dict(tokeniser(texts, padding=True, truncation=True, max_length={max_length}, return_tensors="np"))
{words}names = [one.name for one in session.get_inputs()]
session.run(["{first}"], {{name: inputs[name] for name in names}})
```
"""
_IMPORT = "\nfrom transformers.dynamic_module_utils import get_class_from_dynamic_module"
_WORDS = """\
word_rows = get_class_from_dynamic_module("word_rows.word_rows", "FOLDER")  # runs word_rows.py of the folder
inputs["word_rows"] = word_rows(texts)
"""
_TAGGER = """\
---
{head}
---

# {title}

A tagger of the method `{method}`: the encoder `{encoder}`, fine-tuned on the slots of {trained_on} with disent.
Loading it runs no code from this folder.

```python
from transformers import AutoModelForTokenClassification, AutoTokenizer

tokeniser = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForTokenClassification.from_pretrained("FOLDER")


def tags(words):
    inputs = tokeniser(words, is_split_into_words=True, truncation=True, max_length={max_length}, return_tensors="pt")
    best, found = model(**inputs).logits[0].argmax(-1).tolist(), ["O"] * len(words)
    for position, word in reversed(list(enumerate(inputs.word_ids()))):
        if word is not None:  # the last one that is written is the word's first sub-word
            found[word] = model.config.id2label[best[position]]
    return found


tags("wake me up at nine".split())
```
{graph}
## Trained on

Languages: {languages}. Seed {seed}. Fingerprint of the weights: `{fingerprint}`. All settings are in
`disent_head.json`.
{measured}
## Exact

When this folder was written it gave the tagger's own tags of eight sentences, and logits up to rounding (2e-6 of the
largest). `disent check FOLDER` compares again, and tells a file that has changed.
Licence: that of the encoder and of the training corpora.
"""
_TAGGER_GRAPH = """
`disent.onnx` is the same as an ONNX graph, from `input_ids` and `attention_mask` to `logits`.
"""
_MEASURED = """
## Measured

On test data, with 95 % intervals. What `language` reaches in retrieval is leakage: it should find nothing.

| task | data set | on | embedding | metric | value | n |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
"""


def card(head: SavedHead, seed: int | None, routes: Routes, measured: Sequence[Measured], *, onnx: bool = False) -> str:
    """Return the card: Markdown with a YAML head, whose values are JSON, which is YAML too."""
    about: Any = head.description
    names = list(routes.steps)
    rows = [row for row in measured if routes.by_language or row.embedding in names]
    title = f"{about['name']} on {about['encoder']}, {about['trained_on']}"
    return _CARD.format(
        head="\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in _head(head, title, rows)),
        title=title,
        code=_CODE if routes.needs_code else "Loading it runs no code from this folder.",
        flag=", trust_remote_code=True" if routes.needs_code else "",
        method=about["name"],
        encoder=about["encoder"],
        trained_on=about["trained_on"],
        first=routes.default or names[0],
        routes="\n".join(f"| `{name}` | {_about(name, by_language=routes.by_language)} |" for name in names),
        default=f"Without `task=`, and in `encode_query` and `encode_document`, it is `{routes.default}`."
        if routes.default
        else "`task=` is the language of the texts, so `encode_query` and `encode_document` have no route.",
        graph=_graph(routes, head) if onnx else "",
        max_length=_max_length(head),
        left_out=_left_out(routes),
        languages=", ".join(about["languages"]),
        seed="" if seed is None else f"Seed {seed}. ",
        fingerprint=head.content,
        measured=_MEASURED.format(rows="\n".join(map(_row, rows))) if rows else "",
    )


def tagger_card(head: SavedHead, seed: int | None, measured: Sequence[Measured], *, onnx: bool) -> str:
    """Return the card of a tagger."""
    about: Any = head.description
    title = f"{about['name']} on {about['encoder']}, {about['trained_on']}"
    return _TAGGER.format(
        head="\n".join(
            f"{key}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in _head(head, title, measured, "transformers", "token-classification")
        ),
        title=title,
        method=about["name"],
        encoder=about["encoder"],
        trained_on=about["trained_on"],
        max_length=_max_length(head),
        graph=_TAGGER_GRAPH if onnx else "",
        languages=", ".join(about["languages"]),
        seed=seed,
        fingerprint=head.content,
        measured=_MEASURED.format(rows="\n".join(map(_row, measured))) if measured else "",
    )


def _max_length(head: SavedHead) -> int:
    return head.source.model_config.max_length  # pyright: ignore[reportAttributeAccessIssue]


def _graph(routes: Routes, head: SavedHead) -> str:
    imports, words = (_IMPORT, _WORDS) if routes.reads_words else ("", "")
    first = routes.default or next(iter(routes.steps))
    return _GRAPH.format(imports=imports, words=words, first=first, max_length=_max_length(head))


def _head(
    head: SavedHead,
    title: str,
    rows: Sequence[Measured],
    library: str = "sentence-transformers",
    pipeline: str = "sentence-similarity",
) -> Iterator[tuple[str, Any]]:
    yield "library_name", library
    yield "pipeline_tag", pipeline
    yield "language", list(dict.fromkeys(name.split("-")[0] for name in head.description["languages"]))
    if base := head.description[ENCODER_CONFIG].get("id"):
        yield "base_model", base
    yield "tags", [library, "disent", head.method.name]
    if rows:
        yield "model-index", [{"name": title, "results": [_result(row) for row in rows]}]


def _result(row: Measured) -> dict[str, Any]:
    where = f"{row.dataset} {row.evaluated_on}"
    metric = {"type": row.metric, "value": row.value, "name": f"{row.score} of {row.embedding or 'tags'}"}
    return {
        "task": {"type": row.task},
        "dataset": {"type": row.dataset, "name": where},
        "metrics": [metric],
    }


def _row(row: Measured) -> str:
    interval = "" if row.ci_low is None else f" [{row.ci_low:.3f}, {row.ci_high:.3f}]"
    where = f"{row.task} | {row.dataset} | {row.evaluated_on} | {row.embedding} | {row.score}"
    return f"| {where} | {row.value:.3f}{interval} | {row.n} |"


def _about(name: str, *, by_language: bool) -> str:
    return f"texts in {name}" if by_language else _ABOUT.get(name, name)


def _left_out(routes: Routes) -> str:
    if not routes.left_out:
        return ""
    names = ", ".join(f"`{name}`" for name in routes.left_out)
    return f" The head also has {names}, which `disent export --embeddings` adds."
