"""Stage `targets`: make masked texts, template pairs and aligned training pairs from utterances with slots."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import Config
from disent_core.corpora import reader
from disent_core.corpora.annotation import OUTSIDE
from disent_core.lineage.corpora import naming_files, word_list, word_list_hash
from disent_core.lineage.result import Check, CheckResult, StepResult, result_of, unique_rows
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
from disent_core.storage.tables import SCHEMAS, RefreshResult, content_of, fingerprint, read_info
from disent_core.targets.code_switching import CODE_VERSION as SWITCHING_VERSION
from disent_core.targets.code_switching import code_switched, read_dictionary
from disent_core.targets.masking import mask_utterances
from disent_core.targets.parallel_mates import parallel_mates
from disent_core.targets.template_pairs import TemplatePairConfig, template_pairs

CODE_VERSION = "1"
ALL_MASKED = Check("every_utterance_is_masked", "The table has as many rows as there are utterances.", True)
HAS_TARGETS = Check("utterances_with_slots_have_targets", "If an utterance has slots, there are targets.", False)
HAS_SWITCHED = Check("word_list_switches_words", "A pair with a word list and sentences has switched ones.", False)
HAS_MATES = Check("pairs_have_mates", "There are mates; without any, heads learn no shape and no values.", False)
HAS_ALIGNED = Check("pairs_have_texts", "There are texts in both languages of the training set's pairs.", False)


# --- tables of one language -------------------------------------------------------------------------------


OF_TRAINING = (MASKED, TRAINING_TEMPLATES)
"""Tables that are made only from corpora that heads train on."""


def _templates(config: Config, key: Key) -> TemplatePairConfig:
    return config.targets.template_pairs if key == TEMPLATES else config.targets.training_template_pairs


def version(config: Config, key: Key) -> str:
    """Return the fingerprint of the code and settings that determine masked utterances, or template pairs."""
    masking = config.targets.mask, config.targets.no_slot_residual
    return fingerprint(CODE_VERSION, masking if key == MASKED else _templates(config, key))


def refresh_language(workspace: Workspace, language: str, *, key: Key) -> StepResult:
    """Make masked utterances, or template pairs: one file per corpus."""
    config = workspace.config
    columns = ["utterance_id"] if key == MASKED else ["source_utterance_id", "target_text"]

    def refresh(corpus: str) -> RefreshResult:
        def make() -> pa.Table:
            utterances = workspace.read(*UTTERANCES, corpus, language)
            if key == MASKED:
                return mask_utterances(utterances, config.targets)
            return template_pairs(utterances, _templates(config, key))

        inputs = fingerprint(version(config, key), content_of(workspace.table(*UTTERANCES, corpus, language)))
        return workspace.refresh(*key, corpus, language, inputs=inputs, make=make, key=("corpus", "language", *columns))

    names = [corpus.name for corpus in config.corpora_of(language, training=key in OF_TRAINING)]
    tables = list(map(refresh, names))
    sources = [(*UTTERANCES, name, language) for name in names]
    return result_of(tables, checks=[unique_rows(tables), _is_filled(workspace, key, tables, sources)])


def _is_filled(workspace: Workspace, key: Key, tables: Sequence[RefreshResult], sources: Sequence[Key]) -> CheckResult:
    rows = sum(table.info.rows for table in tables)
    if key == MASKED:
        utterances = sum(info.rows for source in sources if (info := read_info(workspace.table(*source))))
        return ALL_MASKED.result(rows == utterances, rows=rows, utterances=utterances)
    if rows:
        return HAS_TARGETS.result(True, rows=rows)
    splits = _templates(workspace.config, key).splits
    with_slots = sum(_with_slots(workspace.read(*source, columns=["split", "slot_tags"]), splits) for source in sources)
    return HAS_TARGETS.result(not with_slots, rows=0, utterances_with_slots=with_slots)


def _with_slots(rows: pa.Table, splits: Sequence[str]) -> int:
    tags = rows.filter(pc.is_in(rows["split"], pa.array(splits)))["slot_tags"].to_pylist()
    return sum(any(tag != OUTSIDE for tag in of) for of in tags)


# --- code-switched sentences ------------------------------------------------------------------------------


def switching_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `code_switched_pairs`."""
    return fingerprint(CODE_VERSION, SWITCHING_VERSION, config.targets.code_switching)


def refresh_switched(workspace: Workspace, pair: str) -> StepResult:
    """Make `code_switched_pairs` of a pair: one file per corpus, without rows if the pair has no word list."""
    config, words = workspace.config, word_list(workspace, pair)

    def refresh(corpus: str) -> RefreshResult:
        def make() -> pa.Table:
            if words is None:
                return SCHEMAS["code_switched_pairs"].empty_table()
            sentences = workspace.read(*SENTENCE_PAIRS, corpus, pair)
            return code_switched(sentences, read_dictionary(words), config.targets.code_switching)

        content = content_of(workspace.table(*SENTENCE_PAIRS, corpus, pair))
        inputs = fingerprint(switching_version(config), content, word_list_hash(workspace, pair))
        key = ("corpus", "pair", "pair_id", "switched_language")
        return workspace.refresh(*SWITCHED, corpus, pair, inputs=inputs, make=make, key=key)

    tables = [refresh(corpus.name) for corpus in config.switchable_corpora(pair)]
    rows = sum(table.info.rows for table in tables)
    has_list = words is not None
    return result_of(
        tables,
        checks=[unique_rows(tables), HAS_SWITCHED.result(rows > 0 or not has_list, rows=rows, word_list=has_list)],
    )


