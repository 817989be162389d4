"""Partitions: languages and language pairs, as the configuration names them.

What belongs here: which partition depends on which. Encoders and methods are no partitions but part of the
asset key, because each has dependencies of its own; seeds are rows.
"""

import dagster as dg

from disent_core.config import Config, MethodConfig


def languages(config: Config) -> dg.StaticPartitionsDefinition:
    """One partition a language."""
    return dg.StaticPartitionsDefinition(list(config.languages))


def pairs(config: Config, method: MethodConfig | None = None) -> dg.StaticPartitionsDefinition:
    """One partition an entry of the configuration: a language pair, or a mixture of several.

    With a method, one for each of those that it is trained and measured on.
    """
    return dg.StaticPartitionsDefinition(list(_entries(config, method)))


def same_pair(config: Config, method: MethodConfig) -> dg.StaticPartitionMapping:
    """An entry of a method's depends on the same entry of all."""
    return dg.StaticPartitionMapping({pair: pair for pair in _entries(config, method)})


def languages_of(config: Config, pair: str) -> tuple[str, ...]:
    """Languages of an entry, each once."""
    return tuple(dict.fromkeys(language for two in config.pair_languages[pair] for language in two))


def language_to_pairs(config: Config, method: MethodConfig | None = None) -> dg.StaticPartitionMapping:
    """A pair depends on its languages, and on no other; with a method, for its pairs only."""
    pairs_of = {
        language: {pair for pair in _entries(config, method) if language in languages_of(config, pair)}
        for language in config.languages
    }
    return dg.StaticPartitionMapping({language: pairs for language, pairs in pairs_of.items() if pairs})


def _entries(config: Config, method: MethodConfig | None) -> tuple[str, ...]:
    return config.entries if method is None else config.pairs_of(method)
