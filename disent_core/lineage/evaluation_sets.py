"""Choose the corpora, languages and pairs on which a method is measured with one of its training sets."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product

import pyarrow as pa

from disent_core.config.model import Config, MethodConfig
from disent_core.corpora import format_module, reader
from disent_core.corpora.contract import Kind, Parallel
from disent_core.evaluation.contract import Inputs, Task


@dataclass(frozen=True)
class Scope:
    """A language, or a pair of languages, of a corpus."""

    corpus: str
    kind: Kind
    parallel: Parallel
    languages: tuple[str, ...]
    is_of_sentence_pairs: bool = False
    trains: bool = True

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
            corpus=self.corpus,
            languages=self.languages,
            tables=tables,
            kind=self.kind,
            parallel=self.parallel,
            trains=self.trains,
        )


def scopes(config: Config, method: MethodConfig, training_set: str) -> list[Scope]:
    """Return the scopes on which the method is measured with the training set, see `Scopes.of`."""
    return Scopes(config).of(method, training_set)


class Scopes:
    """The scopes of a configuration. Build it once to ask for many training sets: what they share is kept."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._first: dict[tuple[str, ...], dict[Scope, str]] = {}

    def of(self, method: MethodConfig, training_set: str) -> list[Scope]:
        """The scopes on which the method is measured with the training set.

        A trained method is measured on the languages and pairs of the training set, and with `evaluation.unseen` on
        all others too. An untrained method is the same for every training set, so each scope is measured once: with
        the first training set that has it, or else with the first of all.
        """
        seen, training_sets = list(dict.fromkeys(self._seen(training_set))), self.config.training_sets_of(method)
        if method.method.is_trained:
            return list(dict.fromkeys((*seen, *self.all))) if self.config.evaluation.unseen else seen
        first = self._first_of(training_sets)
        mine = [scope for scope in seen if first[scope] == training_set]
        others = self.all if training_set == training_sets[0] else ()
        return [*mine, *(scope for scope in others if scope not in first)]

    def measured(self, method: MethodConfig) -> Iterator[tuple[Scope, Sequence[str]]]:
        """Scopes, each with training sets of the method that it is measured with; a scope may come several times."""
        training_sets = self.config.training_sets_of(method)
        if method.method.is_trained and self.config.evaluation.unseen:
            yield from ((scope, training_sets) for scope in self.all)
        else:
            yield from ((scope, (name,)) for name in training_sets for scope in self.of(method, name))

    @cached_property
    def all(self) -> tuple[Scope, ...]:
        """Every scope once: of the pairs of training sets, of languages, of sentence pairs."""
        pairs = dict.fromkeys(pair for pairs in self.config.pair_languages.values() for pair in pairs)
        of_pairs = (scope for pair in pairs for scope in self._of_pair(*pair))
        of_languages = (scope for language in self.config.utterance_languages for scope in self._of_language(language))
        return tuple(dict.fromkeys((*of_pairs, *of_languages, *self._of_sentence_pairs)))

    def _first_of(self, training_sets: tuple[str, ...]) -> dict[Scope, str]:
        """Scope -> the first of the training sets that has it."""
        if training_sets not in self._first:
            names = ((scope, name) for name in reversed(training_sets) for scope in self._seen(name))
            self._first[training_sets] = dict(names)
        return self._first[training_sets]

    def _seen(self, training_set: str) -> Iterator[Scope]:
        languages = self.config.languages_of(training_set)
        for pair in self.config.pair_languages[training_set]:
            yield from self._of_pair(*pair)
        for language in languages:
            yield from self._of_language(language)
        between = chain.from_iterable(self._between.get(pair, ()) for pair in product(languages, repeat=2))
        yield from sorted(between, key=self._of_sentence_pairs.__getitem__)

    def _of_pair(self, left: str, right: str) -> Iterator[Scope]:
        for corpus in self.config.corpora_of_pair(left, right):
            form = reader(corpus.format)
            yield Scope(corpus.name, form.KIND, form.PARALLEL, (left, right))

    def _of_language(self, language: str) -> Iterator[Scope]:
        for corpus in self.config.corpora_of(language):
            form = reader(corpus.format)
            yield Scope(corpus.name, form.KIND, form.PARALLEL, (language,))

    @cached_property
    def _of_sentence_pairs(self) -> dict[Scope, int]:
        """Every corpus and pair of sentences, with its place among them."""
        scopes = (
            Scope(
                corpus.name,
                format_module(corpus.format).KIND,
                "all",
                pair,
                is_of_sentence_pairs=True,
                trains=corpus.trains,
            )
            for corpus in self.config.corpora
            for pair in self.config.sentence_pairs.get(corpus.name, ())
        )
        return {scope: place for place, scope in enumerate(scopes)}

    @cached_property
    def _between(self) -> dict[tuple[str, ...], list[Scope]]:
        """The same by source and target."""
        scopes: dict[tuple[str, ...], list[Scope]] = defaultdict(list)
        for scope in self._of_sentence_pairs:
            scopes[scope.languages].append(scope)
        return dict(scopes)
