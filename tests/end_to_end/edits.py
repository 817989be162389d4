"""Small invented inputs of a project, and random edits of them: values in, values out, and a folder made from one."""

import csv
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from conftest import Project

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
"""
SETTINGS = {
    **dict.fromkeys(("dream", "dream_oracle", "facet", "fmda", "fmda_two_stage", "meat", "meat_oracle", "oracle"),
                    "max_epochs = 2"),
    **dict.fromkeys(("contrastive", "emu_parallel", "npair", "softmax", "fine_tuned"), "epochs = 1"),
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
    """What a project is made from."""

    utterances: dict[str, dict[str, Utterance]] = field(default_factory=dict)
    own: dict[str, dict[str, Utterance]] = field(default_factory=dict)
    bitext: dict[str, Sentences] = field(default_factory=dict)
    tatoeba: dict[str, Sentences] = field(default_factory=dict)
    words: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    pairs: list[str] = field(default_factory=list)


Edit = Callable[[random.Random, Inputs], None]


def some_inputs(chance: random.Random, count: int = 60) -> Inputs:
    """Utterances in three languages, parallel by id, others in part, a bitext to train on, a test set, word lists."""
    inputs = Inputs(pairs=["en-de", "de-es"])
    for language in ("en", "de", "es"):
        inputs.utterances[language] = utterances(chance, language, map(str, range(count)))
        inputs.own[language] = utterances(chance, language, map(str, range(30)))
    inputs.bitext["en-de"] = sentences(chance, "en-de", 30)
    inputs.tatoeba["de-en"] = sentences(chance, "de-en", 12)
    inputs.words = {language: word_list(chance, language) for language in ("de", "es", "fr")}
    return inputs


def utterances(chance: random.Random, language: str, ids: Iterable[str]) -> dict[str, Utterance]:
    """An utterance for each id, whose number says split and intent."""
    return {own: utterance(chance, language, int(own)) for own in ids}


def utterance(chance: random.Random, language: str, number: int) -> Utterance:
    """A few words, of which up to two have a slot."""
    words: list[tuple[str, str | None]] = [
        (language, None),
        *((word(chance), None) for _ in range(chance.randint(1, 4))),
    ]
    for slot in chance.sample(["time", "date", "place"], chance.randint(0, 2)):
        words += [("toy", None), (word(chance), slot)]
    return SPLITS[number % len(SPLITS)], f"intent_{number % 3}", tuple(words)


def word(chance: random.Random) -> str:
    """One that the tiny encoder knows."""
    return str(chance.randrange(40))


def sentences(chance: random.Random, pair: str, count: int) -> Sentences:
    """Pairs of sentences, in the order of the pair's languages."""
    left, right = pair.split("-")
    drawn = [[word(chance) for _ in range(chance.randint(2, 5))] for _ in range(count)]
    return [(" ".join([left, *own]), " ".join([right, *reversed(own)])) for own in drawn]


def word_list(chance: random.Random, language: str) -> list[tuple[str, str]]:
    """A translation for some words."""
    return [(str(number), f"{language}{chance.randrange(5)}") for number in range(0, 40, 2)]


# --- edits ------------------------------------------------------------------------------------------------


def change_utterances(chance: random.Random, inputs: Inputs) -> None:
    """Other words in up to three utterances of a language."""
    corpus = chance.choice([inputs.utterances, inputs.own])
    language = chance.choice(list(corpus))
    own = corpus[language]
    for found in chance.sample(list(own), chance.randint(1, 3)):
        own[found] = utterance(chance, language, int(found))


def add_utterances(chance: random.Random, inputs: Inputs) -> None:
    """An id that no language had: in all of them, and in one where the corpus is parallel in part only."""
    for corpus, languages in ((inputs.utterances, list(inputs.utterances)), (inputs.own, [one_of(chance, inputs.own)])):
        new = str(max(int(found) for rows in corpus.values() for found in rows) + 1)
        for language in languages:
            corpus[language][new] = utterance(chance, language, int(new))


def delete_utterances(chance: random.Random, inputs: Inputs) -> None:
    """Up to two ids go from all languages, and others from one where the corpus is parallel in part only."""
    for corpus, languages in ((inputs.utterances, list(inputs.utterances)), (inputs.own, [one_of(chance, inputs.own)])):
        for found in chance.sample(list(corpus[languages[0]]), chance.randint(1, 2)):
            for language in languages:
                del corpus[language][found]


def one_of(chance: random.Random, corpus: dict[str, dict[str, Utterance]]) -> str:
    """A language with rows to spare."""
    return chance.choice([language for language, rows in corpus.items() if len(rows) > 20])


def reorder(chance: random.Random, inputs: Inputs) -> None:
    """The lines of a language in another order."""
    language = chance.choice(list(inputs.utterances))
    lines = list(inputs.utterances[language].items())
    chance.shuffle(lines)
    inputs.utterances[language] = dict(lines)


def turn_language(chance: random.Random, inputs: Inputs) -> None:
    """French comes, with its pair, or goes."""
    if "fr" in inputs.utterances:
        del inputs.utterances["fr"]
        inputs.pairs = [pair for pair in inputs.pairs if "fr" not in pair] or ["en-de"]
        return
    inputs.utterances["fr"] = utterances(chance, "fr", inputs.utterances["en"])
    inputs.pairs = [*inputs.pairs, "en-fr"]


