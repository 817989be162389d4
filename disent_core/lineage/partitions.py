"""Derive which partitions of a step are made from which partitions of its inputs.

A mapping lists, for each partition of an input, the partitions that depend on it. Encoders and methods are not
partitions: they are parts of keys, because each has its own dependencies. Seeds are rows.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from disent_core.config.model import Config, MethodConfig
from disent_core.evaluation.contract import Task
from disent_core.lineage.evaluation_inputs import Scopes
from disent_core.lineage.step import Dependents


def training_sets(config: Config, methods: Sequence[MethodConfig] | None = None) -> tuple[str, ...]:
    """Return the training sets of the methods, in the order of the configuration; None: all training sets."""
    if methods is None:
        return config.training_sets
    distinct = dict.fromkeys(method.pairs for method in methods)  # few, however many methods there are
    chosen = {training_set for pairs in distinct for training_set in pairs or config.experiment.pairs}
    return tuple(training_set for training_set in config.training_sets if training_set in chosen)


def same_training_set(
    config: Config, methods: Sequence[MethodConfig], read: Sequence[MethodConfig] | None = None
) -> Dependents | None:
    """Map a training set of the methods to itself; None (the default) if `read`, or all methods, have the same sets."""
    dependents = training_sets(config, methods)
    return None if dependents == training_sets(config, read) else {name: {name} for name in dependents}


def language_to_training_sets(
    config: Config, methods: Sequence[MethodConfig] | None = None, *, languages: Sequence[str] | None = None
) -> Dependents:
    """Map a language to the methods' training sets that it is part of."""
    dependents: dict[str, set[str]] = {language: set() for language in languages or config.languages}
    for training_set in training_sets(config, methods):
        for language in config.languages_of(training_set):
            if language in dependents:
                dependents[language].add(training_set)
    return _without_empty(dependents)


def pair_to_training_sets(config: Config) -> Dependents:
    """Map a sentence pair to the training sets that have it."""
    dependents: dict[str, set[str]] = {}
    for training_set in config.training_sets:
        for left, right in config.pair_languages[training_set]:
            for _, name in config.training_pairs(left, right):
                dependents.setdefault(name, set()).add(training_set)
    return dependents


def evaluated(config: Config, methods: Sequence[MethodConfig], tasks: Sequence[Task]) -> dict[str, Dependents]:
    """Map, for every table that methods are evaluated on, a partition to training sets of the methods.

    The key `languages` has the mapping of the embeddings.
    """
    dependents: dict[str, dict[str, set[str]]] = {"languages": {}}
    scopes, parts_of = Scopes(config), cache(lambda scope: scope.partitions(tasks))
    # Methods that agree in this are measured on the same partitions.
    distinct = {(method.method.is_trained, config.training_sets_of(method)): method for method in methods}
    for method in distinct.values():
        for scope, names in scopes.measured(method):
            parts = parts_of(scope)
            for table, part in (*parts, *(("languages", language) for language in scope.languages if parts)):
                dependents.setdefault(table, {}).setdefault(part, set()).update(names)
    return {table: _without_empty(of_table) for table, of_table in dependents.items() if of_table}


def _without_empty(dependents: Mapping[str, set[str]]) -> Dependents:
    return {name: names for name, names in dependents.items() if names}
