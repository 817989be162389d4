"""Train a static model on a table of translations, without a configuration and without Dagster.

    trained = disent.train("requests.csv", "my_model")
    trained.model.encode(["wake me up at nine"], "values")
    print(trained)                                     # its accuracy, beside other models

The table is long (`language`, `text` and `id`) or wide (`en`, `de`, ...); see docs/corpora.md. Slots in brackets, as in
`wake me up at [time : nine]`, teach the model shape and values; without slots it learns only meaning.
"""

import json
import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from disent.extras import needing_extra
from disent.home import expanded
from disent.model import SMALL, load, models
from disent_core.errors import CorpusError, TrainingError, located

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from disent_core.evaluation.contract import Problem
    from disent_core.lineage.step import Step
    from disent_core.lineage.workspace import Key, Workspace
    from disent_core.static_model import StaticModel

METHOD, NAME = "facet_static", "data"
STEPS, SMALLEST_PASS = 300, 32
"""Least optimiser steps of a training, reached on a small table by more passes, and least steps of a pass."""
SURE = 30  # a measure on fewer texts is marked as uncertain
log = logging.getLogger("disent.training")

CONFIGURATION = """\
#:schema disent.schema.json
# A table of translations, and a table of words trained on it; `disent settings` lists all keys.

[[corpora]]
name = "{name}"
format = "intents"
path = {path}

[[encoders]]
name = "words"
kind = "words"

[training_sets.{name}]
pivot = "{pivot}"

[experiment]
pairs = ["{name}"]
methods = ["raw", "{method}"]
seeds = [{seed}]

# Mates drawn by the source are translations of each other in all languages.

[targets.parallel_mates]
draw = "by_source"

[methods.{method}]
batch_size = {batch_size}
epochs = {epochs}
"""


