"""Choose the corpora, languages and pairs on which a method is measured with one of its training sets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from disent_core.config.model import Config, MethodConfig
from disent_core.corpora import format_module, reader
from disent_core.corpora.contract import Kind
from disent_core.evaluation.contract import Inputs, Task


@dataclass(frozen=True)
class Scope:
    """A language, or a pair of languages, of a corpus."""

    corpus: str
    kind: Kind
    parallel: Literal["all", "some", "none"]
    languages: tuple[str, ...]
    is_of_sentence_pairs: bool = False

    def has(self, task: Task) -> bool:
        """Whether the task applies to the scope."""
        scope = "pair" if len(self.languages) == 2 else "language"
        return self.kind in task.kinds and (self.is_of_sentence_pairs or task.scope in (scope, "both"))

    def partitions(self, tasks: Sequence[Task]) -> list[tuple[str, str]]:
        """Table and partition of everything that the tasks read of the scope."""
        parts = (part for task in tasks if self.has(task) for part in task.partitions(self.kind, self.languages))
        return list(dict.fromkeys(parts))

    def inputs(self, tables: Mapping[tuple[str, str], pa.Table]) -> Inputs:
        """Inputs of a task on the scope."""
        return Inputs(
            corpus=self.corpus, languages=self.languages, tables=tables, kind=self.kind, parallel=self.parallel
        )


def scopes(config: Config, method: MethodConfig, training_set: str) -> list[Scope]:
    """Return the scopes on which the method is measured with the training set.

    A trained method is measured on the languages and pairs of the training set, and with `evaluation.unseen` on all
    others too. An untrained method is the same for every training set, so each scope is measured once: with the first
    training set that has it, or else with the first of all.
    """
    seen = list(_seen(config, training_set))
    if method.method.is_trained and not config.evaluation.unseen:
        return seen
    all_scopes = list(dict.fromkeys((*seen, *_all_scopes(config))))
    if method.method.is_trained:
        return all_scopes
    training_sets = config.training_sets_of(method)
    first = {scope: name for name in reversed(training_sets) for scope in _seen(config, name)}
    return [scope for scope in all_scopes if first.get(scope, training_sets[0]) == training_set]


def _seen(config: Config, training_set: str) -> Iterator[Scope]:
    languages = config.languages_of(training_set)
    for pair in config.pair_languages[training_set]:
        yield from _of_pair(config, *pair)
    for language in languages:
        yield from _of_language(config, language)
    yield from (scope for scope in _of_sentence_pairs(config) if set(scope.languages) <= set(languages))


def _all_scopes(config: Config) -> Iterator[Scope]:
    for pair in dict.fromkeys(pair for pairs in config.pair_languages.values() for pair in pairs):
        yield from _of_pair(config, *pair)
    for language in config.utterance_languages:
        yield from _of_language(config, language)
    yield from _of_sentence_pairs(config)


def _of_pair(config: Config, left: str, right: str) -> Iterator[Scope]:
    for corpus in config.corpora_of_pair(left, right):
        form = reader(corpus.format)
        yield Scope(corpus.name, form.KIND, form.PARALLEL, (left, right))


def _of_language(config: Config, language: str) -> Iterator[Scope]:
    for corpus in config.corpora_of(language):
        form = reader(corpus.format)
        yield Scope(corpus.name, form.KIND, form.PARALLEL, (language,))


def _of_sentence_pairs(config: Config) -> Iterator[Scope]:
    for corpus in config.corpora:
        for pair in config.sentence_pairs.get(corpus.name, ()):
            yield Scope(corpus.name, format_module(corpus.format).KIND, "all", pair, is_of_sentence_pairs=True)
