"""Stage `evaluation`: what each method is measured on, and the inputs of metrics and comparisons.

`evaluation` computes them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path

import pyarrow as pa

from disent_core.config.model import Config, MethodConfig
from disent_core.corpora import format_module, reader
from disent_core.corpora.contract import KINDS, Kind, Parallel
from disent_core.errors import TableError, located
from disent_core.evaluation.comparisons import CODE_VERSION as COMPARISONS_VERSION
from disent_core.evaluation.contract import READABLE, TASKS, Inputs, Task, task
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.result import Check, StepResult, gate_result
from disent_core.lineage.workspace import Workspace
from disent_core.methods.spec import describe_head, settings_fingerprint
from disent_core.storage.tables import content_of, fingerprint, read_info

CODE_VERSION = "2"
TABLES = ("outcomes", "rankings", "metrics")
"""Tables written by a method's step. Metrics come last: until they are new, the step is not done."""
IN_INTERVAL = Check("values_lie_in_their_interval", "ci_low <= value <= ci_high.", True)
PROBABILITIES = Check("p_values_are_probabilities", "0 <= p_value <= p_holm <= 1.", True)


def tasks_of(config: Config) -> list[Task]:
    return [task(name) for name in config.evaluation.tasks]


def task_names(config: Config) -> tuple[str, ...]:
    """Return the names of all tasks in display order: those of the library, then the others."""
    return tuple(dict.fromkeys((*TASKS, *(configured.name for configured in tasks_of(config)))))


