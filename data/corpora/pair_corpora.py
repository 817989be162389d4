"""Sample corpora of sentence pairs: translations, bitext, graded similarity, judged translations; and word lists."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from statistics import fmean, pstdev

from sentences import LANGUAGES, Chosen, Grammar, Utterance, digest, joined, number, units

PUBLISHED_CODES = {"de": "deu", "es": "spa", "ja": "jpn"}
TRANSLATION_LINES, BITEXT_LINES = 150, 400

PAIRS_PER_GRADE = 20
SIMILARITY_FILES = {
    ("en", "en"): ("sts/STS.input.track5.en-en.txt", "sts/STS.gs.track5.en-en.txt"),
    ("es", "es"): ("sts/STS.input.track3.es-es.txt", "sts/STS.gs.track3.es-es.txt"),
    ("en", "de"): ("sts/STS.en-de.txt", None),
}
"""Sentences and gold, as SemEval 2017 has them, or one file as its extension has it."""
DOMAINS = {
    "cooking_recipe": "food",
    "takeaway_order": "food",
    "iot_hue_lightchange": "home",
    "iot_wemo_on": "home",
    "recommendation_locations": "out",
    "transport_query": "out",
    "weather_query": "out",
    "alarm_set": "planning",
    "calendar_set": "planning",
    "email_sendemail": "planning",
    "lists_createoradd": "planning",
    "play_music": "music",
    "qa_currency": "money",
}

QUALITY_ROWS = {"train": 60, "dev": 30, "test20": 100}
DEDUCTIONS = {"swapped": 30, "untranslated": 20, "dropped": 15, "shuffled": 10}
"""Points of 100 that each kind of damage takes from a translation."""

NOT_WORD_BY_WORD = ("list_name", "list_name-food")
"""Lexicons whose German values have the word for list in them, which the English ones lack."""


def some(utterances: Sequence[Utterance], count: int, *name: object) -> list[Utterance]:
    """A hashed choice in a hashed order.

    Raises:
        ValueError: if there are too few.
    """
    if len(utterances) < count:
        raise ValueError(f"{name}: {count} of {len(utterances)} utterances; raise FRESH_DRAWS or its part")
    return sorted(utterances, key=lambda utterance: digest(*name, utterance.key))[:count]


def lines(texts: Sequence[str]) -> str:
    """A file of these lines."""
    return "".join(f"{text}\n" for text in texts)


# --- translations and bitext ----------------------------------------------------------------------------------


def translations(utterances: Sequence[Utterance]) -> dict[str, str]:
    """Test sets in the layout of LASER's Tatoeba: every language has sentences of its own choice."""
    files = {}
    for language, code in PUBLISHED_CODES.items():
        chosen = some(utterances, TRANSLATION_LINES, "tatoeba", language)
        for side, suffix in ((language, code), ("en", "eng")):
            files[f"tatoeba/tatoeba.{code}-eng.{suffix}"] = lines([each.texts[side] for each in chosen])
    return files


def bitext(utterances: Sequence[Utterance]) -> dict[str, str]:
    """Aligned lines in Moses format, of the same English sentences in every pair."""
    chosen = some(utterances, BITEXT_LINES, "bitext")
    return {
        f"bitext/en-{other}.{side}": lines([each.texts[side] for each in chosen])
        for other in PUBLISHED_CODES
        for side in ("en", other)
    }


# --- similarity -----------------------------------------------------------------------------------------------

IsFit = Callable[[Utterance], bool]


def similarity(utterances: Sequence[Utterance], grammar: Grammar, is_fit: IsFit) -> dict[str, str]:
    """Pairs of sentences with their similarity, 0 to 5, as many of every grade; `is_fit` says what may be uttered."""
    files = {}
    for languages, (sentences, gold) in SIMILARITY_FILES.items():
        rows = sorted(graded(utterances, languages, grammar, is_fit), key=lambda row: digest("sts", *row))
        if gold is None:
            files[sentences] = lines([f"{left}\t{right}\t{grade:.2f}" for left, right, grade in rows])
        else:
            files[sentences] = lines([f"{left}\t{right}" for left, right, _ in rows])
            files[gold] = lines([f"{grade:.2f}" for *_, grade in rows])
    return files


