"""Read published corpus files into the tables `utterances` and `sentence_pairs`.

This package has one module per published format, the parts that readers share (archives, slot annotation,
downloads, splits), and the alignment of two languages. Nothing here changes a text beyond NFC.
A new format is one module that satisfies `contract.Reader` or `contract.PairReader`, and one line in `READERS`; or a
module outside the library, which the settings of a corpus name.
"""

from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import cast, get_args

from disent_core.corpora.contract import KINDS, Format, PairReader, Parallel, Reader
from disent_core.errors import ConfigError
from disent_core.registry import find

READERS: dict[str, str] = {
    "conll": "disent_core.corpora.formats.conll",
    "intents": "disent_core.corpora.formats.intents",
    "massive": "disent_core.corpora.formats.massive",
    "mlqe": "disent_core.corpora.formats.mlqe",
    "moses": "disent_core.corpora.formats.moses:MOSES",
    "sts": "disent_core.corpora.formats.sts",
    "tatoeba": "disent_core.corpora.formats.moses:TATOEBA",
    "xsid": "disent_core.corpora.formats.xsid",
}
"""Module of each format, imported when a corpus uses it."""


@cache
def format_module(name: str) -> Format:
    """Return the reader of a format: one of the library or, as `module` or `module:ATTRIBUTE`, of a user's package."""
    module = find("format", name, READERS)
    kind = str(getattr(module, "KIND", None))
    if kind not in KINDS:
        raise ConfigError(f"format {name!r}: KIND is {kind!r}; set it to one of {', '.join(KINDS)}")
    if missing := [member for member in _members(KINDS[kind]) if not hasattr(module, member)]:
        remedy = "see disent_core.corpora.contract"
        raise ConfigError(f"format {name!r}: a reader of {kind} must have {', '.join(missing)}; {remedy}")
    if (parallel := getattr(module, "PARALLEL", "none")) not in get_args(Parallel):
        choices = ", ".join(get_args(Parallel))
        raise ConfigError(f"format {name!r}: PARALLEL is {parallel!r}; set it to one of {choices}")
    return cast(Format, module)


def _members(table: str) -> list[str]:
    protocols = (Format, PairReader if table == "sentence_pairs" else Reader)
    names = (name for protocol in protocols for name in (*get_annotations(protocol), *vars(protocol)))
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def code_version(name: str) -> tuple[str, ...]:
    """Return what a reader adds to fingerprints: its `CODE_VERSION`; empty for the first version, `"1"`."""
    version = str(getattr(format_module(name), "CODE_VERSION", "1"))
    return () if version == "1" else (f"CODE_VERSION {version}",)


def outside(name: str, path: Path) -> list[Path]:
    """Return the folders beside the path of a corpus that its reader reads too."""
    return getattr(format_module(name), "outside", lambda _: [])(path)


def is_of_pairs(name: str) -> bool:
    """Whether a corpus of this format is read into `sentence_pairs`."""
    return KINDS[format_module(name).KIND] == "sentence_pairs"


def reader(name: str) -> Reader:
    """Return the reader of a format of utterances."""
    return cast(Reader, format_module(name))


def pair_reader(name: str) -> PairReader:
    """Return the reader of a format of sentence pairs."""
    return cast(PairReader, format_module(name))
