"""Readers: files as published in, table `utterances` out.

What belongs here: one module per published format, the parts that readers share (archives, slot annotation,
downloads), and the alignment of two languages. What does not: anything that changes a text beyond NFC.
A new format is one module that satisfies `contract.Reader` and one line in `READERS`.
"""

from importlib import import_module
from typing import cast

from disent_core.corpora.contract import Reader
from disent_core.errors import ConfigError

READERS: dict[str, str] = {
    "massive": "disent_core.corpora.massive",
}
"""Module of each format, imported when a corpus asks for it."""


def reader(format_name: str) -> Reader:
    """The reader of a format.

    Raises:
        ConfigError: if no module reads this format.
    """
    if format_name not in READERS:
        raise ConfigError(f"no reader for format {format_name!r}. Known formats: {', '.join(sorted(READERS))}")
    return cast(Reader, import_module(READERS[format_name]))
