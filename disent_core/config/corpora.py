"""Resolve which locales or pairs of each configured corpus are used: those it names, or all that lie at its path."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from disent_core.config.sections import CorpusConfig
from disent_core.config.toml_lines import TomlErrors
from disent_core.corpora import pair_reader, reader
from disent_core.corpora.languages import language_code, split_codes
from disent_core.errors import CorpusError, quoted


def complete_corpora(corpora: Sequence[CorpusConfig], toml: TomlErrors) -> tuple[CorpusConfig, ...]:
    """Return the corpora with all their `languages`, or their `pairs` if they are of sentence pairs, named."""
    return tuple(_complete(corpus, ("corpora", index), toml) for index, corpus in enumerate(corpora))


def languages_of_locales(corpus: CorpusConfig) -> dict[str, str]:
    """Map languages to locales. A language is the locale's language part, or the locale if two share that part."""
    language_of = reader(corpus.format).language_of
    parts = [language_of(locale) for locale in corpus.languages]
    return {
        language if parts.count(language) == 1 else locale: locale
        for language, locale in zip(parts, corpus.languages, strict=True)
    }


def _complete(corpus: CorpusConfig, key_path: tuple[str | int, ...], toml: TomlErrors) -> CorpusConfig:
    key = "pairs" if corpus.is_of_pairs and corpus.pairs else "languages"
    available = _available(corpus, toml.path.parent, key_path, toml)
    if corpus.is_of_pairs and not corpus.pairs:
        languages = set(corpus.languages)
        pairs = tuple(pair for pair in available or () if not languages or languages.issuperset(split_codes(pair)))
        if not pairs:
            toml.fail((*key_path, key), f"no pair of {sorted(languages)}; it has {', '.join(available or ())}")
        return replace(corpus, pairs=pairs, languages=())
    named = corpus.pairs if corpus.is_of_pairs else _locales(corpus, available)
    for name in named:
        if available is not None and name not in available:
            suggestions = get_close_matches(name, available, n=1, cutoff=0)
            toml.fail((*key_path, key), f"{corpus.format} has no {quoted(name)}; did you mean {suggestions[0]!r}? "
                       f"It has {', '.join(available)}")  # fmt: skip
        try:  # a name becomes a folder
            split_codes(name) if corpus.is_of_pairs else language_code(name)
        except ValueError as error:
            toml.fail((*key_path, key), str(error))
    if named:
        return replace(corpus, languages=() if corpus.is_of_pairs else named)
    return replace(corpus, languages=tuple(available or ()))


def _locales(corpus: CorpusConfig, available: Sequence[str] | None) -> tuple[str, ...]:
    """Return the named locales. `yo` stands for the locale `yor` if the format does not list its locales."""
    module = reader(corpus.format)
    if module.LOCALES is not None or available is None:
        return corpus.languages
    by_language = {module.language_of(locale): locale for locale in available}
    return tuple(name if name in available else by_language.get(name, name) for name in corpus.languages)


def _available(
    corpus: CorpusConfig, folder: Path, key_path: tuple[str | int, ...], toml: TomlErrors
) -> Sequence[str] | None:
    """Return the locales or pairs that the corpus has; None if some are named but the corpus can't be listed yet."""
    is_named = bool(corpus.pairs if corpus.is_of_pairs else corpus.languages)
    if not corpus.is_of_pairs and is_named and (locales := reader(corpus.format).LOCALES) is not None:
        return locales
    if corpus.path is None:
        return None
    path = (folder / Path(corpus.path).expanduser()).resolve()
    if is_named and not path.exists():
        return None  # the corpus asset reports the missing file
    try:
        return pair_reader(corpus.format).pairs(path) if corpus.is_of_pairs else reader(corpus.format).locales(path)
    except CorpusError as error:
        if is_named:
            return None
        toml.fail((*key_path, "path"), str(error))
