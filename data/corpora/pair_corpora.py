"""Make sample corpora of sentence pairs: translations, bitext, similarity and quality scores; and word lists."""

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
            files[f"tatoeba/tatoeba.{code}-eng.{suffix}"] = lines([utterance.texts[side] for utterance in chosen])
    return files


def bitext(utterances: Sequence[Utterance]) -> dict[str, str]:
    """Aligned lines in Moses format, of the same English sentences in every pair."""
    chosen = some(utterances, BITEXT_LINES, "bitext")
    return {
        f"bitext/en-{language}.{side}": lines([utterance.texts[side] for utterance in chosen])
        for language in PUBLISHED_CODES
        for side in ("en", language)
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


def same_meaning(utterance: Utterance, grammar: Grammar, is_fit: IsFit) -> tuple[Utterance, float] | None:
    """5: intent and values are the same, the template is another."""
    for template in grammar.templates:
        is_other = template.intent == utterance.template.intent and template.name != utterance.template.name
        if is_other and sorted(template.slots()) == sorted(utterance.template.slots()):
            partner = grammar.utter(template, utterance.chosen)
            if is_fit(partner):
                return partner, 5.0
    return None


def other_values(utterance: Utterance, grammar: Grammar, is_fit: IsFit) -> tuple[Utterance, float] | None:
    """3 to 4: the template is the same; 3 and the share of values that are."""
    slots = sorted(utterance.chosen, key=lambda slot: digest(utterance.key, slot))
    changed = slots[: 1 + number(utterance.key) % len(slots)]
    partner = utterance
    for slot in changed:
        for row in grammar.others(utterance.template, partner.chosen, slot):
            candidate = grammar.utter(utterance.template, {**partner.chosen, slot: row})
            if slot != changed[-1] or is_fit(candidate):
                partner = candidate
                break
        else:
            return None
    return partner, 3 + 1 - len(changed) / len(slots)


def related(utterance: Utterance, utterances: Sequence[Utterance], grade: int) -> tuple[Utterance, float] | None:
    """2: another template of the intent, 1: another intent of the domain, 0: another domain; no value is shared."""
    start = number("related", grade, utterance.key) % len(utterances)
    for partner in (*utterances[start:], *utterances[:start]):
        if relation(utterance, partner) == grade and not shared_values(utterance, partner):
            return partner, float(grade)
    return None


def relation(utterance: Utterance, partner: Utterance) -> int | None:
    """The grade of two sentences without a common value; None for those of one template."""
    if utterance.template.name == partner.template.name:
        return None
    if utterance.template.intent == partner.template.intent:
        return 2
    return int(DOMAINS[utterance.template.intent] == DOMAINS[partner.template.intent])


def shared_values(utterance: Utterance, partner: Utterance) -> set[str]:
    """English values that both have."""
    left, right = ({row["en"].text for row in either.chosen.values()} for either in (utterance, partner))
    return left & right


# --- quality --------------------------------------------------------------------------------------------------


def quality(utterances: Sequence[Utterance], grammar: Grammar) -> dict[str, str]:
    """Damaged translations with their score, in the layout of WMT 2020's direct assessments."""
    files = {}
    for language in ("de", "ja"):
        chosen = some(utterances, sum(QUALITY_ROWS.values()), "mlqe", language)
        damaged = [(utterance.texts["en"], *damage(utterance, language, grammar)) for utterance in chosen]
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


def damage(utterance: Utterance, language: str, grammar: Grammar) -> tuple[str, float]:
    """A translation with none to four kinds of damage, and 100 less what they take."""
    kinds = sorted(DEDUCTIONS, key=lambda kind: digest("damage", kind, language, utterance.key))
    kinds = kinds[: number("kinds", language, utterance.key) % (len(kinds) + 1)]
    chosen, damaged_slots = damaged_values(utterance, kinds, language, grammar)
    pieces = units(grammar.utter(utterance.template, chosen).annotated[language], language)
    done, outside = list(damaged_slots), [place for place, (_, slot) in enumerate(pieces) if slot is None]
    if "dropped" in kinds and len(outside) > 1:
        pieces.pop(outside[number("dropped", language, utterance.key) % len(outside)])
        done.append("dropped")
    texts = [text for text, _ in pieces]
    if "shuffled" in kinds and len(set(texts)) > 1:
        order = sorted(range(len(texts)), key=lambda place: digest("shuffled", language, utterance.key, place))
        shuffled = [texts[place] for place in order]
        texts = texts[::-1] if shuffled == texts else shuffled
        done.append("shuffled")
    return joined(texts, language), 100.0 - sum(DEDUCTIONS[kind] for kind in done)


def damaged_values(
    utterance: Utterance, kinds: Sequence[str], language: str, grammar: Grammar
) -> tuple[Chosen, list[str]]:
    """Values with one of them swapped and another one left in English, and which of that there was a value for."""
    slots = sorted(utterance.chosen, key=lambda slot: digest("damage", slot, language, utterance.key))
    chosen, done = dict(utterance.chosen), []
    if "swapped" in kinds:
        slot = slots.pop()
        chosen[slot] = grammar.others(utterance.template, utterance.chosen, slot)[0]
        done.append("swapped")
    foreign = [slot for slot in slots if utterance.chosen[slot]["en"].text != utterance.chosen[slot][language].text]
    if "untranslated" in kinds and foreign:
        row = utterance.chosen[foreign[-1]]
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