class Measured(NamedTuple):
    """A measure of a model on the texts of the test split.

    Attributes:
        model: `untrained` (hashed words), `trained`, or the name of a model that disent comes with.
        measure: `translation` (accuracy at 1 among the texts of the other language); `label` (accuracy of a classifier
            that learned the labels from texts of another language); for a table with slots also `shape` and `values`
            (accuracy at 1, as in the tasks `same_template_retrieval` and `value_retrieval`), and the same by the part
            that should not find it, `shape by values` and `values by shape`.
        of: `en-de`: from English to German; `en`: among texts in English.
        value: between 0 and 1.
        low, high: its 95 % interval over texts (Wilson).
        n: texts.
    """

    model: str
    measure: str
    of: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Trained:
    """What `train` returns.

    Attributes:
        model: the static model.
        folder: where it lies; `disent.load` opens it.
        measured: measures of this model and others.
        counts: for each language except the pivot, how many of its texts are translations, in the splits `train`, `dev`
            (on which the settings were fixed) and `test` (on which the model is measured).
    """

    model: "StaticModel"
    folder: Path
    measured: list[Measured]
    counts: dict[str, dict[str, int]]

    @property
    def has_shape(self) -> bool:
        """Whether the model has learned shape and values, from a table with slots."""
        return "template" in self.model.names

    def __str__(self) -> str:
        models = list(dict.fromkeys(row.model for row in self.measured))
        cells = {(row.measure, row.of, row.model): row for row in self.measured}
        rows = [["measure", "languages", "n", *models]]
        for measure, of in dict.fromkeys((row.measure, row.of) for row in self.measured):
            by_model = [cells.get((measure, of, model)) for model in models]
            n = next(row.n for row in by_model if row is not None)
            rows.append([measure, of, str(n), *("" if row is None else _cell(row) for row in by_model)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if {row.measure for row in self.measured} & {"shape", "values"} == {"shape"}:
            lines += ["", "Values are not measured: no two test texts of a language share theirs."]
        if any(row.n < SURE for row in self.measured):
            lines += ["", f"Fewer than {SURE} texts tell little: look at the intervals."]
        return "\n".join(lines)


def _counted(counts: dict[str, dict[str, int]]) -> str:
    of_language = (f"{code} {', '.join(f'{n} {split}' for split, n in of.items())}" for code, of in counts.items())
    return f"translations: {'; '.join(of_language)}"


def _cell(row: Measured) -> str:
    return f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"


def train(
    data: str | Path,
    folder: str | Path,
    *,
    extend: "StaticModel | str | Path | None" = None,
    seed: int = 0,
    bits: int = 8,
    licence: str | None = None,
    overwrite: bool = False,
) -> Trained:
    """Train a static model on a table, write it, and measure it, untrained words and the model `small`.

    With `extend`, add the table's new languages to a model, in seconds, by their translations into a language it has.
    Its other rows stay the same to the bit, slots are not read, and it is measured beside the unextended model.

    Args:
        data: CSV, TSV, JSONL or Parquet file, or a folder of such files, with texts of at least two languages. Rows
            without a split are drawn, 80 % for training and 10 % for the measures.
        folder: a new folder, or with `overwrite` one of an earlier model.
        extend: a static model, or its name or folder.
        seed: of the training.
        bits: of a weight, 4 or 8; an extended model keeps its own.
        licence: of the weights, such as `CC-BY-4.0`, for the card; None: not stated, or that of the extended model.
        overwrite: replace the model in the folder.

    Raises:
        ValueError: if the folder has a model or other files or can't be created, or an argument is out of range.
        CorpusError: if the table can't be read, or has one language only.
        TrainingError: if too few of its texts are translations of each other, or there is no language to add.
        ModuleNotFoundError: if a library is not installed: `pip install 'disent-embeddings[train]'`.
    """
    from disent_core.storage.files import temporary_folder
    from disent_core.text import is_whole

    if not is_whole(seed, least=0):
        raise ValueError(f"seed is {seed!r}; it must be a whole number, at least 0")
    if bits not in (4, 8):
        raise ValueError(f"bits is {bits!r}; it must be 4 or 8")
    with needing_extra("train"), temporary_folder() as home:
        from disent_core.config.load import load_config
        from disent_core.export.static import of_head
        from disent_core.lineage.saved_heads import open_head
        from disent_core.lineage.steps import steps
        from disent_core.lineage.workspace import TEMPLATES, UTTERANCES, Workspace
        from disent_core.static_folder import is_static

        target, path = expanded(folder), home / "disent.toml"
        if target.is_file():
            raise ValueError(f"{target} is a file; name a folder for the model")
        if target.exists() and any(target.iterdir()) and not (overwrite and is_static(target)):
            remedy = "Name a new one, or overwrite it (--overwrite)" if is_static(target) else "Name a new one"
            raise ValueError(f"{target} has {'a model' if is_static(target) else 'other files'} already. {remedy}")
        try:  # fail before the training, not after it
            target.absolute().parent.mkdir(parents=True, exist_ok=True)
            with temporary_folder(target.absolute().parent):
                pass
        except OSError as error:
            problem = f"no folder can be made in {target.absolute().parent} ({error.strerror or error})"
            raise ValueError(f"{problem}. Name another folder for the model") from error
        path.write_text(configuration_of(Path(data), seed=seed), encoding="utf-8")
        workspace = Workspace(load_config(path), home / "data")
        _make([step for step in steps(workspace) if step.key[0] == "corpora"])
        tables, pivot = _tables(workspace, UTTERANCES), workspace.config.pairs_of(NAME)[0][0]
        counts = _translations(tables, pivot)
        log.info("%s", _counted(counts))
        for code, of_language in counts.items():
            if lacking := tables[pivot].num_rows - sum(of_language.values()):
                log.warning(
                    "%d of %d texts in %s have no translation in %s", lacking, tables[pivot].num_rows, pivot, code
                )
        if extend is not None:
            return _extended(extend, tables, target, seed, counts, licence)
        _require_enough(Path(data), counts)
        _make([step for step in steps(workspace) if step.key[0] not in ("corpora", "evaluation")])
        head = open_head(workspace.head("words", METHOD, NAME), device="cpu")
        rows = [{"language": code, "rows": table.num_rows, **counts.get(code, {})} for code, table in tables.items()]
        facts: dict[str, Any] = {"bits": bits, "name": target.name, "data": rows}
        facts |= {} if licence is None else {"licence": licence}
        trained = of_head(head, seed, **facts)
        compared = _others(trained) | {"trained": trained}
        measured = _measured(tables, pivot, compared, _tables(workspace, TEMPLATES))
        model = of_head(head, seed, measured=[row._asdict() for row in measured], **facts)
    model.save(target)
    model.path = target
    return Trained(model, target, measured, counts)


def _make(needed: "Sequence[Step]") -> None:
    for step in needed:
        for partition in step.names:
            log.info("%s%s", "/".join(step.key), f" [{partition}]" if partition else "")
            step.make(partition or "")


def _translations(tables: "dict[str, pa.Table]", pivot: str) -> dict[str, dict[str, int]]:
    """Count the texts of each language except the pivot that are translations of the pivot's texts, by split."""
    import pyarrow.compute as pc

    counts: dict[str, dict[str, int]] = {}
    for code in (code for code in tables if code != pivot):
        is_translation = pc.is_in(tables[code]["utterance_id"], tables[pivot]["utterance_id"])
        known = Counter(tables[code]["split"].filter(is_translation).to_pylist())
        counts[code] = {split: known[split] for split in ("train", "dev", "test")}
    return counts


def _require_enough(data: Path, counts: dict[str, dict[str, int]]) -> None:
    if not any(sum(of_language.values()) for of_language in counts.values()):
        remedy = "Give translations the same `id`, or each language a column"
        raise TrainingError(located(data, None, "none of its texts is a translation of another", remedy))
    for split in ("train", "dev", "test"):
        if not any(of_language[split] for of_language in counts.values()):
            remedy = "Add rows (80 % are drawn for train, 10 % each for dev and test), or a column split"
            raise TrainingError(located(data, None, f"no {split} rows ({_counted(counts)})", remedy))


def _extended(
    extend: "StaticModel | str | Path",
    tables: "dict[str, pa.Table]",
    target: Path,
    seed: int,
    counts: dict[str, dict[str, int]],
    licence: str | None,
) -> Trained:
    """Add a table's new languages to a model, write it, and measure it beside the model as it was."""
    from disent_core.export.added_language import with_language
    from disent_core.static_model import StaticModel

    model = load(extend) if isinstance(extend, str | Path) else extend
    if not isinstance(model, StaticModel):
        raise ValueError(
            f"{extend} is a trained head, and only static models can be extended; name one of disent.models()"
        )
    known = [code for code in model.languages if code in tables]
    new = [code for code in tables if code not in model.languages]
    if not known or not new:
        problem = f"the model has {', '.join(model.languages)} and the table has {', '.join(tables)}"
        raise TrainingError(
            f"{problem}: to add a language, the table needs its texts with translations into a language of the model"
        )
    extended = model
    texts_of = {code: _columns(_split(tables[code], "train"), "utterance_id", "text") for code in (*known, *new)}
    translations = {key: text for code in reversed(known) for key, text in zip(*texts_of[code], strict=True)}
    for language in new:
        pairs = [(text, translations[key]) for key, text in zip(*texts_of[language], strict=True)
                 if key in translations]  # fmt: skip
        if len(pairs) < 2:
            raise TrainingError(f"no training texts in {language} are translations of texts in {', '.join(known)}")
        log.info("%s: %d texts, translations in %s", language, len(pairs), ", ".join(known))
        texts, translated = zip(*pairs, strict=True)
        extended = with_language(extended, texts, translated, language, seed=seed)
    languages = {code: tables[code] for code in (known[0], *new)}
    measured = _measured(languages, known[0], {"before": model, "trained": extended})
    facts = {"extended": model.description.get("name", "a model"), "added": new}
    facts |= {"measured": [row._asdict() for row in measured]} | ({} if licence is None else {"licence": licence})
    extended = extended.described(name=target.name, **facts)
    extended.save(target)
    extended.path = target
    return Trained(extended, target, measured, counts)


def configuration_of(data: Path, seed: int = 0, path: str | None = None) -> str:
    """Return the text of a configuration that trains on a table; `disent init --from` writes the same.

    The configuration has the `path` of the table; None: the absolute path.
    """
    from disent_core.corpora.formats import intents

    source = expanded(data).resolve()
    if not source.exists():
        raise CorpusError(located(data, None, "there is no such file or folder", "Check the path"))
    locales = intents.locales(source)
    if len(locales) < 2:
        problem = f"all its texts are in {locales[0]}, and a model is trained on translations"
        raise CorpusError(located(data, None, problem, "Add texts of another language with the ids of their originals"))
    codes = {intents.language_of(locale): locale for locale in locales}
    rows = {code: intents.read_utterances(source, locale, corpus=NAME, language=code) for code, locale in codes.items()}
    pivot = max(sorted(codes, key=lambda code: code != "en"), key=lambda code: rows[code].num_rows)
    count = rows[pivot].num_rows
    batch_size = next(size for size in (512, 256, 128, 64) if count >= size * SMALLEST_PASS or size == 64)
    steps = -(-count // batch_size) * -(-(len(codes) - 1) // 3)
    return CONFIGURATION.format(
        name=NAME,
        path=json.dumps(path or str(source), ensure_ascii=False),
        pivot=pivot,
        method=METHOD,
        seed=seed,
        batch_size=batch_size,
        epochs=max(3, -(-STEPS // steps)),
    )


def _tables(workspace: "Workspace", key: "Key") -> "dict[str, pa.Table]":
    from disent_core.storage.tables import SCHEMAS, read_table

    schema, codes = SCHEMAS[key[1]], workspace.config.utterance_languages
    return {code: read_table(workspace.table(*key, NAME, code), schema) for code in codes}


# --- measures ---------------------------------------------------------------------------------------------


def _others(trained: "StaticModel") -> "dict[str, StaticModel]":
    """Return the model before training (hashed words only) and, if it is installed, the model `small`."""
    import numpy as np

    from disent_core.static_model import StaticModel

    header = trained.header
    words: dict[str, Any] = {"parts": header.parts, "seed": header.seed, "table_rows": header.table_rows}
    compared = {"untrained": StaticModel.of_table([], np.zeros((0, header.dim)), **words)}
    if any(model.name == SMALL for model in models()):
        compared[SMALL] = load()
    return compared


def _measured(
    tables: "dict[str, pa.Table]",
    pivot: str,
    compared: "dict[str, StaticModel]",
    pairs: "Mapping[str, pa.Table] | None" = None,
) -> list[Measured]:
    """Measure models on the pairs of the pivot with each other language, and their parts on the template pairs."""
    from disent_core.static_model import UnseenTextWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenTextWarning)  # missing languages are part of the measure
        of_languages = [
            row
            for name, model in compared.items()
            for other in tables
            if other != pivot
            for row in (
                *translation(name, model, tables, (pivot, other)),
                *translation(name, model, tables, (other, pivot)),
                *_label(name, model, tables, (pivot, other)),
            )
        ]
        return [*of_languages, *of_parts(tables, pairs or {}, compared)]


def _split(table: "pa.Table", split: str) -> "pa.Table":
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["split"], split))


def translation(
    name: str, model: "StaticModel", tables: "dict[str, pa.Table]", languages: tuple[str, str]
) -> Iterator[Measured]:
    """Yield the accuracy at 1 of finding a test text's translation among the test texts of the other language."""
    import numpy as np

    from disent_core.evaluation.metrics.ranking import first_is_gold, nearest

    queries, pool = (_split(tables[code], "test") for code in languages)
    place = {identifier: index for index, identifier in enumerate(pool["utterance_id"].to_pylist())}
    asked = zip(*_columns(queries, "utterance_id", "text"), strict=True)
    pairs = [(text, place[key]) for key, text in asked if key in place]
    if not pairs:
        return
    texts, gold = zip(*pairs, strict=True)
    neighbours = nearest(model.encode(texts), model.encode(pool["text"].to_pylist()), 2)
    yield _proportion(name, "translation", languages, first_is_gold(*neighbours, np.array(gold), ties="lowest"))


def _label(
    name: str, model: "StaticModel", tables: "dict[str, pa.Table]", languages: tuple[str, str]
) -> Iterator[Measured]:
    """Yield the accuracy on one language of a classifier that learned labels from texts of another."""
    import numpy as np

    from disent.classifier import Classifier

    known, asked = (
        _split(tables[code], split).select(["text", "intent"]).drop_null()
        for code, split in zip(languages, ("train", "test"), strict=True)
    )
    labels = known["intent"].unique().to_pylist()
    if len(labels) < 2 or not set(labels) & set(asked["intent"].to_pylist()):
        return
    predicted = Classifier(model).fit(*_columns(known, "text", "intent")).predict(asked["text"].to_pylist())
    yield _proportion(name, "label", languages, predicted == np.array(asked["intent"].to_pylist()))


def of_parts(
    tables: "dict[str, pa.Table]", pairs: "Mapping[str, pa.Table]", compared: "dict[str, StaticModel]"
) -> Iterator[Measured]:
    """Yield how often a test text's nearest neighbour by shape (or values) has the same shape (or values), given slots.

    Each part is also measured on what only the other part should find.
    """
    from disent_core.embedding_names import ALIASES
    from disent_core.evaluation.contract import EvaluationConfig, Inputs
    from disent_core.evaluation.tasks.monolingual_retrieval import VALUES
    from disent_core.evaluation.tasks.template_retrieval import SAME_TEMPLATE

    for measure, task in (("shape", SAME_TEMPLATE), ("values", VALUES)):
        for code, of_code in pairs.items():
            read = {("utterances", code): tables[code], ("template_pairs", code): of_code}
            inputs = Inputs(corpus=NAME, languages=(code,), tables=read)
            for problem in cast("list[Problem]", task.problems(inputs, EvaluationConfig())):
                for part in sorted(ALIASES, key=lambda part: part != measure):
                    asked = measure if part == measure else f"{measure} by {part}"
                    for name, model in compared.items():
                        if ALIASES[part] in model.names:
                            yield scored(name, asked, problem, model, part)


def scored(name: str, measure: str, problem: "Problem", model: "StaticModel", embedding: str) -> Measured:
    """Return the share of a problem's texts that a model's embedding gets right."""
    vectors = {role: model.encode(texts.texts or (), embedding) for role, texts in problem.texts.items()}
    right = cast("np.ndarray", problem.score(vectors)[0].items)
    return _proportion(name, measure, (problem.evaluated_on,), right)


def _columns(table: "pa.Table", *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def _proportion(model: str, measure: str, languages: tuple[str, ...], right: "np.ndarray") -> Measured:
    from disent_core.evaluation.metrics.intervals import wilson

    count, n = int(right.sum()), len(right)
    return Measured(model, measure, "-".join(languages), count / n, *wilson(count, n), n)
