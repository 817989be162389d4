"""Define the partitions (languages, sentence pairs, training sets of heads) and which of them depend on which.

What does not belong here: encoders and methods, which are part of the asset key because each has its own
dependencies, and seeds, which are rows.
"""

from collections.abc import Sequence
from functools import cache

import dagster as dg

from disent_core.config.model import Config, MethodConfig
from disent_core.evaluation.contract import Task
from disent_core.experiment.scopes import Scopes


def languages(config: Config) -> dg.StaticPartitionsDefinition:
    """One partition a language of any corpus."""
    return dg.StaticPartitionsDefinition(list(config.languages))


def utterance_languages(config: Config) -> dg.StaticPartitionsDefinition:
    """One partition a language that has utterances."""
    return dg.StaticPartitionsDefinition(list(config.utterance_languages))


def sentence_pairs(config: Config) -> dg.StaticPartitionsDefinition:
    """One partition a language pair of a corpus of sentence pairs, in its direction."""
    return dg.StaticPartitionsDefinition(list(config.pair_names))


def mteb_sources(config: Config) -> dg.StaticPartitionsDefinition:
    """One partition a folder of results of mteb."""
    return dg.StaticPartitionsDefinition(list(config.mteb.results))


def pairs(config: Config, methods: Sequence[MethodConfig] | None = None) -> dg.StaticPartitionsDefinition:
    """One partition a training set: a language pair, a mixture of several, or one language.

    With methods, only the training sets that one of them is trained and evaluated on.
    """
    return dg.StaticPartitionsDefinition(list(_training_sets(config, methods)))


# --- mappings: a partition of the source -> those that depend on it ----------------------------------------


def same_pair(
    config: Config, methods: Sequence[MethodConfig], of: Sequence[MethodConfig] | None = None
) -> dg.StaticPartitionMapping | None:
    """A training set of methods depends on the same training set of the source.

    Args:
        config: of the run.
        methods: the methods that depend.
        of: the methods whose training sets the source has; all, if None.

    Returns:
        None if both have the same partitions: that is what Dagster assumes, and both can share a run.
    """
    dependents = _training_sets(config, methods)
    if dependents == _training_sets(config, of):
        return None
    return dg.StaticPartitionMapping({pair: pair for pair in dependents})


def same_language(config: Config) -> dg.StaticPartitionMapping:
    """A language depends on its utterances."""
    return dg.StaticPartitionMapping({language: language for language in config.utterance_languages})


def pair_to_languages(config: Config) -> dg.StaticPartitionMapping:
    """A language depends on every sentence pair that it is part of."""
    pairs_of = {"-".join(pair): set(pair) for corpus_pairs in config.sentence_pairs.values() for pair in corpus_pairs}
    return dg.StaticPartitionMapping(pairs_of)


def language_to_pairs(
    config: Config, methods: Sequence[MethodConfig] | None = None, *, languages: Sequence[str] | None = None
) -> dg.StaticPartitionMapping:
    """A training set depends on its languages only; with methods, the mapping has only their training sets."""
    dependents: dict[str, set[str]] = {language: set() for language in languages or config.languages}
    for training_set in _training_sets(config, methods):
        for language in config.languages_of(training_set):
            if language in dependents:
                dependents[language].add(training_set)
    return _mapping(dependents)


def pair_to_training_sets(config: Config) -> dg.StaticPartitionMapping:
    """A training set depends on its training sentence pairs."""
    dependents: dict[str, set[str]] = {}
    for training_set in config.training_sets:
        for left, right in config.pair_languages[training_set]:
            for _, name in config.training_pairs(left, right):
                dependents.setdefault(name, set()).add(training_set)
    return _mapping(dependents)


def training_set_to_languages(config: Config) -> dg.StaticPartitionMapping:
    """A language depends on every training set that it is part of."""
    return dg.StaticPartitionMapping({name: set(config.languages_of(name)) for name in config.training_sets})


def evaluated(
    config: Config, methods: Sequence[MethodConfig], tasks: Sequence[Task]
) -> dict[str, dg.StaticPartitionMapping]:
    """For every table that methods are evaluated on: partition -> their training sets that depend on it.

    The key `languages` has the mapping of the embeddings.
    """
    dependents: dict[str, dict[str, set[str]]] = {"languages": {}}
    scopes, parts_of = Scopes(config), cache(lambda scope: scope.partitions(tasks))
    # Methods that are alike in this are measured on the same.
    distinct = {(method.method.is_trained, config.training_sets_of(method)): method for method in methods}
    for method in distinct.values():
        for scope, training_sets in scopes.measured(method):
            parts = parts_of(scope)
            for table, part in (*parts, *(("languages", language) for language in scope.languages if parts)):
                dependents.setdefault(table, {}).setdefault(part, set()).update(training_sets)
    return {table: _mapping(of_table) for table, of_table in dependents.items() if of_table}


def _mapping(dependents: dict[str, set[str]]) -> dg.StaticPartitionMapping:
    return dg.StaticPartitionMapping({key: names for key, names in dependents.items() if names})


def _training_sets(config: Config, methods: Sequence[MethodConfig] | None) -> tuple[str, ...]:
    """Training sets of the methods, in the order of the configuration."""
    if methods is None:
        return config.training_sets
    own = dict.fromkeys(method.pairs for method in methods)  # few differ, however many methods there are
    chosen = {training_set for pairs in own for training_set in pairs or config.experiment.pairs}
    return tuple(training_set for training_set in config.training_sets if training_set in chosen)
