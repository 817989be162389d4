"""Make sample corpora of single sentences: slots and intents as in xSID, named entities, a table of intents."""

import csv
import io
from collections.abc import Iterator, Sequence

from pair_corpora import lines, some
from sentences import Utterance, units, words_of

XSID_ROWS = {"en": (60, 100), "de": (60, 100), "ja": (40, 60)}
"""Of the valid and test files: a language with fewer has the first ones."""
XSID_INTENTS = {
    "alarm_set": "alarm/set_alarm",
    "calendar_set": "reminder/set_reminder",
    "play_music": "PlayMusic",
    "weather_query": "weather/find",
}
XSID_SLOTS = {
    "artist_name": "artist",
    "date": "datetime",
    "event_name": "reminder/todo",
    "house_place": "location",
    "music_genre": "genre",
    "person": "entity_name",
    "place_name": "location",
    "relation": "entity_name",
    "song_name": "track",
    "time": "datetime",
    "transport_type": "object_type",
    "weather_descriptor": "weather/attribute",
}

NER_LANGUAGE, NER_ROWS = "de", {"train": 250, "dev": 50, "test": 100}
ENTITIES = {"person": "PER", "artist_name": "PER", "place_name": "LOC", "business_name": "ORG"}

INTENT_LANGUAGES, INTENT_ROWS = ("en", "de"), 150


def tagged(utterance: Utterance, language: str) -> Iterator[tuple[str, str | None, bool]]:
    """Words, each with its slot, if any, and whether it is the slot's first word."""
    for text, slot in units(utterance.annotated[language], language):
        for place, word in enumerate(words_of(text, language)):
            yield word, slot, place == 0


# --- slots and intents ----------------------------------------------------------------------------------------


def slots(utterances: Sequence[Utterance]) -> dict[str, str]:
    """Files `<language>.valid.conll` and `<language>.test.conll`; English has no ids, as published."""
    chosen = [utterance for utterance in utterances if utterance.template.intent in XSID_INTENTS]
    counts = XSID_ROWS["en"]
    chosen = some(chosen, sum(counts), "xsid")
    files = {}
    for language, (valid, test) in XSID_ROWS.items():
        rows = {"valid": chosen[:valid], "test": chosen[counts[0] : counts[0] + test]}
        for split, split_rows in rows.items():
            blocks = [block(utterance, language, number) for number, utterance in enumerate(split_rows, start=1)]
            files[f"xsid/{language}.{split}.conll"] = "\n".join(blocks)
    return files


def block(utterance: Utterance, language: str, number: int) -> str:
    """Headers and rows of one utterance."""
    text, intent = utterance.texts[language], XSID_INTENTS[utterance.template.intent]
    headers = [f"# text: {text}", f"# intent: {intent}", f"# slots: {','.join(spans(utterance, language))}"]
    if language != "en":
        headers = [f"# id: {number}", f"# text-en: {utterance.texts['en']}", *headers[:2]]
    rows = [
        f"{place}\t{word}\t{intent}\t{bio(slot and XSID_SLOTS[slot], is_first)}"
        for place, (word, slot, is_first) in enumerate(tagged(utterance, language), start=1)
    ]
    return lines([*headers, *rows])


def spans(utterance: Utterance, language: str) -> Iterator[str]:
    """`start:end:slot` of every value, in characters of a text with spaces."""
    position = 0
    for text, slot in units(utterance.annotated[language], language):
        if slot:
            yield f"{position}:{position + len(text)}:{XSID_SLOTS[slot]}"
        position += len(text) + 1


def bio(label: str | None, is_first: bool) -> str:
    return f"{'B' if is_first else 'I'}-{label}" if label else "O"


# --- named entities -------------------------------------------------------------------------------------------


def entities(utterances: Sequence[Utterance]) -> dict[str, str]:
    """Files `train.txt`, `dev.txt` and `test.txt` of one language; slots that name nothing are no entities."""
    chosen = iter(some(utterances, sum(NER_ROWS.values()), "ner"))
    return {
        f"ner/{NER_LANGUAGE}/{split}.txt": "\n".join(sentence(next(chosen)) for _ in range(count))
        for split, count in NER_ROWS.items()
    }


def sentence(utterance: Utterance) -> str:
    """A token and its tag a line."""
    rows = tagged(utterance, NER_LANGUAGE)
    return lines([f"{word} {bio(ENTITIES.get(slot or ''), is_first)}" for word, slot, is_first in rows])


# --- intents --------------------------------------------------------------------------------------------------


def intents(utterances: Sequence[Utterance]) -> dict[str, str]:
    """A table with a row a language and utterance; equal ids are translations."""
    chosen = some(utterances, INTENT_ROWS, "intents")
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["language", "intent", "text", "id"])
    writer.writerows(
        (language, utterance.template.intent, utterance.texts[language], place)
        for language in INTENT_LANGUAGES
        for place, utterance in enumerate(chosen)
    )
    return {"intents.csv": table.getvalue()}