def turn_own(chance: random.Random, inputs: Inputs) -> None:
    """Spanish comes to the corpus that is parallel in part, or goes: its file stays."""
    if inputs.own.pop("es", None) is None:
        inputs.own["es"] = utterances(chance, "es", map(str, range(10, 40)))


def turn_entry(chance: random.Random, inputs: Inputs) -> None:
    """A pair that heads train on comes or goes."""
    pair = chance.choice(["de-es", "en-es"])
    inputs.pairs = [own for own in inputs.pairs if own != pair] if pair in inputs.pairs else [*inputs.pairs, pair]


def turn_sentences(chance: random.Random, inputs: Inputs) -> None:
    """A pair of sentence files comes or goes."""
    corpus, pair = chance.choice([(inputs.tatoeba, "es-en"), (inputs.bitext, "en-es")])
    if corpus.pop(pair, None) is None:
        corpus[pair] = sentences(chance, pair, 15)


def change_sentences(chance: random.Random, inputs: Inputs) -> None:
    """A line of a sentence file changes, and one goes."""
    corpus = chance.choice([inputs.tatoeba, inputs.bitext])
    pair = chance.choice(list(corpus))
    own = corpus[pair]
    own[chance.randrange(len(own))] = sentences(chance, pair, 1)[0]
    if len(own) > 8:
        del own[chance.randrange(len(own))]


def change_words(chance: random.Random, inputs: Inputs) -> None:
    """Another word list."""
    language = chance.choice(list(inputs.words))
    inputs.words[language] = word_list(chance, language)


EDITS: tuple[Edit, ...] = (
    change_utterances, add_utterances, delete_utterances, reorder, turn_language, turn_own, turn_entry,
    turn_sentences, change_sentences, change_words,
)  # fmt: skip


def rounds_of_edits(chance: random.Random, first: Inputs, each: int) -> Iterator[tuple[Inputs, list[str]]]:
    """Inputs after up to `each` edits more, and which: when every kind was drawn, earlier inputs again, and so on."""
    history = [first]
    while True:
        kinds = chance.sample(EDITS, len(EDITS))
        for chosen in (kinds[start : start + each] for start in range(0, len(kinds), each)):
            history.append(deepcopy(history[-1]))
            for edit in chosen:
                edit(chance, history[-1])
            yield history[-1], [edit.__name__ for edit in chosen]
        back = chance.randrange(len(history) - 1)
        history.append(deepcopy(history[back]))
        yield history[-1], [f"undone to {back}"]


# --- files ------------------------------------------------------------------------------------------------


def write(inputs: Inputs, project: Project, encoder: Path, methods: list[str], seeds: list[int]) -> None:
    """The project's files as these inputs say, and no other."""
    for name in ("corpus", "bitext", "tatoeba", "dictionaries"):
        shutil.rmtree(project.folder / name, ignore_errors=True)
    locales = [LOCALES[language] for language in inputs.utterances]
    for language, own in inputs.utterances.items():
        project.write(LOCALES[language], [massive_row(language, *item) for item in own.items()])
    with (project.folder / "own.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *own_rows(inputs)])
    for pair, own in inputs.bitext.items():
        write_sides(project.folder / "bitext", [f"{pair}.{side}" for side in pair.split("-")], own)
    for pair, own in inputs.tatoeba.items():
        left, right = (CODES[side] for side in pair.split("-"))
        write_sides(project.folder / "tatoeba", [f"tatoeba.{left}-{right}.{side}" for side in (left, right)], own)
    for language, own in inputs.words.items():
        write_sides(project.folder / "dictionaries", [f"{language}.txt"], [(f"{a} {b}",) for a, b in own])
    text = CONFIG.format(
        locales=json.dumps(locales), encoder=json.dumps(str(encoder)), pairs=json.dumps(inputs.pairs),
        methods=json.dumps(methods), seeds=json.dumps(seeds),
    )  # fmt: skip
    tables = [f"\n[methods.{name}]\n{SETTINGS[name]}\n" for name in methods if name in SETTINGS]
    project.config.write_text(text + "".join(tables), encoding="utf-8")


def massive_row(language: str, own: str, what: Utterance) -> dict[str, str]:
    """One line of a MASSIVE file."""
    split, intent, words = what
    marked = [text if slot is None else f"[{slot} : {text}]" for text, slot in words]
    return {
        "id": own, "locale": LOCALES[language], "partition": split, "scenario": "toy", "intent": intent,
        "utt": " ".join(text for text, _ in words), "annot_utt": " ".join(marked),
    }  # fmt: skip


def own_rows(inputs: Inputs) -> Iterator[tuple[str, ...]]:
    """Lines of the corpus that is parallel in part."""
    for language, own in inputs.own.items():
        for found, (split, intent, words) in own.items():
            yield found, split, language, intent, " ".join(text for text, _ in words)


def write_sides(folder: Path, names: list[str], rows: list[tuple[str, ...]]) -> None:
    """One file for each place of a row."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(names, zip(*rows, strict=True), strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