def graded(
    utterances: Sequence[Utterance], languages: tuple[str, str], grammar: Grammar, is_fit: IsFit
) -> Iterator[tuple[str, str, float]]:
    """Two sentences and their similarity. A sentence is the first of a pair once only."""
    left, right = languages
    waiting = others = some(utterances, len(utterances), "sts", *languages)
    partners: list[Callable[[Utterance], tuple[Utterance, float] | None]] = [
        lambda one: same_meaning(one, grammar, is_fit) if left == right else (one, 5.0),
        lambda one: other_values(one, grammar, is_fit),
        lambda one: related(one, others, 2),
        lambda one: related(one, others, 1),
        lambda one: related(one, others, 0),
    ]
    for partner in partners:
        found = list(islice(((one, *other) for one in waiting if (other := partner(one))), PAIRS_PER_GRADE))
        if len(found) < PAIRS_PER_GRADE:
            raise ValueError(f"sts {languages}: {len(found)} of {PAIRS_PER_GRADE} pairs; raise FRESH_DRAWS or its part")
        yield from ((one.texts[left], other.texts[right], grade) for one, other, grade in found)
        used = {one.key for one, *_ in found}
        waiting = [one for one in waiting if one.key not in used]


def same_meaning(one: Utterance, grammar: Grammar, is_fit: IsFit) -> tuple[Utterance, float] | None:
    """5: intent and values are the same, the template is another."""
    for template in grammar.templates:
        is_other = template.intent == one.template.intent and template.name != one.template.name
        if is_other and sorted(template.slots()) == sorted(one.template.slots()):
            other = grammar.utter(template, one.chosen)
            if is_fit(other):
                return other, 5.0
    return None


def other_values(one: Utterance, grammar: Grammar, is_fit: IsFit) -> tuple[Utterance, float] | None:
    """3 to 4: the template is the same; 3 and the share of values that are."""
    slots = sorted(one.chosen, key=lambda slot: digest(one.key, slot))
    changed = slots[: 1 + number(one.key) % len(slots)]
    other = one
    for slot in changed:
        for row in grammar.others(one.template, other.chosen, slot):
            candidate = grammar.utter(one.template, {**other.chosen, slot: row})
            if slot != changed[-1] or is_fit(candidate):
                other = candidate
                break
        else:
            return None
    return other, 3 + 1 - len(changed) / len(slots)


def related(one: Utterance, utterances: Sequence[Utterance], grade: int) -> tuple[Utterance, float] | None:
    """2: another template of the intent, 1: another intent of the domain, 0: another domain; no value is shared."""
    start = number("related", grade, one.key) % len(utterances)
    for other in (*utterances[start:], *utterances[:start]):
        if relation(one, other) == grade and not shared_values(one, other):
            return other, float(grade)
    return None


def relation(one: Utterance, other: Utterance) -> int | None:
    """The grade of two sentences without a common value; None for those of one template."""
    if one.template.name == other.template.name:
        return None
    if one.template.intent == other.template.intent:
        return 2
    return int(DOMAINS[one.template.intent] == DOMAINS[other.template.intent])


def shared_values(one: Utterance, other: Utterance) -> set[str]:
    """English values that both have."""
    left, right = ({row["en"].text for row in each.chosen.values()} for each in (one, other))
    return left & right


# --- quality --------------------------------------------------------------------------------------------------


