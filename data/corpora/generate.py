"""Write the sample corpus: parallel commands in four languages, in MASSIVE 1.1's published format.

    python data/corpora/generate.py            # writes sample/1.1/data/*.jsonl
    python data/corpora/generate.py --check    # exits 1 if the files there differ from the grammar

The grammar is text beside this file. `grammar/templates/<intent>.txt` holds blocks of one line per language;
`grammar/lexicon/<slot>.txt` one value per line, `en | de | es | ja`, each with an optional `/class` such as a
gender; `grammar/agreement.txt` the words that follow a class. In a template `{slot}` is an annotated value and
`<word:slot>` an unannotated word that agrees with it. `{slot-kind}` draws from a narrower lexicon of the same
slot, `{slot#2}` is a second, different value. Every choice is a hash, so a new template leaves others alone.
"""

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GRAMMAR = HERE / "grammar"
OUTPUT = HERE / "sample" / "1.1" / "data"

LOCALES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "ja": "ja-JP"}
UNSPACED = frozenset({"ja"})
DRAWS = {0: 1, 1: 8, 2: 10, 3: 12}
"""Utterances drawn from a template, by its number of slots."""
TEST_SHARE, DEV_SHARE = 0.18, 0.12

MARK = re.compile(r"\{(?P<slot>[\w#-]+)\}|<(?P<word>[\w-]+):(?P<head>[\w#-]+)>")
ANNOTATION = re.compile(r"\[[a-z_]+ : ([^\]]+)\]")


@dataclass(frozen=True)
class Value:
    """One slot value in one language; `kind` is its agreement class, empty for the default."""

    text: str
    kind: str


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
    """One filled template: its annotated and its plain text by language."""

    intent: str
    partition: str
    annotated: Mapping[str, str]
    texts: Mapping[str, str]

    @property
    def key(self) -> str:
        """A hash by which the corpus is shuffled."""
        return digest(self.annotated["en"])


Lexicons = Mapping[str, Sequence[Mapping[str, Value]]]
Agreement = Mapping[tuple[str, str], Mapping[str, str]]


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
            if list(lines) != list(LOCALES):
                raise ValueError(f"{path}: languages {list(lines)}, not {list(LOCALES)}, in {block!r}")
            if len({tuple(sorted(template.slots(language))) for language in LOCALES}) != 1:
                raise ValueError(f"{path}: the slots differ between languages in {block!r}")
            templates.append(template)
    return templates


def read_lexicons(folder: Path) -> Lexicons:
    """The rows of every lexicon, by file name: language -> value."""
    return {path.stem: [read_row(path, line) for line in lines_of(path)] for path in folder.glob("*.txt")}


def read_row(path: Path, line: str) -> dict[str, Value]:
    """`meeting | besprechung/f | reunión/f | 会議` as one value per language."""
    cells = [cell.strip().partition("/") for cell in line.split("|")]
    if len(cells) != len(LOCALES):
        raise ValueError(f"{path}: {len(cells)} cells, not {len(LOCALES)}, in {line!r}")
    return {language: Value(text, kind) for language, (text, _, kind) in zip(LOCALES, cells, strict=True)}


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


def digest(*parts: object) -> str:
    """A hash that stands for a random draw, the same on every machine."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def draw(template: Template, lexicons: Lexicons, turn: int) -> dict[str, Mapping[str, Value]]:
    """Values for the `turn`-th utterance of a template: each lexicon is walked in its own hashed order."""
    chosen = {}
    for slot in template.slots():
        lexicon, _, again = slot.partition("#")
        rows = sorted(lexicons[lexicon], key=lambda row: digest(template.name, lexicon, row["en"].text))
        # Half a turn apart, two values of one lexicon never coincide.
        chosen[slot] = rows[(turn + (len(rows) // 2 if again else 0)) % len(rows)]
    return chosen


def fill(template: Template, language: str, chosen: Mapping[str, Mapping[str, Value]], words: Agreement) -> str:
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


def plain(annotated: str, language: str) -> str:
    """An annotated utterance without its brackets and, in an unspaced script, without spaces."""
    text = ANNOTATION.sub(r"\1", annotated)
    return text.replace(" ", "") if language in UNSPACED else text


def partition_of(template: Template, turn: int) -> str:
    """`test`, `dev` or `train` in the given shares, spread evenly over the utterances of a template."""
    # Multiples of the golden ratio fill [0, 1) evenly from any start.
    position = (int(digest(template.name)[:8], 16) / 16**8 + turn * 0.618034) % 1
    return "test" if position < TEST_SHARE else "dev" if position < TEST_SHARE + DEV_SHARE else "train"


def utterances(templates: Sequence[Template], lexicons: Lexicons, words: Agreement) -> Iterator[Utterance]:
    """Every drawn utterance, none of which repeats a text of another in any language."""
    seen = set[tuple[str, str]]()
    for template in templates:
        for turn in range(DRAWS[len(template.slots())]):
            chosen = draw(template, lexicons, turn)
            annotated = {language: fill(template, language, chosen, words) for language in LOCALES}
            texts = {language: plain(text, language) for language, text in annotated.items()}
            if seen.isdisjoint(texts.items()):
                seen.update(texts.items())
                yield Utterance(template.intent, partition_of(template, turn), annotated, texts)


def generate() -> dict[str, str]:
    """The text of every output file, by file name."""
    rows = utterances(
        read_templates(GRAMMAR / "templates"),
        read_lexicons(GRAMMAR / "lexicon"),
        read_agreement(GRAMMAR / "agreement.txt"),
    )
    shuffled = sorted(rows, key=lambda row: row.key)
    return {
        f"{locale}.jsonl": "".join(
            json.dumps(record(number, row, language), ensure_ascii=False) + "\n" for number, row in enumerate(shuffled)
        )
        for language, locale in LOCALES.items()
    }


def record(number: int, row: Utterance, language: str) -> dict[str, str]:
    """One line of a MASSIVE 1.1 file."""
    return {
        "id": str(number),
        "locale": LOCALES[language],
        "partition": row.partition,
        "scenario": row.intent.split("_")[0],
        "intent": row.intent,
        "utt": row.texts[language],
        "annot_utt": row.annotated[language],
    }


def stale(files: Mapping[str, str]) -> list[str]:
    """Names of the files in the output folder that differ from the given texts, or are missing or extra."""
    there = {path.name: path.read_text(encoding="utf-8") for path in OUTPUT.glob("*")}
    return sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name))


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Generate the sample corpus from its grammar.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    arguments = parser.parse_args()
    files = generate()
    if arguments.check:
        for name in (differing := stale(files)):
            print(f"{OUTPUT / name}: differs from the grammar. Run python {Path(__file__).name}", file=sys.stderr)
        return 1 if differing else 0
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (OUTPUT / name).write_text(text, encoding="utf-8", newline="\n")
    records = [json.loads(line) for line in files["en-US.jsonl"].splitlines()]
    print(f"{len(records)} utterances a language: {dict(Counter(record['partition'] for record in records))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
