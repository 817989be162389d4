"""Stage `targets`: make masked texts, template pairs and aligned training pairs from utterances with slots."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from disent_core.config.model import Config
from disent_core.config.sections import TargetsConfig
from disent_core.corpora import reader
from disent_core.lineage.corpora import naming_files, word_list, word_list_hash
from disent_core.lineage.result import StepResult, result_of
from disent_core.lineage.workspace import (
    ALIGNED,
    MASKED,
    MATES,
    POOL,
    SENTENCE_PAIRS,
    SWITCHED,
    TEMPLATES,
    TRAINING_TEMPLATES,
    UTTERANCES,
    Key,
    Workspace,
)
from disent_core.storage.tables import SCHEMAS, RefreshResult, content_of, fingerprint, read_table, refresh_table
from disent_core.targets.code_switching import CODE_VERSION as SWITCHING_VERSION
from disent_core.targets.code_switching import code_switched, read_dictionary
from disent_core.targets.masking import mask_utterances
from disent_core.targets.parallel_mates import parallel_mates
from disent_core.targets.template_pairs import template_pairs

CODE_VERSION = "1"


# --- tables of one language -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageTarget:
    """A table that is made from the utterances of one corpus and language."""

    settings: Callable[[TargetsConfig], object]
    """The part of the configuration that the table depends on."""
    make: Callable[[pa.Table, TargetsConfig], pa.Table]
    training: bool
    """Whether it is made only from corpora that heads train on."""


OF_LANGUAGES: dict[Key, LanguageTarget] = {
    MASKED: LanguageTarget(lambda targets: (targets.mask, targets.no_slot_residual), mask_utterances, True),
    TEMPLATES: LanguageTarget(
        lambda targets: targets.template_pairs,
        lambda utterances, targets: template_pairs(utterances, targets.template_pairs),
        False,
    ),
    TRAINING_TEMPLATES: LanguageTarget(
        lambda targets: targets.training_template_pairs,
        lambda utterances, targets: template_pairs(utterances, targets.training_template_pairs),
        True,
    ),
}


def version(config: Config, key: Key) -> str:
    """Return the fingerprint of the code and settings that determine one of `OF_LANGUAGES`."""
    return fingerprint(CODE_VERSION, OF_LANGUAGES[key].settings(config.targets))


def refresh_language(workspace: Workspace, language: str, *, key: Key) -> StepResult:
    """Make one of `OF_LANGUAGES`: one file per corpus."""
    target, code = OF_LANGUAGES[key], version(workspace.config, key)

    def refresh(corpus: str) -> RefreshResult:
        source = workspace.table(*UTTERANCES, corpus, language)
        return refresh_table(
            workspace.table(*key, corpus, language),
            SCHEMAS[key[1]],
            inputs=fingerprint(code, content_of(source)),
            make=lambda: target.make(read_table(source, SCHEMAS["utterances"]), workspace.config.targets),
        )

    corpora = workspace.config.corpora_of(language, training=target.training)
    return result_of([refresh(corpus.name) for corpus in corpora])


# --- code-switched sentences ------------------------------------------------------------------------------


def switching_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `code_switched_pairs`."""
    return fingerprint(CODE_VERSION, SWITCHING_VERSION, config.targets.code_switching)


def refresh_switched(workspace: Workspace, pair: str) -> StepResult:
    """Make `code_switched_pairs` of a pair: one file per corpus, without rows if the pair has no word list."""
    config, words, schema = workspace.config, word_list(workspace, pair), SCHEMAS["code_switched_pairs"]

    def refresh(corpus: str) -> RefreshResult:
        source = workspace.table(*SENTENCE_PAIRS, corpus, pair)
        inputs = fingerprint(switching_version(config), content_of(source), word_list_hash(workspace, pair))
        return refresh_table(workspace.table(*SWITCHED, corpus, pair), schema, inputs=inputs, make=lambda: make(source))

    def make(source: Path) -> pa.Table:
        if words is None:
            return schema.empty_table()
        sentences = read_table(source, SCHEMAS["sentence_pairs"])
        return code_switched(sentences, read_dictionary(words), config.targets.code_switching)

    return result_of([refresh(corpus.name) for corpus in config.switchable_corpora(pair)])


# --- parallel mates ---------------------------------------------------------------------------------------


