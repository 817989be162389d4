"""Readers: files as published in, table `utterances` or `sentence_pairs` out.

What belongs here: one module per published format, the parts that readers share (archives, slot annotation,
downloads, splits), and the alignment of two languages. What does not: anything that changes a text beyond NFC.
A new format is one module that satisfies `contract.Reader` or `contract.PairReader`, and one line in `READERS`.
"""

from importlib import import_module
from typing import cast

from disent_core.corpora.contract import KINDS, Format, PairReader, Reader
from disent_core.errors import ConfigError

READERS: dict[str, str] = {
    "conll": "disent_core.corpora.formats.conll",
    "intents": "disent_core.corpora.formats.intents",
    "massive": "disent_core.corpora.formats.massive",
    "mlqe": "disent_core.corpora.formats.mlqe",
    "moses": "disent_core.corpora.formats.moses",
    "sts": "disent_core.corpora.formats.sts",
    "tatoeba": "disent_core.corpora.formats.tatoeba",
    "xsid": "disent_core.corpora.formats.xsid",
}
"""Module of each format, imported when a corpus asks for it."""


def format_module(name: str) -> Format:
    """What a format is.

    Raises:
        ConfigError: if no module reads this format.
    """
    if name not in READERS:
        raise ConfigError(f"no reader for format {name!r}. Known formats: {', '.join(sorted(READERS))}")
    return cast(Format, import_module(READERS[name]))


def is_of_pairs(name: str) -> bool:
    """Whether a corpus of this format is read into `sentence_pairs`."""
    return KINDS[format_module(name).KIND] == "sentence_pairs"


def reader(name: str) -> Reader:
    """The reader of a format of utterances.

    Raises:
        ConfigError: if no module reads this format.
    """
    return cast(Reader, format_module(name))


def pair_reader(name: str) -> PairReader:
    """The reader of a format of sentence pairs.

    Raises:
        ConfigError: if no module reads this format.
    """
    return cast(PairReader, format_module(name))
