"""Invent small inputs of a project, edit them at random, and write them as a project's files."""

import csv
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from projects import Project

LOCALES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "fr": "fr-FR"}
CODES = {"en": "eng", "de": "deu", "es": "spa", "fr": "fra"}
SPLITS = ["train"] * 6 + ["dev"] * 2 + ["test"] * 2
CONFIG = """
[[corpora]]
name = "toy"
format = "massive"
path = "corpus"
languages = {locales}

[[corpora]]
name = "own"
format = "intents"
path = "own.csv"

[[corpora]]
name = "bitext"
format = "moses"
path = "bitext"
splits = [0.6, 0.2, 0.2]

[[corpora]]
name = "tatoeba"
format = "tatoeba"
path = "tatoeba"

[targets.code_switching]
dictionaries = "dictionaries"
probability = 0.6

[[encoders]]
name = "tiny"
kind = "huggingface"
path = {encoder}
pooling = "mean"
max_length = 32

[experiment]
pairs = {pairs}
methods = {methods}
seeds = {seeds}
device = "cpu"

[evaluation]
bootstrap_samples = 50
{evaluation}"""
SETTINGS = {
    **dict.fromkeys(("dream", "dream_oracle", "facet_first", "fmda", "fmda_two_stage", "meat", "meat_oracle", "oracle"),
                    "max_epochs = 2"),
    **dict.fromkeys(("contrastive", "emu_parallel", "npair", "softmax", "fine_tuned"), "epochs = 1"),
    "facet": "epochs = 2\ntemplate_units = 64\nresidual_units = 64\ntemplate_words = 64\nresidual_words = 64",
    "emu": 'preset = "head"\nepochs = 2',
    "token_classification": "examples = 20\nepochs = 1",
    "twosl": "examples = 20\ncontrastive_epochs = 1\nfilter_epochs = 1\ntype_epochs = 1",
}  # fmt: skip

COLUMNS = ("id", "split", "language", "intent", "text")

Utterance = tuple[str, str, tuple[tuple[str, str | None], ...]]
"""Split, intent, and words with their slots."""
Sentences = list[tuple[str, str]]


@dataclass
class Inputs:
    """The inputs of a project; `partial` is a partly parallel corpus, named `own` in the configuration."""

    utterances: dict[str, dict[str, Utterance]] = field(default_factory=dict)
    partial: dict[str, dict[str, Utterance]] = field(default_factory=dict)
    bitext: dict[str, Sentences] = field(default_factory=dict)
    tatoeba: dict[str, Sentences] = field(default_factory=dict)
    words: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    pairs: list[str] = field(default_factory=list)


Edit = Callable[[random.Random, Inputs], None]


def some_inputs(chance: random.Random, count: int = 60) -> Inputs:
    """Return parallel and partly parallel utterances in three languages, training bitext, a test set and word lists."""
    inputs = Inputs(pairs=["en-de", "de-es"])
    for language in ("en", "de", "es"):
        inputs.utterances[language] = utterances(chance, language, map(str, range(count)))
        inputs.partial[language] = utterances(chance, language, map(str, range(30)))
    inputs.bitext["en-de"] = sentences(chance, "en-de", 30)
    inputs.tatoeba["de-en"] = sentences(chance, "de-en", 12)
    inputs.words = {language: word_list(chance, language) for language in ("de", "es", "fr")}
    return inputs


def utterances(chance: random.Random, language: str, ids: Iterable[str]) -> dict[str, Utterance]:
    """Return an utterance for each id, which determines its split and intent."""
    return {utterance_id: utterance(chance, language, int(utterance_id)) for utterance_id in ids}


def utterance(chance: random.Random, language: str, number: int) -> Utterance:
    """Return a few words, up to two of them with a slot."""
    words: list[tuple[str, str | None]] = [
        (language, None),
        *((word(chance), None) for _ in range(chance.randint(1, 4))),
    ]
    for slot in chance.sample(["time", "date", "place"], chance.randint(0, 2)):
        words += [("toy", None), (word(chance), slot)]
    return SPLITS[number % len(SPLITS)], f"intent_{number % 3}", tuple(words)


