"""What is taken of each corpus of the configuration: as it says, or everything that lies at its path."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from disent_core.config.sections import CorpusConfig
from disent_core.config.toml_lines import Locator
from disent_core.corpora import pair_reader, reader
from disent_core.corpora.languages import language_code, split_codes
from disent_core.errors import CorpusError


def complete_corpora(corpora: Sequence[CorpusConfig], place: Locator) -> tuple[CorpusConfig, ...]:
    """The corpora with their `languages`, or their `pairs` if they are of sentence pairs, named one by one.

    Raises:
        ConfigError: if a corpus does not have what it should, or what it has can't be seen.
    """
    return tuple(_complete(corpus, ("corpora", index), place) for index, corpus in enumerate(corpora))


def languages_of_locales(corpus: CorpusConfig) -> dict[str, str]:
    """Language -> locale. A language is the locale's language part, or the whole locale where two share it."""
    language_of = reader(corpus.format).language_of
    parts = [language_of(locale) for locale in corpus.languages]
    return {
        part if parts.count(part) == 1 else locale: locale for part, locale in zip(parts, corpus.languages, strict=True)
    }


def _complete(corpus: CorpusConfig, where: tuple[str | int, ...], place: Locator) -> CorpusConfig:
    key = "pairs" if corpus.is_of_pairs and corpus.pairs else "languages"
    known = _known(corpus, place.path.parent, where, place)
    if corpus.is_of_pairs and not corpus.pairs:
        wanted = set(corpus.languages)
        taken = tuple(pair for pair in known or () if not wanted or wanted.issuperset(split_codes(pair)))
        if not taken:
            place.fail((*where, key), f"no pair of {sorted(wanted)}; it has {', '.join(known or ())}")
        return replace(corpus, pairs=taken, languages=())
    named = corpus.pairs if corpus.is_of_pairs else _locales(corpus, known)
    for name in named:
        if known is not None and name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0)
            place.fail((*where, key), f"{corpus.format} has no {name!r}; did you mean {near[0]!r}? "
                       f"It has {', '.join(known)}")  # fmt: skip
        try:  # a name becomes a folder
            split_codes(name) if corpus.is_of_pairs else language_code(name)
        except ValueError as error:
            place.fail((*where, key), str(error))
    if named:
        return replace(corpus, languages=() if corpus.is_of_pairs else named)
    return replace(corpus, languages=tuple(known or ()))


def _locales(corpus: CorpusConfig, known: Sequence[str] | None) -> tuple[str, ...]:
    """The named locales. `yo` stands for the locale `yor`, where the format does not say which locales there are."""
    form = reader(corpus.format)
    if form.LOCALES is not None or known is None:
        return corpus.languages
    by_language = {form.language_of(locale): locale for locale in known}
    return tuple(name if name in known else by_language.get(name, name) for name in corpus.languages)


def _known(corpus: CorpusConfig, folder: Path, where: tuple[str | int, ...], place: Locator) -> Sequence[str] | None:
    """Locales or pairs that the corpus has; None where they are named but can't be seen yet.

    Raises:
        ConfigError: if nothing is named and what there is can't be seen.
    """
    is_named = bool(corpus.pairs if corpus.is_of_pairs else corpus.languages)
    if not corpus.is_of_pairs and is_named and (known := reader(corpus.format).LOCALES) is not None:
        return known
    if corpus.path is None:
        return None
    path = (folder / Path(corpus.path).expanduser()).resolve()
    if is_named and not path.exists():
        return None  # its own step tells
    try:
        return pair_reader(corpus.format).pairs(path) if corpus.is_of_pairs else reader(corpus.format).locales(path)
    except CorpusError as error:
        if is_named:
            return None
        place.fail((*where, "path"), str(error))