def ranked_by(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the embeddings that each task ranks methods by."""
    return {configured.name: configured.ranked for configured in tasks_of(config)}


def version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine the measurement of a method."""
    return fingerprint(*_measure_version(config))


def _measure_version(config: Config) -> tuple[object, ...]:
    # The text of the settings is hashed. It omits later settings, so that earlier numbers stay up to date while those
    # have their defaults.
    evaluation = config.evaluation
    later: list[object] = [] if evaluation.hubness == ("none",) else [evaluation.hubness]
    if evaluation.heldout_search != "exact" and any(task.name == "heldout_retrieval" for task in tasks_of(config)):
        later.append({"heldout_search": evaluation.heldout_search})
    later += intervals_version(config)
    return CODE_VERSION, evaluation, [configured.code_version for configured in tasks_of(config)], *later


def comparisons_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine comparisons."""
    return fingerprint(
        COMPARISONS_VERSION,
        ranked_by(config),
        config.evaluation.bootstrap_samples,
        config.evaluation.bootstrap_seed,
        *intervals_version(config),
    )


def intervals_version(config: Config) -> list[object]:
    """Return the versions' part for `evaluation.intervals`: empty if only items are resampled, as before it existed."""
    intervals = config.evaluation.intervals
    return [] if intervals == "items" else [{"intervals": intervals}]


# --- corpora, languages and pairs that a method is measured on --------------------------------------------


@dataclass(frozen=True)
class Scope:
    """A language, a pair of languages, or three or more languages of a training set, in a corpus."""

    corpus: str
    kind: Kind
    parallel: Parallel
    languages: tuple[str, ...]
    trains: bool = True

    def has(self, task: Task) -> bool:
        scope = ("language", "pair", "set")[min(len(self.languages), 3) - 1]
        scopes = ("language", "pair") if task.scope == "both" else (task.scope,)
        # A corpus of sentence pairs gives the inputs of each of its pairs to every task except those of sets.
        is_given = scope in scopes or (KINDS[self.kind] == "sentence_pairs" and task.scope != "set")
        return self.kind in task.kinds and is_given

    def partitions(self, tasks: Sequence[Task]) -> list[tuple[str, str]]:
        """Return table and partition of everything that the tasks read on the scope."""
        parts = (part for task in tasks if self.has(task) for part in task.partitions(self.kind, self.languages))
        return list(dict.fromkeys(parts))

    def inputs(self, tables: Mapping[tuple[str, str], pa.Table]) -> Inputs:
        return Inputs(
            corpus=self.corpus,
            languages=self.languages,
            tables=tables,
            kind=self.kind,
            parallel=self.parallel,
            trains=self.trains,
        )


class Scopes:
    """The scopes of a configuration. Build it once for many training sets: what they share is cached."""

    def __init__(self, config: Config) -> None:
        self.config = config
        # Scope -> the first training set that has it.
        self._first = cache(lambda names: {scope: name for name in reversed(names) for scope in self._seen(name)})

    def of(self, method: MethodConfig, training_set: str) -> list[Scope]:
        """Return the scopes on which the method is measured with the training set.

        A trained method is measured on the languages and pairs of the training set, and with `evaluation.unseen` on
        all others too. An untrained method is the same for every training set, so each scope is measured once: with the
        first training set that has it, or else with the very first.
        """
        seen, training_sets = list(dict.fromkeys(self._seen(training_set))), self.config.training_sets_of(method)
        if method.method.is_trained:
            return list(dict.fromkeys((*seen, *self.all))) if self.config.evaluation.unseen else seen
        first = self._first(training_sets)
        others = self.all if training_set == training_sets[0] else ()
        return [scope for scope in seen if first[scope] == training_set] + [s for s in others if s not in first]

    def measured(self, method: MethodConfig) -> Iterator[tuple[Scope, Sequence[str]]]:
        """Yield scopes, each with the method's training sets it is measured with; a scope may be repeated."""
        training_sets = self.config.training_sets_of(method)
        if method.method.is_trained and self.config.evaluation.unseen:
            yield from ((scope, training_sets) for scope in self.all)
        else:
            yield from ((scope, (name,)) for name in training_sets for scope in self.of(method, name))

    @cached_property
    def all(self) -> tuple[Scope, ...]:
        """Every scope once: of the pairs of training sets, of languages, of training sets, of sentence pairs."""
        pairs = dict.fromkeys(pair for pairs in self.config.evaluated_pairs.values() for pair in pairs)
        languages = ((language,) for language in self.config.utterance_languages)
        of_utterances = chain.from_iterable(map(self._of_utterances, chain(pairs, languages)))
        of_sets = chain.from_iterable(map(self._of_set, self.config.training_sets))
        return tuple(dict.fromkeys((*of_utterances, *of_sets, *self._of_sentence_pairs)))

    def _seen(self, training_set: str) -> Iterator[Scope]:
        languages = self.config.languages_of(training_set)
        for part in (*self.config.evaluated_pairs[training_set], *((language,) for language in languages)):
            yield from self._of_utterances(part)
        yield from self._of_set(training_set)
        between = chain.from_iterable(self._between.get(pair, ()) for pair in product(languages, repeat=2))
        yield from sorted(between, key=self._of_sentence_pairs.__getitem__)

    def _of_set(self, training_set: str) -> Iterator[Scope]:
        """Yield the languages of a training set together, sorted, of every corpus with parallel texts of three of them.

        They are sorted so that two training sets of the same languages have one scope.
        """
        languages = sorted(self.config.languages_of(training_set))
        for corpus in self.config.corpora:
            of_corpus = tuple(name for name in languages if name in self.config.locales.get(corpus.name, ()))
            if len(of_corpus) > 2 and (form := reader(corpus.format)).PARALLEL != "none":
                yield Scope(corpus.name, form.KIND, form.PARALLEL, of_corpus)

    def _of_utterances(self, languages: tuple[str, ...]) -> Iterator[Scope]:
        """Yield a language, or a pair of parallel languages, of every corpus that has it."""
        find = self.config.corpora_of_pair if len(languages) == 2 else self.config.corpora_of
        for corpus in find(*languages):
            form = reader(corpus.format)
            yield Scope(corpus.name, form.KIND, form.PARALLEL, languages)

    @cached_property
    def _of_sentence_pairs(self) -> dict[Scope, int]:
        """The scope of every corpus and sentence pair, with its position among them."""
        scopes = (
            Scope(corpus.name, format_module(corpus.format).KIND, "all", pair, trains=corpus.trains)
            for corpus in self.config.corpora
            for pair in self.config.sentence_pairs.get(corpus.name, ())
        )
        return {scope: place for place, scope in enumerate(scopes)}

    @cached_property
    def _between(self) -> dict[tuple[str, ...], list[Scope]]:
        scopes: dict[tuple[str, ...], list[Scope]] = defaultdict(list)
        for scope in self._of_sentence_pairs:
            scopes[scope.languages].append(scope)
        return dict(scopes)


def is_made(config: Config, table: str) -> bool:
    """Return whether the configuration makes a table: without word lists nothing is code-switched."""
    return table != "code_switched_pairs" or config.targets.code_switching.dictionaries is not None


def _sources(workspace: Workspace, method: MethodConfig, training_set: str) -> list[tuple[str, ...]]:
    config = workspace.config
    files = (
        (READABLE[table], table, scope.corpus, part)
        for scope in Scopes(config).of(method, training_set)
        for table, part in scope.partitions(tasks_of(config))
        if is_made(config, table)
    )
    return list(dict.fromkeys(files))


def evaluation_sets(workspace: Workspace, encoder: str, training_set: str) -> StepResult:
    """Return the gate's result: what the tasks read to measure the methods of an encoder."""
    config = workspace.config
    methods = [method for method in config.methods_of(encoder) if training_set in config.training_sets_of(method)]
    read = []
    for source in dict.fromkeys(source for method in methods for source in _sources(workspace, method, training_set)):
        path = workspace.table(*source)
        if (info := read_info(path)) is None:
            raise TableError(located(path, None, "this table does not exist", "Materialise its asset first"))
        read.append((source, info.rows, info.content_hash))
    encoder_fingerprint = lazy_encoder(workspace, encoder).fingerprint
    if meaning := config.meaning_of(config.training_sets):
        encoder_fingerprint = fingerprint(encoder_fingerprint, meaning)
    return gate_result(encoder_fingerprint, read)


# --- what metrics are made from ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Provenance:
    """What a metric was made from, as fingerprints.

    Attributes:
        inputs: of everything; the column `fingerprint` of `metrics`.
        code: of the code and settings of method, tasks and evaluation, and of what it is trained on.
        data: of the tables that the tasks read.
        weights: of the trained head; None if the method is untrained.
        vectors: of the encoder.
    """

    inputs: str
    code: str
    data: str
    weights: str | None
    vectors: str


def provenance(
    workspace: Workspace,
    encoder: str,
    method: MethodConfig,
    training_set: str,
    content: Callable[[Path], str | None] = content_of,
) -> Provenance:
    """Return what the metrics of a method depend on, from the current files; `content` hashes a table."""
    config = workspace.config
    measuring = _measure_version(config)
    untrained = fingerprint(method.name, method.method.code_version, settings_fingerprint(method.settings))
    weights = None
    if method.method.is_trained:
        path = workspace.head(encoder, method.name, training_set)
        if (described := describe_head(path)) is None:
            raise TableError(located(path, None, "this head does not exist", "Materialise its asset first"))
        weights = described[1]
    vectors = lazy_encoder(workspace, encoder).fingerprint
    data = [content(workspace.table(*source)) for source in _sources(workspace, method, training_set)]
    is_apart = method.method.is_trained and not config.evaluation.unseen  # its scopes are those of its training set
    learned: tuple[object, ...] = method.corpora if method.method.is_trained else config.training_sets_of(method)
    if meaning := config.meaning_of([training_set] if is_apart else config.training_sets):
        learned = (*learned, meaning)
    of_method = untrained if weights is None else fingerprint(untrained, weights)
    return Provenance(
        inputs=fingerprint(*measuring, of_method, vectors, data, learned),
        code=fingerprint(*measuring, untrained, learned),
        data=fingerprint(data),
        weights=weights,
        vectors=vectors,
    )
