"""Check that the sections of a configuration agree: names exist, and corpora have the pairs."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from disent_core.config.model import Config, MethodConfig
from disent_core.config.toml_lines import TomlErrors
from disent_core.corpora.languages import split_pair
from disent_core.errors import quoted
from disent_core.registry import nearest
from disent_core.storage.names import safe_part


def check_names(config: Config, toml: TomlErrors) -> None:
    names = [corpus.name for corpus in config.corpora]
    for index, name in enumerate(names):
        if name in names[:index]:
            toml.fail(("corpora", index, "name"), f"{quoted(name)} is the name of another corpus; choose another")
    _check_parts(config, toml)
    for index, settings in enumerate(config.encoders.values()):
        for key, problem in settings.problems(config):
            toml.fail(("encoders", index, key), problem)
    for name in config.named_sets:
        _check_named_set(config, toml, name)
    _check_pairs(config, toml)
    for method in config.methods.values():
        for name in method.encoders:
            if name not in config.encoders:
                remedy = f"choose one of {', '.join(config.encoders)}"
                toml.fail(("methods", method.name, "encoders"), f"there is no encoder {name!r}; {remedy}")
            if method.method.is_trained and not config.encoders[name].is_base_of_heads(config):
                problem = f"{method.name} is trained, and {name!r} was distilled from utterances that heads train on"
                toml.fail(("methods", method.name, "encoders"), f"{problem}; name another encoder")
        _check_corpora(config, toml, method)
    _check_needs(config, toml)
    _check_exports(config, toml)


def check_paths(config: Config) -> None:
    """Check that every corpus without a download, and the word lists, are at their paths.

    A configuration loads without them.
    """

    def fail(key_path: tuple[str | int, ...], problem: str) -> None:
        TomlErrors(config.path, config.path.read_text(encoding="utf-8")).fail(key_path, problem)

    absent = absent_corpora(config)
    for index, corpus in enumerate(config.corpora):
        if path := absent.get(corpus.name):
            remedy = "put the corpus there, or set path (docs/corpora.md says where to get corpora)"
            fail(("corpora", index, "path"), f"no file or folder at {path}; {remedy}")
    lists = config.targets.code_switching.dictionaries
    if lists is not None and not (folder := config.resolve(lists)).is_dir():
        remedy = "put the word lists there, or leave dictionaries out"
        fail(("targets", "code_switching", "dictionaries"), f"no folder at {folder}; {remedy}")


def absent_corpora(config: Config) -> dict[str, Path]:
    """Return name -> path of every corpus without a download that is not at its path."""
    paths = {corpus.name: config.resolve(corpus.path) for corpus in config.corpora if corpus.path and not corpus.url}
    return {name: path for name, path in paths.items() if not path.exists()}


def _check_needs(config: Config, toml: TomlErrors) -> None:
    for name in config.encoders:
        for method in config.methods_of(name):
            if missing := " and ".join(_lacking(config, name, method)):
                key_path = ("methods", method.name, "encoders") if method.encoders else ("experiment", "methods")
                suitable = [candidate for candidate in config.encoders if not _lacking(config, candidate, method)]
                remedy = (
                    f"name those that it runs on, encoders = {json.dumps(suitable)} in [methods.{method.name}]"
                    if suitable
                    else f"no encoder of this file has it: add one, or leave {method.name} out"
                )
                toml.fail(key_path, f"{method.name} needs {missing}, which encoder {name!r} does not have; {remedy}")


def _lacking(config: Config, encoder: str, method: MethodConfig) -> list[str]:
    return [description for need, description in config.encoders[encoder].lacks.items() if need in method.needs]


def _check_parts(config: Config, toml: TomlErrors) -> None:
    named_keys = [
        *((("corpora", index, "name"), corpus.name) for index, corpus in enumerate(config.corpora)),
        *((("encoders", index, "name"), name) for index, name in enumerate(config.encoders)),
        *((("methods", name), name) for name in config.methods),
        *((("training_sets", name), name) for name in config.named_sets),
        *((("mteb", "results", name), name) for name in config.mteb.results),
    ]
    for key_path, name in named_keys:
        _check_part(name, key_path, toml)
    for kind in ("corpora", "encoders", "methods", "training_sets"):
        of_lower: dict[str, str] = {}
        for key_path, name in named_keys:
            if key_path[0] == kind and (first := of_lower.setdefault(name.lower(), name)) != name:
                toml.fail(key_path, f"{name!r} and {first!r} differ in case only, so on some disks they are one folder")
    if "comparisons" in config.methods:
        problem = "'comparisons' is already the name of the comparison of methods"
        toml.fail(("methods", "comparisons"), f"{problem}; rename this method")


def _check_part(name: str, key_path: tuple[str | int, ...], toml: TomlErrors) -> None:
    try:
        safe_part(name)
    except ValueError as error:
        toml.fail(key_path, str(error))


def _check_pairs(config: Config, toml: TomlErrors) -> None:
    """Check that a corpus has the languages of every training set, and that each pair has one direction everywhere."""
    of_methods = [
        (("methods", method.name, "pairs"), method.pairs, method.method.is_trained and not method.corpora)
        for method in config.methods.values()
    ]
    by_default = (config.methods[name] for name in config.experiment.methods if not config.methods[name].pairs)
    trains = any(method.method.is_trained for method in by_default)
    name_of_pair: dict[frozenset[str], str] = {}
    for key_path, training_sets, reads in [(("experiment", "pairs"), config.experiment.pairs, trains), *of_methods]:
        for training_set in training_sets:
            _check_part(training_set, key_path, toml)
        _check_training_sets(config, toml, training_sets, key_path, needs_data=reads)
        for training_set in training_sets:
            for pair in (*config.pairs_of(training_set), *config.further_pairs(training_set)):
                name = "-".join(dict.fromkeys(pair))
                first_name = name_of_pair.setdefault(frozenset(pair), name)
                if name != first_name:
                    of_set = f", of {training_set!r}," if training_set in config.named_sets else ""
                    problem = f"{name!r}{of_set} is {first_name!r} reversed, which is the same training"
                    remedy = f"reverse {first_name!r} elsewhere" if of_set else f"write {first_name!r} here too"
                    toml.fail(key_path, f"{problem}; {remedy}")


def _check_named_set(config: Config, toml: TomlErrors, name: str) -> None:
    """Check that a set of `[training_sets]` has a unique name, and languages and pairs that corpora have."""
    named, key_path = config.named_sets[name], ("training_sets", name)
    if "+" in name:
        toml.fail(key_path, f"{quoted(name)} would be read as a mixture of pairs; leave + out of the name")
    try:
        split_pair(name, config.languages)
    except ValueError:
        pass
    else:
        toml.fail(key_path, f"{quoted(name)} is a language or a pair of languages already; choose another name")
    listed = () if named.languages == "all" else named.languages
    for key, languages in (("pivot", [named.pivot] if named.pivot else []), ("languages", listed)):
        for language in languages:
            if language not in config.languages:
                remedy = f"{nearest(language, config.languages)}; choose one of {', '.join(config.languages)}"
                toml.fail((*key_path, key), f"no corpus has the language {quoted(language)}{remedy}")
    pairs = config.pairs_of(name)
    if not pairs:
        problem = "it has no language besides its pivot"
        toml.fail((*key_path, "languages"), f"{problem}; name the languages to pair with the pivot")
    known, languages = set(map(frozenset, pairs)), list(dict.fromkeys(chain.from_iterable(pairs)))
    for pair in named.evaluate:
        try:
            left, right = split_pair(pair, languages)
        except ValueError as error:
            toml.fail((*key_path, "evaluate"), f"{error}, which are those of {name!r}; name such a pair")
        if frozenset((left, right)) in known or left == right:
            toml.fail((*key_path, "evaluate"), f"heads of {name!r} are measured on {pair!r} anyway; leave it out")
        if not config.corpora_of_pair(left, right):
            problem = f"no corpus has parallel utterances of {pair!r}"
            toml.fail((*key_path, "evaluate"), f"{problem}; leave it out (sentence pairs are measured anyway)")
        known.add(frozenset((left, right)))


def _check_corpora(config: Config, toml: TomlErrors, method: MethodConfig) -> None:
    key_path = ("methods", method.name, "corpora")
    for name in method.corpora:
        if name not in config.locales:
            remedy = f"{nearest(name, config.locales)}; choose one of {', '.join(config.locales)}"
            toml.fail(key_path, f"no corpus of utterances is named {name!r}{remedy}")
    for training_set in config.training_sets_of(method) if method.corpora else ():
        for language in chain.from_iterable(config.pairs_of(training_set)):
            if not config.trained_corpora(method, language):
                problem = f"none of {', '.join(method.corpora)} has {language}, a language of {training_set!r}"
                toml.fail(key_path, f"{problem}; choose others, or set pairs in [methods.{method.name}]")


def _check_exports(config: Config, toml: TomlErrors) -> None:
    trained = [
        f"{method.name}@{encoder}:{training_set}"
        for encoder, method, training_set in config.measured()
        if method.method.is_trained
    ]
    for head in config.exports.heads:
        if head not in trained:
            remedy = f"{nearest(head, trained)}; write METHOD@ENCODER:PAIR, with a method that is trained"
            toml.fail(("exports", "heads"), f"there is no head {quoted(head)}{remedy}")


def _check_training_sets(
    config: Config, toml: TomlErrors, training_sets: Sequence[str], key_path: tuple[str, ...], *, needs_data: bool
) -> None:
    """Check that training sets consist of language pairs, with `needs_data` only pairs that a training corpus has."""
    for training_set in training_sets:
        try:
            pairs = config.pairs_of(training_set)
        except ValueError as error:
            names = f", nor a set in [training_sets]: {', '.join(config.named_sets)}" if config.named_sets else ""
            toml.fail(key_path, f"{error}{names}")
        for left, right in pairs:
            if left == right:
                has_data = bool(config.corpora_of(left, training=True))
            else:
                pairs_of_sentences = config.training_pairs(left, right)
                has_data = bool(config.corpora_of_pair(left, right, training=True) or pairs_of_sentences)
            if needs_data and not has_data:
                pair = "-".join(dict.fromkeys((left, right)))
                toml.fail(key_path, f"no corpus has both languages of {pair!r} for training")
        if len(set(map(frozenset, pairs))) < len(pairs):
            toml.fail(key_path, f"{training_set!r} names a pair of languages twice")