def mates_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `parallel_mates`."""
    mates = config.targets.parallel_mates
    return fingerprint(CODE_VERSION, mates, *([mates.draw] if mates.draw != "by_pair" else []))


def refresh_mates(workspace: Workspace, training_set: str) -> StepResult:
    """Make `parallel_mates` of the parallel utterances of a training set."""
    sources = [
        (f"{left}-{right}", *(workspace.table(*UTTERANCES, corpus, language) for language in (left, right)))
        for corpus, left, right in _sources(workspace, training_set)
    ]

    def parts() -> Iterator[pa.Table]:
        settings, schema = workspace.config.targets.parallel_mates, SCHEMAS["utterances"]
        for pair, source, target in sources:
            yield parallel_mates(pair, read_table(source, schema), read_table(target, schema), settings)

    contents = [(pair, content_of(source), content_of(target)) for pair, source, target in sources]
    return _refresh_set(workspace, MATES, training_set, fingerprint(mates_version(workspace.config), contents), parts)


# --- aligned pairs ----------------------------------------------------------------------------------------


def refresh_aligned(workspace: Workspace, training_set: str) -> StepResult:
    """Make `aligned_pairs` of a training set: its parallel utterances, then its sentence pairs."""
    sources, of_sentences = list(_sources(workspace, training_set)), list(_sentence_sources(workspace, training_set))
    paths = [
        *chain.from_iterable(_paths(workspace, *source) for source in sources),
        *(workspace.table(*SENTENCE_PAIRS, corpus, name) for corpus, name, _, _ in of_sentences),
    ]

    def parts() -> Iterator[pa.Table]:
        yield from (_align(workspace, *source) for source in sources)
        yield from (_align_sentences(workspace, *source) for source in of_sentences)

    contents = [content_of(path) for path in paths]
    inputs = fingerprint(CODE_VERSION, sources, contents, *([of_sentences] if of_sentences else ()))
    return _refresh_set(workspace, ALIGNED, training_set, inputs, parts)


def _refresh_set(
    workspace: Workspace, key: Key, training_set: str, inputs: str, parts: Callable[[], Iterator[pa.Table]]
) -> StepResult:
    """Make a table of a training set of the parts, of which there may be none, unless it is up to date."""
    schema = SCHEMAS[key[1]]
    path = workspace.table(*key, training_set)
    make = lambda: pa.concat_tables([schema.empty_table(), *parts()])  # noqa: E731
    return result_of([refresh_table(path, schema, inputs=inputs, make=make)])


def _sources(workspace: Workspace, training_set: str) -> Iterator[tuple[str, str, str]]:
    """Yield corpus and two languages of every part of a training set that comes from utterances."""
    for left, right in workspace.config.pair_languages[training_set]:
        for corpus in workspace.config.corpora_of_pair(left, right, training=True):
            yield corpus.name, left, right


def _sentence_sources(workspace: Workspace, training_set: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield corpus, its pair and the two languages of every part of a training set that comes from sentence pairs."""
    for left, right in workspace.config.pair_languages[training_set]:
        for corpus, name in workspace.config.training_pairs(left, right):
            yield corpus.name, name, left, right


def _paths(workspace: Workspace, corpus: str, left: str, right: str) -> list[Path]:
    return [workspace.table(*key, corpus, language) for language in (left, right) for key in (UTTERANCES, MASKED, POOL)]


def _align(workspace: Workspace, corpus: str, left: str, right: str) -> pa.Table:
    from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs

    tables = [read_table(path, SCHEMAS[path.parent.parent.name]) for path in _paths(workspace, corpus, left, right)]
    format_name = next(settings.format for settings in workspace.config.corpora if settings.name == corpus)
    is_partial = reader(format_name).PARALLEL == "some"
    source, target = LanguageTables(*tables[:3]), LanguageTables(*tables[3:])
    with naming_files(workspace, corpus):
        return aligned_pairs(f"{left}-{right}", source, target, partial=is_partial)


def _align_sentences(workspace: Workspace, corpus: str, name: str, left: str, right: str) -> pa.Table:
    from disent_core.targets.aligned_pairs import aligned_sentences

    table = read_table(workspace.table(*SENTENCE_PAIRS, corpus, name), SCHEMAS["sentence_pairs"])
    return aligned_sentences(table, (left, right), is_turned=name != f"{left}-{right}")