def quality(utterances: Sequence[Utterance], grammar: Grammar) -> dict[str, str]:
    """Damaged translations with their score, in the layout of WMT 2020's direct assessments."""
    files = {}
    for language in ("de", "ja"):
        chosen = some(utterances, sum(QUALITY_ROWS.values()), "mlqe", language)
        damaged = [(each.texts["en"], *damage(each, language, grammar)) for each in chosen]
        points = [score for *_, score in damaged]
        mean, deviation = fmean(points), pstdev(points)
        rows = [(*row, (row[-1] - mean) / deviation) for row in damaged]
        first = 0
        for split, count in QUALITY_ROWS.items():
            name = f"mlqe/en-{language}/{split}.en{language}.df.short.tsv"
            files[name] = assessments(rows[first : first + count])
            first += count
    return files


def assessments(rows: Sequence[tuple[str, str, float, float]]) -> str:
    """A file of source, translation, score and standardised score; the grammar is its one assessor."""
    header = "index\toriginal\ttranslation\tscores\tmean\tz_scores\tz_mean"
    texts = [f"{source}\t{target}\t[{score:g}]\t{score:.1f}\t[{z:.6f}]\t{z:.6f}" for source, target, score, z in rows]
    return lines([header, *(f"{place}\t{text}" for place, text in enumerate(texts))])


def damage(one: Utterance, language: str, grammar: Grammar) -> tuple[str, float]:
    """A translation with none to four kinds of damage, and 100 less what they take."""
    kinds = sorted(DEDUCTIONS, key=lambda kind: digest("damage", kind, language, one.key))
    kinds = kinds[: number("kinds", language, one.key) % (len(kinds) + 1)]
    chosen, damaged_slots = damaged_values(one, kinds, language, grammar)
    pieces = units(grammar.utter(one.template, chosen).annotated[language], language)
    done, outside = list(damaged_slots), [place for place, (_, slot) in enumerate(pieces) if slot is None]
    if "dropped" in kinds and len(outside) > 1:
        pieces.pop(outside[number("dropped", language, one.key) % len(outside)])
        done.append("dropped")
    texts = [text for text, _ in pieces]
    if "shuffled" in kinds and len(set(texts)) > 1:
        order = sorted(range(len(texts)), key=lambda place: digest("shuffled", language, one.key, place))
        shuffled = [texts[place] for place in order]
        texts = texts[::-1] if shuffled == texts else shuffled
        done.append("shuffled")
    return joined(texts, language), 100.0 - sum(DEDUCTIONS[kind] for kind in done)


def damaged_values(one: Utterance, kinds: Sequence[str], language: str, grammar: Grammar) -> tuple[Chosen, list[str]]:
    """Values with one of them swapped and another one left in English, and which of that there was a value for."""
    slots = sorted(one.chosen, key=lambda slot: digest("damage", slot, language, one.key))
    chosen, done = dict(one.chosen), []
    if "swapped" in kinds:
        slot = slots.pop()
        chosen[slot] = grammar.others(one.template, one.chosen, slot)[0]
        done.append("swapped")
    foreign = [slot for slot in slots if one.chosen[slot]["en"].text != one.chosen[slot][language].text]
    if "untranslated" in kinds and foreign:
        row = one.chosen[foreign[-1]]
        chosen[foreign[-1]] = {**row, language: replace(row[language], text=row["en"].text)}
        done.append("untranslated")
    return chosen, done


# --- word lists -----------------------------------------------------------------------------------------------


def dictionaries(grammar: Grammar) -> dict[str, str]:
    """Word lists `english foreign` of the values that are one word in both languages."""
    rows = [row for name, rows in grammar.lexicons.items() if name not in NOT_WORD_BY_WORD for row in rows]
    return {
        f"dictionaries/{language}.txt": lines(
            sorted(
                {" ".join(texts) for row in rows if all(map(is_word, texts := (row["en"].text, row[language].text)))}
            )
        )
        for language in LANGUAGES[1:]
    }


def is_word(text: str) -> bool:
    return len(text.split()) == 1
