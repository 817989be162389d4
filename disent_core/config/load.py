"""The configuration: one TOML file, validated whole before anything runs.

An unknown key, a wrong type or a name that does not exist is a `ConfigError` that names file, line and key.
Each stage keeps its own settings beside its code, as a frozen dataclass; here they are put together.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from disent_core import heads
from disent_core.config.corpora import complete_corpora, languages_of_locales
from disent_core.config.sections import CorpusConfig, ExperimentConfig, TargetsConfig
from disent_core.config.toml_lines import Locator, nearest
from disent_core.corpora import reader
from disent_core.corpora.languages import split_codes, split_pair
from disent_core.encoders import ENCODER_KINDS, encoder_module
from disent_core.errors import ConfigError, located
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.heads.contract import Method
from disent_core.negatives import BleuConfig
from disent_core.settings import Settings
from disent_core.storage.tables import safe_part
from disent_core.training.needs import Need

_OWN_KEYS = ("method", "preset", "encoders", "pairs", "seeds", "corpora")
"""Keys of `[methods.NAME]` beside those of the method."""


@dataclass(frozen=True, kw_only=True)
class _File(Settings):
    """The file's sections as they stand, before names are looked up."""

    corpora: tuple[CorpusConfig, ...]
    encoders: tuple[dict[str, Any], ...]
    experiment: ExperimentConfig
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    negatives: BleuConfig = field(default_factory=BleuConfig)
    targets: TargetsConfig = field(default_factory=TargetsConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """A method under the name that the metrics table gives it.

    `encoders`, `pairs` and `seeds` are its own, empty where it takes the experiment's; `pairs` may name mixtures
    that no other method is trained on. `corpora` are those whose tags a method learns, whether other methods train
    on them or not; empty where it takes all that are trained on.
    """

    name: str
    method: Method[Any]
    settings: Settings
    encoders: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    corpora: tuple[str, ...] = ()

    @cached_property
    def needs(self) -> frozenset[Need]:
        """What the method reads with these settings."""
        return self.method.needs_of(self.settings)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a run depends on, but for where results go."""

    path: Path
    corpora: tuple[CorpusConfig, ...]
    encoders: Mapping[str, Any]
    experiment: ExperimentConfig
    methods: Mapping[str, MethodConfig]
    negatives: BleuConfig
    targets: TargetsConfig
    evaluation: EvaluationConfig

    @cached_property
    def locales(self) -> dict[str, dict[str, str]]:
        """Corpus of utterances -> language -> locale as published. A language is the locale's language part (`en`),
        or the whole locale where two of one corpus share that part (`zh-CN`, `zh-TW`)."""
        return {corpus.name: languages_of_locales(corpus) for corpus in self.corpora if not corpus.is_of_pairs}

    @cached_property
    def sentence_pairs(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Corpus of sentence pairs -> languages of source and target of each pair."""
        return {
            corpus.name: tuple(split_codes(pair) for pair in corpus.pairs)
            for corpus in self.corpora
            if corpus.is_of_pairs
        }

    @cached_property
    def utterance_languages(self) -> tuple[str, ...]:
        """Languages that have utterances, in the order in which they are first named."""
        return tuple(dict.fromkeys(language for own in self.locales.values() for language in own))

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Languages of all corpora: those with utterances first, then the others of sentence pairs."""
        others = (language for own in self.sentence_pairs.values() for pair in own for language in pair)
        return tuple(dict.fromkeys((*self.utterance_languages, *others)))

    @cached_property
    def pair_names(self) -> tuple[str, ...]:
        """Language pairs of all corpora of sentence pairs, `en-de` reading source, target."""
        return tuple(dict.fromkeys("-".join(pair) for own in self.sentence_pairs.values() for pair in own))

    @cached_property
    def trains_on_sentence_pairs(self) -> bool:
        """Whether any head does."""
        return any(corpus.is_of_pairs and corpus.trains for corpus in self.corpora)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """What anything is trained on: `experiment.pairs`, and the pairs of single methods."""
        own = (pair for name in self.experiment.methods for pair in self.methods[name].pairs)
        return tuple(dict.fromkeys((*self.experiment.pairs, *own)))

    @cached_property
    def pair_languages(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Entry -> its language pairs: one, or several for a mixture; a single language is a pair with itself."""
        return {entry: tuple(split_pair(pair, self.languages) for pair in entry.split("+")) for entry in self.entries}

    def languages_of(self, entry: str) -> tuple[str, ...]:
        """Languages of an entry, each once."""
        return tuple(dict.fromkeys(language for two in self.pair_languages[entry] for language in two))

    def corpora_of(self, language: str, *, training: bool = False) -> tuple[CorpusConfig, ...]:
        """Corpora that have utterances of the language; with `training`, those that heads train on."""
        return tuple(
            corpus
            for corpus in self.corpora
            if language in self.locales.get(corpus.name, ()) and (corpus.trains or not training)
        )

    def trained_corpora(self, method: MethodConfig, language: str) -> tuple[CorpusConfig, ...]:
        """Corpora whose utterances of the language the method trains on."""
        if not method.corpora:
            return self.corpora_of(language, training=True)
        return tuple(corpus for corpus in self.corpora_of(language) if corpus.name in method.corpora)

    def corpora_of_pair(self, left: str, right: str, *, training: bool = False) -> tuple[CorpusConfig, ...]:
        """Corpora that have parallel utterances of both languages."""
        both = [corpus for corpus in self.corpora_of(left, training=training) if corpus in self.corpora_of(right)]
        return tuple(corpus for corpus in both if reader(corpus.format).PARALLEL != "none" and left != right)

    def corpora_of_sentence_pair(self, pair: str) -> tuple[CorpusConfig, ...]:
        """Corpora of sentence pairs that have this one, in this direction."""
        return tuple(corpus for corpus in self.corpora if corpus.is_of_pairs and pair in corpus.pairs)

    def switchable_corpora(self, pair: str) -> tuple[CorpusConfig, ...]:
        """Those of them whose words can be switched: their pairs are translations."""
        return tuple(corpus for corpus in self.corpora_of_sentence_pair(pair) if corpus.is_switchable)

    def training_pairs(self, left: str, right: str) -> tuple[tuple[CorpusConfig, str], ...]:
        """Corpora of sentence pairs that heads train on, with the name of the pair there: `de-en` is `en-de` too."""
        names = dict.fromkeys((f"{left}-{right}", f"{right}-{left}"))
        found = ((corpus, name) for name in names for corpus in self.corpora_of_sentence_pair(name))
        return tuple((corpus, name) for corpus, name in found if corpus.trains and left != right)

    def methods_of(self, encoder: str) -> tuple[MethodConfig, ...]:
        """The experiment's methods that run on the encoder."""
        chosen = (self.methods[name] for name in self.experiment.methods)
        return tuple(method for method in chosen if not method.encoders or encoder in method.encoders)

    def pairs_of(self, method: MethodConfig) -> tuple[str, ...]:
        """Entries that the method is trained and measured on."""
        return method.pairs or self.experiment.pairs

    def seeds_of(self, method: MethodConfig) -> tuple[int, ...]:
        """Seeds that the method is trained with: one where nothing in it is random."""
        return (method.seeds or self.experiment.seeds) if method.method.is_seeded else (0,)

    def needs(self, encoder: str) -> frozenset[Need]:
        """What those methods read."""
        return frozenset().union(*(method.needs for method in self.methods_of(encoder)))

    def resolve(self, path: str) -> Path:
        """A path of the file: relative to the file's folder."""
        return (self.path.parent / Path(path).expanduser()).resolve()


def load_config(path: Path) -> Config:
    """Read and validate a configuration file.

    Raises:
        ConfigError: naming file, line and key of everything that is wrong.
    """
    if not path.is_file():
        raise ConfigError(located(path, None, "there is no such file", "Set DISENT_CONFIG to a configuration"))
    text = _read(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line.group(1)) if line else len(text.splitlines())  # otherwise it is the end of the file
        raise ConfigError(located(path, number, str(error), "Mend the TOML syntax")) from error
    except (ValueError, RecursionError) as error:
        found = f"a value is too long or nested too deeply ({error})"
        raise ConfigError(located(path, None, found, "Shorten it")) from error
    place = Locator(path, text)
    parsed = place.validate(_File, raw, ())
    config = Config(
        path=path.resolve(),
        corpora=complete_corpora(parsed.corpora, place),
        encoders=_encoders(parsed.encoders, place),
        experiment=parsed.experiment,
        methods=_methods(parsed, place),
        negatives=parsed.negatives,
        targets=parsed.targets,
        evaluation=parsed.evaluation,
    )
    _check_names(config, place)
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(located(path, None, f"not UTF-8 ({error})", "Save the file as UTF-8")) from error


def _encoders(tables: Sequence[dict[str, Any]], place: Locator) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for index, table in enumerate(tables):
        where = ("encoders", index)
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in ENCODER_KINDS:
            place.fail((*where, "kind"), f"kind is {kind!r}; choose one of {', '.join(ENCODER_KINDS)}")
        settings = {key: value for key, value in table.items() if key != "kind"}
        encoder = place.validate(encoder_module(kind).CONFIG, settings, where)
        if encoder.name in found:
            place.fail((*where, "name"), f"two encoders are named {encoder.name!r}")
        try:
            found[encoder.name] = _resolved(encoder, place.path.parent)
        except (RuntimeError, ValueError, OSError) as error:  # no such home folder, or a character that no path has
            place.fail((*where, "path"), f"{encoder.path!r} is no path: {error}")
    return found


def _resolved(encoder: Any, folder: Path) -> Any:
    """The encoder with its `path`, if it has one on disk, relative to the configuration file."""
    path = getattr(encoder, "path", None)
    if path is None or path.startswith("package:"):
        return encoder
    return replace(encoder, path=str((folder / Path(path).expanduser()).resolve()))


def _methods(parsed: _File, place: Locator) -> dict[str, MethodConfig]:
    names = dict.fromkeys((*parsed.experiment.methods, *parsed.methods))
    return {name: _method(name, dict(parsed.methods.get(name, {})), place) for name in names}


def _method(name: str, table: dict[str, Any], place: Locator) -> MethodConfig:
    where, named_by = ("methods", name), ("methods", name, "method") if table else ("experiment", "methods")
    base = place.validate(str, table.pop("method", name), (*where, "method"))
    preset = place.validate(str, table.pop("preset", "paper"), (*where, "preset"))
    encoders, pairs, corpora = (
        _own(table, key, tuple[str, ...], where, place) for key in ("encoders", "pairs", "corpora")
    )
    seeds = _own(table, "seeds", tuple[int, ...], where, place)
    if base not in heads.METHODS:
        remedy = f'choose one of {", ".join(heads.METHODS)}, or name one by method = "..." in [methods.{name}]'
        place.fail(named_by, f"unknown method {base!r}{nearest(base, heads.METHODS)}; {remedy}")
    method = heads.method(base)
    if seeds and not method.is_seeded:
        place.fail((*where, "seeds"), f"nothing in {base} is random; leave seeds out")
    if corpora and not method.labels:
        remedy = "leave corpora out, and set train of each of [[corpora]]"
        place.fail((*where, "corpora"), f"{base} trains on all corpora that have train = true; {remedy}")
    if preset not in method.presets:
        place.fail((*where, "preset"), f"{base} has no preset {preset!r}; choose one of {', '.join(method.presets)}")
    defaults = method.presets[preset]
    settings = place.validate(type(defaults), {**asdict(defaults), **table}, where, _OWN_KEYS)
    own = {"encoders": encoders, "pairs": pairs, "seeds": seeds, "corpora": corpora}
    return MethodConfig(name=name, method=method, settings=settings, **own)


def _own(table: dict[str, Any], key: str, kind: Any, where: tuple[str, ...], place: Locator) -> tuple[Any, ...]:
    """What a method has instead of the experiment's: taken out of its table, empty where it is not there."""
    if key not in table:
        return ()
    values = place.validate(kind, table.pop(key), (*where, key))
    if not values or len(set(values)) < len(values):
        default = {"encoders": "all encoders", "corpora": "all with train = true"}.get(key, "the experiment's")
        said = f"{key} must be distinct, and at least one: {list(values)}"
        place.fail((*where, key), f"{said}; leave it out to take {default}")
    return values


def _check_names(config: Config, place: Locator) -> None:
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
    lacks: Mapping[str, str] = getattr(config.encoders[encoder], "lacks", {})
    return [said for need, said in lacks.items() if need in method.needs]


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
    """Entries are of languages that a corpus shares; two languages are a pair in one direction only, everywhere."""
    own = [(("methods", method.name, "pairs"), method.pairs, method.corpora) for method in config.methods.values()]
    first: dict[frozenset[str], str] = {}
    for where, entries, corpora in [(("experiment", "pairs"), config.experiment.pairs, ()), *own]:
        _check_entries(config, place, entries, where, corpora)
        for pair in (pair for entry in entries for pair in entry.split("+")):
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
    for entry in config.pairs_of(method) if method.corpora else ():
        for language in (language for pair in entry.split("+") for language in split_pair(pair, config.languages)):
            if not config.trained_corpora(method, language):
                remedy = f"choose others, or set pairs in [methods.{method.name}]"
                place.fail(where, f"none of {', '.join(method.corpora)} has {language}, of {entry!r}; {remedy}")


def _check_entries(
    config: Config, place: Locator, entries: Sequence[str], where: tuple[str, ...], corpora: Sequence[str]
) -> None:
    """They are pairs of languages that a corpus shares; of chosen `corpora` each has to have one: `_check_corpora`."""
    for entry in entries:
        pairs: list[frozenset[str]] = []
        for pair in entry.split("+"):
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
            place.fail(where, f"{entry!r} names a pair of languages twice")