# --- parallel mates ---------------------------------------------------------------------------------------


def mates_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `parallel_mates`."""
    mates = config.targets.parallel_mates
    return fingerprint(CODE_VERSION, mates, *([mates.draw] if mates.draw != "by_pair" else []))


def refresh_mates(workspace: Workspace, training_set: str) -> StepResult:
    """Make `parallel_mates` of the parallel utterances of a training set."""
    sources = [
        (f"{left}-{right}", (*UTTERANCES, corpus, left), (*UTTERANCES, corpus, right))
        for corpus, left, right in _sources(workspace, training_set)
    ]

    def parts() -> Iterator[pa.Table]:
        for pair, source, target in sources:
            sides = workspace.read(*source), workspace.read(*target)
            yield parallel_mates(pair, *sides, workspace.config.targets.parallel_mates)

    contents = [(pair, *(content_of(workspace.table(*side)) for side in sides)) for pair, *sides in sources]
    inputs = fingerprint(mates_version(workspace.config), contents)
    return _refresh_set(workspace, MATES, training_set, inputs, parts, ("mate_index",), HAS_MATES)


# --- aligned pairs ----------------------------------------------------------------------------------------


def refresh_aligned(workspace: Workspace, training_set: str) -> StepResult:
    """Make `aligned_pairs` of a training set: its parallel utterances, then its sentence pairs."""
    sources, config = list(_sources(workspace, training_set)), workspace.config
    of_sentences = [  # corpus, its pair and the two languages
        (corpus.name, name, left, right)
        for left, right in config.pair_languages[training_set]
        for corpus, name in config.training_pairs(left, right)
    ]
    read = [
        *chain.from_iterable(_read_of(*source) for source in sources),
        *((*SENTENCE_PAIRS, corpus, name) for corpus, name, _, _ in of_sentences),
    ]

    def parts() -> Iterator[pa.Table]:
        yield from (_align(workspace, *source) for source in sources)
        yield from (_align_sentences(workspace, *source) for source in of_sentences)

    contents = [content_of(workspace.table(*of)) for of in read]
    inputs = fingerprint(CODE_VERSION, sources, contents, *([of_sentences] if of_sentences else ()))
    return _refresh_set(workspace, ALIGNED, training_set, inputs, parts, (), HAS_ALIGNED)


def _refresh_set(
    workspace: Workspace,
    key: Key,
    training_set: str,
    inputs: str,
    parts: Callable[[], Iterator[pa.Table]],
    within: tuple[str, ...],
    filled: Check,
) -> StepResult:
    """Make a training set's table from its parts (possibly none), unless it is up to date."""
    make = lambda: pa.concat_tables([SCHEMAS[key[1]].empty_table(), *parts()])  # noqa: E731
    rows = ("corpus", "pair", "utterance_id", *within)
    table = workspace.refresh(*key, training_set, inputs=inputs, make=make, key=rows)
    is_filled = table.info.rows > 0 or not workspace.config.is_of_pairs(training_set)
    return result_of([table], checks=[unique_rows([table]), filled.result(is_filled, rows=table.info.rows)])


def _sources(workspace: Workspace, training_set: str) -> Iterator[tuple[str, str, str]]:
    """Yield the corpus and the two languages of every part of a training set that comes from utterances."""
    for left, right in workspace.config.pair_languages[training_set]:
        for corpus in workspace.config.corpora_of_pair(left, right, training=True):
            yield corpus.name, left, right


def _read_of(corpus: str, left: str, right: str) -> list[Key]:
    return [(*key, corpus, language) for language in (left, right) for key in (UTTERANCES, MASKED, POOL)]


def _align(workspace: Workspace, corpus: str, left: str, right: str) -> pa.Table:
    from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs

    tables = [workspace.read(*of) for of in _read_of(corpus, left, right)]
    format_name = next(settings.format for settings in workspace.config.corpora if settings.name == corpus)
    is_partial = reader(format_name).PARALLEL == "some"
    source, target = LanguageTables(*tables[:3]), LanguageTables(*tables[3:])
    with naming_files(workspace, corpus):
        return aligned_pairs(f"{left}-{right}", source, target, partial=is_partial)


def _align_sentences(workspace: Workspace, corpus: str, name: str, left: str, right: str) -> pa.Table:
    from disent_core.targets.aligned_pairs import aligned_sentences

    table = workspace.read(*SENTENCE_PAIRS, corpus, name)
    return aligned_sentences(table, (left, right), is_turned=name != f"{left}-{right}")