def word(chance: random.Random) -> str:
    """Return a word of the tiny encoder's vocabulary."""
    return str(chance.randrange(40))


def sentences(chance: random.Random, pair: str, count: int) -> Sentences:
    """Return pairs of sentences, in the order of the pair's languages."""
    left, right = pair.split("-")
    drawn = [[word(chance) for _ in range(chance.randint(2, 5))] for _ in range(count)]
    return [(" ".join([left, *words]), " ".join([right, *reversed(words)])) for words in drawn]


def word_list(chance: random.Random, language: str) -> list[tuple[str, str]]:
    """Return translations of some words."""
    return [(str(number), f"{language}{chance.randrange(5)}") for number in range(0, 40, 2)]


# --- edits ------------------------------------------------------------------------------------------------


def change_utterances(chance: random.Random, inputs: Inputs) -> None:
    """Change the words of up to three utterances of a language."""
    corpus = chance.choice([inputs.utterances, inputs.partial])
    language = chance.choice(list(corpus))
    rows = corpus[language]
    for utterance_id in chance.sample(list(rows), chance.randint(1, 3)):
        rows[utterance_id] = utterance(chance, language, int(utterance_id))


def add_utterances(chance: random.Random, inputs: Inputs) -> None:
    """Add a new id: to all languages of the parallel corpus, and to one language of the partly parallel one."""
    for corpus, languages in (
        (inputs.utterances, list(inputs.utterances)),
        (inputs.partial, [any_language(chance, inputs.partial)]),
    ):
        new = str(max(int(utterance_id) for rows in corpus.values() for utterance_id in rows) + 1)
        for language in languages:
            corpus[language][new] = utterance(chance, language, int(new))


def delete_utterances(chance: random.Random, inputs: Inputs) -> None:
    """Delete up to two ids: from all languages of the parallel corpus, and from one of the partly parallel one."""
    for corpus, languages in (
        (inputs.utterances, list(inputs.utterances)),
        (inputs.partial, [any_language(chance, inputs.partial)]),
    ):
        for utterance_id in chance.sample(list(corpus[languages[0]]), chance.randint(1, 2)):
            for language in languages:
                del corpus[language][utterance_id]


def any_language(chance: random.Random, corpus: dict[str, dict[str, Utterance]]) -> str:
    """Return a random language with rows to spare."""
    return chance.choice([language for language, rows in corpus.items() if len(rows) > 20])


def reorder(chance: random.Random, inputs: Inputs) -> None:
    """Shuffle the lines of a language."""
    language = chance.choice(list(inputs.utterances))
    lines = list(inputs.utterances[language].items())
    chance.shuffle(lines)
    inputs.utterances[language] = dict(lines)


def toggle_language(chance: random.Random, inputs: Inputs) -> None:
    """Add French with its pair, or remove both."""
    if "fr" in inputs.utterances:
        del inputs.utterances["fr"]
        inputs.pairs = [pair for pair in inputs.pairs if "fr" not in pair] or ["en-de"]
        return
    inputs.utterances["fr"] = utterances(chance, "fr", inputs.utterances["en"])
    inputs.pairs = [*inputs.pairs, "en-fr"]


def toggle_partial_language(chance: random.Random, inputs: Inputs) -> None:
    """Add Spanish to the partly parallel corpus or remove it; the file stays."""
    if inputs.partial.pop("es", None) is None:
        inputs.partial["es"] = utterances(chance, "es", map(str, range(10, 40)))


def toggle_pair(chance: random.Random, inputs: Inputs) -> None:
    """Add or remove a pair that heads train on."""
    pair = chance.choice(["de-es", "en-es"])
    inputs.pairs = [kept for kept in inputs.pairs if kept != pair] if pair in inputs.pairs else [*inputs.pairs, pair]


def toggle_sentences(chance: random.Random, inputs: Inputs) -> None:
    """Add or remove a pair of sentence files."""
    corpus, pair = chance.choice([(inputs.tatoeba, "es-en"), (inputs.bitext, "en-es")])
    if corpus.pop(pair, None) is None:
        corpus[pair] = sentences(chance, pair, 15)


