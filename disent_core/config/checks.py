"""What must hold between the sections of a configuration: names that exist, pairs that corpora share."""

import json
from collections.abc import Sequence

from disent_core.config.model import Config, MethodConfig
from disent_core.config.toml_lines import Locator
from disent_core.corpora.languages import split_pair
from disent_core.registry import nearest
from disent_core.storage.tables import safe_part


def check_names(config: Config, place: Locator) -> None:
    """Check everything that one section says of another.

    Raises:
        ConfigError: naming file, line and key of the first thing that is wrong.
    """
    if len({corpus.name for corpus in config.corpora}) < len(config.corpora):
        place.fail(("corpora",), f"two corpora share a name: {[corpus.name for corpus in config.corpora]}")
    _check_parts(config, place)
    _check_pairs(config, place)
    for method in config.methods.values():
        for name in method.encoders:
            if name not in config.encoders:
                remedy = f"choose of {', '.join(config.encoders)}"
                place.fail(("methods", method.name, "encoders"), f"there is no encoder {name!r}; {remedy}")
        if odd := [seed for seed in method.seeds if not 0 <= seed < 2**63]:
            place.fail(("methods", method.name, "seeds"), f"seeds must be from 0 to 2**63 - 1, not {odd}")
        _check_corpora(config, place, method)
    _check_needs(config, place)


def _check_needs(config: Config, place: Locator) -> None:
    """No method on an encoder that lacks what it needs."""
    for name in config.encoders:
        for method in config.methods_of(name):
            if what := " and ".join(_lacking(config, name, method)):
                where = ("methods", method.name, "encoders") if method.encoders else ("experiment", "methods")
                fit = [other for other in config.encoders if not _lacking(config, other, method)]
                remedy = (
                    f"name those that it runs on, encoders = {json.dumps(fit)} in [methods.{method.name}]"
                    if fit
                    else f"no encoder of this file has it: add one, or leave {method.name} out"
                )
                place.fail(where, f"{method.name} needs {what}, which encoder {name!r} does not have; {remedy}")


def _lacking(config: Config, encoder: str, method: MethodConfig) -> list[str]:
    """What the method needs and the encoder can't give, in words."""
    return [said for need, said in config.encoders[encoder].lacks.items() if need in method.needs]


def _check_parts(config: Config, place: Locator) -> None:
    """Names become folders."""
    named = [
        *((("corpora", index, "name"), corpus.name) for index, corpus in enumerate(config.corpora)),
        *((("encoders", index, "name"), name) for index, name in enumerate(config.encoders)),
        *((("methods", name), name) for name in config.methods),
    ]
    for where, name in named:
        try:
            safe_part(name)
        except ValueError as error:
            place.fail(where, str(error))
    if "comparisons" in config.methods:
        place.fail(("methods", "comparisons"), "'comparisons' is what the comparison of methods is called; rename it")


def _check_pairs(config: Config, place: Locator) -> None:
    """A corpus has the languages of every training set; two languages are a pair in one direction only, everywhere."""
    own = [(("methods", method.name, "pairs"), method.pairs, method.corpora) for method in config.methods.values()]
    first: dict[frozenset[str], str] = {}
    for where, training_sets, corpora in [(("experiment", "pairs"), config.experiment.pairs, ()), *own]:
        _check_training_sets(config, place, training_sets, where, corpora)
        for pair in (pair for training_set in training_sets for pair in training_set.split("+")):
            known = first.setdefault(frozenset(split_pair(pair, config.languages)), pair)
            if pair != known:
                place.fail(where, f"{pair!r} is {known!r} turned round, the same training; write {known!r} here too")


def _check_corpora(config: Config, place: Locator, method: MethodConfig) -> None:
    """A method's own corpora have utterances, of every language that it is trained on."""
    where = ("methods", method.name, "corpora")
    for name in method.corpora:
        if name not in config.locales:
            near = nearest(name, config.locales)
            place.fail(where, f"there is no corpus of utterances {name!r}{near}; choose of {', '.join(config.locales)}")
    for training_set in config.training_sets_of(method) if method.corpora else ():
        for language in (
            language for pair in training_set.split("+") for language in split_pair(pair, config.languages)
        ):
            if not config.trained_corpora(method, language):
                remedy = f"choose others, or set pairs in [methods.{method.name}]"
                place.fail(where, f"none of {', '.join(method.corpora)} has {language}, of {training_set!r}; {remedy}")


def _check_training_sets(
    config: Config, place: Locator, training_sets: Sequence[str], where: tuple[str, ...], corpora: Sequence[str]
) -> None:
    """They are pairs of languages that a corpus shares; of chosen `corpora` each has to have one: `_check_corpora`."""
    for training_set in training_sets:
        pairs: list[frozenset[str]] = []
        for pair in training_set.split("+"):
            try:
                left, right = split_pair(pair, config.languages)
            except ValueError as error:
                place.fail(where, str(error))
            if left == right:
                has_data = bool(config.corpora_of(left, training=True))
            else:
                pairs_of_sentences = config.training_pairs(left, right)
                has_data = bool(config.corpora_of_pair(left, right, training=True) or pairs_of_sentences)
            if not has_data and not corpora:
                place.fail(where, f"no corpus has both languages of {pair!r} for training")
            pairs.append(frozenset((left, right)))
        if len(set(pairs)) < len(pairs):
            place.fail(where, f"{training_set!r} names a pair of languages twice")
