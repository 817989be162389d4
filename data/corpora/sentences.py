"""Make sentences from the grammar in `grammar/`: the same command in four languages, with its slot values.

`grammar/templates/<intent>.txt` holds blocks of one line per language; `grammar/lexicon/<slot>.txt` one value per
line, `en | de | es | ja`, each with an optional `/class` such as a gender; `grammar/agreement.txt` the words that
follow a class. In a template `{slot}` is an annotated value and `<word:slot>` an unannotated word that agrees with
it. `{slot-kind}` draws from a narrower lexicon of the same slot, `{slot#2}` is a second, different value. Every
choice is made by a hash, so a new template does not change the sentences of others.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LANGUAGES = ("en", "de", "es", "ja")
UNSPACED = frozenset({"ja"})

MARK = re.compile(r"\{(?P<slot>[\w#-]+)\}|<(?P<word>[\w-]+):(?P<head>[\w#-]+)>")
UNIT = re.compile(r"\[([a-z_]+) : ([^\]]+)\]|([^\[\]]+)")
# Japanese has no spaces: a run of kanji, of katakana or of other characters passes for a word.
UNSPACED_WORD = re.compile(r"[一-鿿々]+|[ァ-ヿ]+|[^\s一-鿿々ァ-ヿ]+")


@dataclass(frozen=True)
class Value:
    """One slot value in one language; `kind` is its agreement class, empty for the default."""

    text: str
    kind: str


Row = Mapping[str, Value]
"""A line of a lexicon: language -> value."""
Chosen = Mapping[str, Row]
"""The values of an utterance, by placeholder."""
Lexicons = Mapping[str, Sequence[Row]]
Agreement = Mapping[tuple[str, str], Mapping[str, str]]


@dataclass(frozen=True)
class Template:
    """One sentence frame in every language; the English line is its name."""

    intent: str
    lines: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.intent}/{self.lines['en']}"

    def slots(self, language: str = "en") -> list[str]:
        """Placeholders such as `place_name-local#2`, in order of appearance."""
        return [mark["slot"] for mark in MARK.finditer(self.lines[language]) if mark["slot"]]


@dataclass(frozen=True)
class Utterance:
    """One filled template: its values, its annotated and its plain text by language."""

    template: Template
    chosen: Chosen
    annotated: Mapping[str, str]
    texts: Mapping[str, str]

    @cached_property
    def key(self) -> str:
        """A hash by which corpora are shuffled."""
        return digest(self.annotated["en"])


@dataclass(frozen=True)
class Grammar:
    """Everything that sentences are made from."""

    templates: Sequence[Template]
    lexicons: Lexicons
    words: Agreement

    @classmethod
    def read(cls, folder: Path) -> "Grammar":
        """The grammar of a folder with `templates`, `lexicon` and `agreement.txt`."""
        return cls(
            read_templates(folder / "templates"),
            read_lexicons(folder / "lexicon"),
            read_agreement(folder / "agreement.txt"),
        )

    def rows(self, template: Template, slot: str) -> list[Row]:
        """The lexicon of a placeholder, in the template's own hashed order."""
        lexicon = slot.partition("#")[0]
        return sorted(self.lexicons[lexicon], key=lambda row: digest(template.name, lexicon, row["en"].text))

    def draw(self, template: Template, turn: int) -> Chosen:
        """Values for the `turn`-th utterance of a template: each lexicon is walked in its order."""
        chosen = {}
        for slot in template.slots():
            rows = self.rows(template, slot)
            # Half a turn apart, two values of one lexicon never coincide.
            chosen[slot] = rows[(turn + (len(rows) // 2 if "#" in slot else 0)) % len(rows)]
        return chosen

    def others(self, template: Template, chosen: Chosen, slot: str) -> list[Row]:
        """Values that may stand in a placeholder instead, in the template's order from its own value on."""
        rows, taken = self.rows(template, slot), [row["en"].text for row in chosen.values()]
        place = rows.index(chosen[slot])
        return [row for row in (*rows[place:], *rows[:place]) if row["en"].text not in taken]

    def utter(self, template: Template, chosen: Chosen) -> Utterance:
        """The utterance with these values."""
        annotated = {language: fill(template, language, chosen, self.words) for language in LANGUAGES}
        return Utterance(
            template, chosen, annotated, {language: plain(text, language) for language, text in annotated.items()}
        )

    def utterances(
        self, turns: Callable[[Template], Iterable[int]], seen: set[tuple[str, str]]
    ) -> Iterator[tuple[int, Utterance]]:
        """Every utterance of these turns that repeats no `seen` text in any language; they become seen."""
        for template in self.templates:
            for turn in turns(template):
                utterance = self.utter(template, self.draw(template, turn))
                if seen.isdisjoint(utterance.texts.items()):
                    seen.update(utterance.texts.items())
                    yield turn, utterance


def read_templates(folder: Path) -> list[Template]:
    """Every block of every intent's file.

    Raises:
        ValueError: if a block lacks a language, or its languages have different slots.
    """
    templates = []
    for path in sorted(folder.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
            lines = dict(line.split(" ", 1) for line in block.splitlines())
            template = Template(path.stem, lines)
            if list(lines) != list(LANGUAGES):
                raise ValueError(f"{path}: languages {list(lines)}, not {list(LANGUAGES)}, in {block!r}")
            if len({tuple(sorted(template.slots(language))) for language in LANGUAGES}) != 1:
                raise ValueError(f"{path}: the slots differ between languages in {block!r}")
            templates.append(template)
    return templates


def read_lexicons(folder: Path) -> Lexicons:
    """The rows of every lexicon, by file name: language -> value."""
    return {path.stem: [read_row(path, line) for line in lines_of(path)] for path in folder.glob("*.txt")}


def read_row(path: Path, line: str) -> dict[str, Value]:
    """`meeting | besprechung/f | reunión/f | 会議` as one value per language."""
    cells = [cell.strip().partition("/") for cell in line.split("|")]
    if len(cells) != len(LANGUAGES):
        raise ValueError(f"{path}: {len(cells)} cells, not {len(LANGUAGES)}, in {line!r}")
    return {language: Value(text, kind) for language, (text, _, kind) in zip(LANGUAGES, cells, strict=True)}


def read_agreement(path: Path) -> Agreement:
    """(language, word) -> class -> text; the first class is the default and is also filed under ''."""
    table = {}
    for line in lines_of(path):
        head, classes = line.split(": ", 1)
        pairs = [entry.strip().partition(" ") for entry in classes.split(",")]
        forms = {kind: text for kind, _, text in pairs}
        language, word = head.split()
        table[language, word] = {"": pairs[0][2], **forms}
    return table


def lines_of(path: Path) -> list[str]:
    """Lines that are neither empty nor comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def fill(template: Template, language: str, chosen: Chosen, words: Agreement) -> str:
    """The annotated utterance, spaced as MASSIVE spaces it."""

    def replace(mark: re.Match[str]) -> str:
        if mark["slot"]:
            slot_type = re.split("[-#]", mark["slot"])[0]
            return f" [{slot_type} : {chosen[mark['slot']][language].text}] "
        value = chosen[mark["head"]][language]
        forms = words.get((language, mark["word"]), {})
        if value.kind not in forms:
            raise ValueError(f"agreement.txt: {language} {mark['word']!r} has no form for {value}")
        return forms[value.kind]

    return " ".join(MARK.sub(replace, template.lines[language]).split())


def units(annotated: str, language: str) -> list[tuple[str, str | None]]:
    """Slot values whole, each with its slot, and the words between them, with None."""
    pieces: list[tuple[str, str | None]] = []
    for slot, value, between in UNIT.findall(annotated):
        pieces += [(value, slot)] if slot else [(word, None) for word in words_of(between, language)]
    return pieces


def words_of(text: str, language: str) -> list[str]:
    """Words of a plain text."""
    return UNSPACED_WORD.findall(text) if language in UNSPACED else text.split()


def joined(words: Iterable[str], language: str) -> str:
    """Words as a text."""
    return ("" if language in UNSPACED else " ").join(words)


def plain(annotated: str, language: str) -> str:
    """An annotated utterance without its brackets and, in an unspaced script, without spaces."""
    return joined((text for text, _ in units(annotated, language)), language)


def digest(*parts: object) -> str:
    """A hash that stands for a random draw, the same on every machine."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def number(*parts: object) -> int:
    """A hash as a number below 2 ** 32."""
    return int(digest(*parts)[:8], 16)