def change_sentences(chance: random.Random, inputs: Inputs) -> None:
    """Change a line of a sentence file, and delete one."""
    corpus = chance.choice([inputs.tatoeba, inputs.bitext])
    pair = chance.choice(list(corpus))
    rows = corpus[pair]
    rows[chance.randrange(len(rows))] = sentences(chance, pair, 1)[0]
    if len(rows) > 8:
        del rows[chance.randrange(len(rows))]


def change_words(chance: random.Random, inputs: Inputs) -> None:
    """Replace a word list."""
    language = chance.choice(list(inputs.words))
    inputs.words[language] = word_list(chance, language)


EDITS: tuple[Edit, ...] = (
    change_utterances, add_utterances, delete_utterances, reorder, toggle_language, toggle_partial_language,
    toggle_pair, toggle_sentences, change_sentences, change_words,
)  # fmt: skip


def rounds_of_edits(chance: random.Random, first: Inputs, per_round: int) -> Iterator[tuple[Inputs, list[str]]]:
    """Yield inputs after up to `per_round` more edits, with the edits' names; after all kinds, earlier inputs again."""
    history = [first]
    while True:
        kinds = chance.sample(EDITS, len(EDITS))
        for chosen in (kinds[start : start + per_round] for start in range(0, len(kinds), per_round)):
            history.append(deepcopy(history[-1]))
            for edit in chosen:
                edit(chance, history[-1])
            yield history[-1], [edit.__name__ for edit in chosen]
        back = chance.randrange(len(history) - 1)
        history.append(deepcopy(history[back]))
        yield history[-1], [f"undone to {back}"]


# --- files ------------------------------------------------------------------------------------------------


def write(
    inputs: Inputs, project: Project, encoder: Path, methods: list[str], seeds: list[int], evaluation: str = ""
) -> None:
    """Write the project's files from these inputs and lines of `[evaluation]`, and delete all other files."""
    for name in ("corpus", "bitext", "tatoeba", "dictionaries"):
        shutil.rmtree(project.folder / name, ignore_errors=True)
    locales = [LOCALES[language] for language in inputs.utterances]
    for language, rows in inputs.utterances.items():
        project.write(LOCALES[language], [massive_row(language, *item) for item in rows.items()])
    with (project.folder / "own.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *partial_rows(inputs)])
    for pair, rows in inputs.bitext.items():
        write_sides(project.folder / "bitext", [f"{pair}.{side}" for side in pair.split("-")], rows)
    for pair, rows in inputs.tatoeba.items():
        left, right = (CODES[side] for side in pair.split("-"))
        write_sides(project.folder / "tatoeba", [f"tatoeba.{left}-{right}.{side}" for side in (left, right)], rows)
    for language, words in inputs.words.items():
        write_sides(project.folder / "dictionaries", [f"{language}.txt"], [(f"{a} {b}",) for a, b in words])
    text = CONFIG.format(
        locales=json.dumps(locales), encoder=json.dumps(str(encoder)), pairs=json.dumps(inputs.pairs),
        methods=json.dumps(methods), seeds=json.dumps(seeds), evaluation=evaluation,
    )  # fmt: skip
    tables = [f"\n[methods.{name}]\n{SETTINGS[name]}\n" for name in methods if name in SETTINGS]
    project.config.write_text(text + "".join(tables), encoding="utf-8")


def massive_row(language: str, utterance_id: str, content: Utterance) -> dict[str, str]:
    """Return one line of a MASSIVE file."""
    split, intent, words = content
    marked = [text if slot is None else f"[{slot} : {text}]" for text, slot in words]
    return {
        "id": utterance_id, "locale": LOCALES[language], "partition": split, "scenario": "toy", "intent": intent,
        "utt": " ".join(text for text, _ in words), "annot_utt": " ".join(marked),
    }  # fmt: skip


def partial_rows(inputs: Inputs) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the partly parallel corpus."""
    for language, rows in inputs.partial.items():
        for utterance_id, (split, intent, words) in rows.items():
            yield utterance_id, split, language, intent, " ".join(text for text, _ in words)


def write_sides(folder: Path, names: list[str], rows: list[tuple[str, ...]]) -> None:
    """Write one file per column of the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(names, zip(*rows, strict=True), strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
