"""Write the sample corpora, one of every kind, each in its published layout.

    python data/corpora/generate.py            # writes every folder
    python data/corpora/generate.py --check    # exits 1 if the files differ from the grammar

`sentences` reads the grammar; `pair_corpora` and `tagged_corpora` make the corpora that are for evaluation only.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pair_corpora import bitext, dictionaries, quality, similarity, translations
from sentences import LANGUAGES, Grammar, Template, Utterance, number
from tagged_corpora import entities, intents, slots

HERE = Path(__file__).parent

LOCALES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "ja": "ja-JP"}
DRAWS = {0: 1, 1: 8, 2: 10, 3: 12}
"""Utterances of the parallel corpus drawn from a template, by its number of slots."""
FRESH_DRAWS = 40
"""Utterances of a template with slots drawn after those, for all other corpora."""
TEST_SHARE, DEV_SHARE = 0.18, 0.12

PARTS = {"tatoeba": 3, "bitext": 4, "sts": 3, "mlqe": 3, "xsid": 3, "ner": 3, "intents": 2}
"""Shares that the other corpora have of the fresh utterances."""


def generate() -> dict[str, str]:
    """The text of every output file, by its path from here."""
    grammar = Grammar.read(HERE / "grammar")
    seen = set[tuple[str, str]]()
    drawn = list(grammar.utterances(lambda template: range(draws(template)), seen))
    known = frozenset(seen)
    fresh = [utterance for _, utterance in grammar.utterances(fresh_turns, seen)]
    parts = {name: [utterance for utterance in fresh if part_of(utterance) == name] for name in PARTS}

    def is_for_similarity(utterance: Utterance) -> bool:
        return part_of(utterance) == "sts" and known.isdisjoint(utterance.texts.items())

    return {
        **parallel([(partition_of(utterance.template, turn), utterance) for turn, utterance in drawn]),
        **translations(parts["tatoeba"]),
        **bitext(parts["bitext"]),
        **similarity(parts["sts"], grammar, is_for_similarity),
        **quality(parts["mlqe"], grammar),
        **dictionaries(grammar),
        **slots(parts["xsid"]),
        **entities(parts["ner"]),
        **intents(parts["intents"]),
    }


def draws(template: Template) -> int:
    """Utterances of the parallel corpus that a template gives."""
    return DRAWS[len(template.slots())]


def fresh_turns(template: Template) -> range:
    """Turns of the utterances of all other corpora; without slots there is just one, and that is taken."""
    return range(draws(template), draws(template) + FRESH_DRAWS) if template.slots() else range(0)


def part_of(utterance: Utterance) -> str:
    """The corpus that a fresh utterance is for: intent and values decide, so that paraphrases stay together."""
    values = sorted(row["en"].text for row in utterance.chosen.values())
    names = [name for name, share in PARTS.items() for _ in range(share)]
    return names[number("part", utterance.template.intent, *values) % len(names)]


# --- the parallel corpus, in MASSIVE 1.1's format -------------------------------------------------------------


def partition_of(template: Template, turn: int) -> str:
    """`test`, `dev` or `train` in the given shares, spread evenly over the utterances of a template."""
    # Multiples of the golden ratio fill [0, 1) evenly from any start.
    position = (number(template.name) / 16**8 + turn * 0.618034) % 1
    return "test" if position < TEST_SHARE else "dev" if position < TEST_SHARE + DEV_SHARE else "train"


def parallel(drawn: Sequence[tuple[str, Utterance]]) -> dict[str, str]:
    """Utterances with their partitions, parallel by id, a file each language."""
    shuffled = sorted(drawn, key=lambda row: row[1].key)
    return {
        f"sample/1.1/data/{LOCALES[language]}.jsonl": "".join(
            json.dumps(record(place, partition, utterance, language), ensure_ascii=False) + "\n"
            for place, (partition, utterance) in enumerate(shuffled)
        )
        for language in LANGUAGES
    }


def record(place: int, partition: str, utterance: Utterance, language: str) -> dict[str, str]:
    """One line of a file."""
    intent = utterance.template.intent
    return {
        "id": str(place),
        "locale": LOCALES[language],
        "partition": partition,
        "scenario": intent.split("_")[0],
        "intent": intent,
        "utt": utterance.texts[language],
        "annot_utt": utterance.annotated[language],
    }


# --- writing --------------------------------------------------------------------------------------------------


def stale(files: Mapping[str, str]) -> list[str]:
    """Paths of the files that differ from the given texts, or are missing or extra in a folder of theirs."""
    owned = {HERE / Path(name).parts[0] for name in files}
    paths = [path for one in owned for path in (one.rglob("*") if one.is_dir() else [one]) if path.is_file()]
    there = {path.relative_to(HERE).as_posix(): path.read_bytes() for path in paths}
    return sorted(name for name in files.keys() | there.keys() if _bytes(files.get(name)) != there.get(name))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Generate the sample corpora from their grammar.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    arguments = parser.parse_args()
    files = generate()
    if arguments.check:
        for name in (differing := stale(files)):
            print(f"{HERE / name}: differs from the grammar. Run python {Path(__file__).name}", file=sys.stderr)
        return 1 if differing else 0
    for name, text in files.items():
        (HERE / name).parent.mkdir(parents=True, exist_ok=True)
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")
    lines = Counter[str]()
    for name, text in files.items():
        lines[Path(name).parts[0]] += text.count("\n")
    print("\n".join(f"{name}: {count:,} lines" for name, count in lines.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
