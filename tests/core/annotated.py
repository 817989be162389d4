"""Annotated utterances for tests of what is made of them: invented ones, and published ones where they are there."""

import worlds
from places import needs_corpus, real_corpus

from disent_core.corpora.formats.massive import read_utterances
from disent_core.storage.tables import rows_table
from disent_core.text import tokenize

REAL = real_corpus("massive/amazon-massive-dataset-1.1.tar.gz")
needs_real = needs_corpus(REAL)


def utterance(text, tags, key="1", split="test", language="en", **changes):
    tokens = changes.get("tokens") or tokenize(text, language)
    return worlds.utterance(language, key, text, split=split, slot_tags=tags.split(), tokens=tokens, text_key="0")


def table(*rows):
    return rows_table(rows, "utterances")


def read(path, locale):
    return read_utterances(path, locale, corpus="massive", language=locale[:2])
