"""Define the configuration as stages read it, with names resolved and derived lists computed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

from disent_core.config import sections
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import reader
from disent_core.corpora.languages import split_codes, split_pair
from disent_core.encoders.contract import EncoderConfig
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.methods.contract import Method
from disent_core.negatives.config import BleuConfig
from disent_core.settings import Settings
from disent_core.storage.tables import fingerprint
from disent_core.training.needs import Need


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """A method, under its name in the metrics table.

    `base` is the method's name in the registry, or its module outside the library. `encoders`, `pairs` and `seeds` are
    empty if the method takes those of the experiment. `corpora` are those whose tags it learns, whether or not other
    methods train on them; empty for all training corpora. In a search of settings, `trial_of` is the searched method
    of which this is a trial, and `trial` its number; 0 is the method as configured.
    """

    name: str
    base: str
    method: Method[Any]
    settings: Settings
    encoders: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    corpora: tuple[str, ...] = ()
    trial_of: str = ""
    trial: int = 0

    @cached_property
    def needs(self) -> frozenset[Need]:
        """What the method reads with these settings."""
        return self.method.needs_of(self.settings)

    @property
    def changed(self) -> dict[str, Any]:
        """Settings that differ from the method's preset `paper`, by key."""
        paper = asdict(self.method.presets["paper"])
        return {key: value for key, value in asdict(self.settings).items() if value != paper[key]}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a run depends on, except the folder of results. Examples of what its derived names hold:

    | name | type | example |
    |---|---|---|
    | `locales` | corpus of utterances -> language -> locale | `{"massive": {"en": "en-US", "zh-TW": "zh-TW"}}` |
    | `sentence_pairs` | corpus of sentence pairs -> (source, target)s | `{"tatoeba": (("de", "en"),)}` |
    | `utterance_languages` | languages that have utterances | `("en", "zh-TW")` |
    | `languages` | the same, then other languages of sentence pairs | `("en", "zh-TW", "de")` |
    | `pair_names` | pairs of all corpora of sentence pairs, source first | `("de-en",)` |
    | `training_sets` | what one head is trained on: a pair, a mixture, one language | `("en-de+en-es", "en", "all")` |
    | `pair_languages` | training set -> its pairs | `{"all": (("en", "de"), ("en", "es"))}` |
    | `evaluated_pairs` | training set -> the same, then those only measured | `{"all": (..., ("de", "es"))}` |

    A language is the locale's language part (`en`), or the whole locale where two locales of one corpus share that part
    (`zh-CN`, `zh-TW`). A training set of one language is a pair with itself. `named_sets` are `[training_sets.NAME]`,
    used or not.
    """

    path: Path
    corpora: tuple[CorpusConfig, ...]
    encoders: Mapping[str, EncoderConfig]
    experiment: sections.ExperimentConfig
    named_sets: Mapping[str, sections.TrainingSetConfig]
    methods: Mapping[str, MethodConfig]
    negatives: BleuConfig
    targets: sections.TargetsConfig
    evaluation: EvaluationConfig
    settings_search: sections.SettingsSearchConfig
    mteb: sections.MtebConfig
    exports: sections.ExportsConfig
    warehouse: sections.WarehouseConfig

    @cached_property
    def locales(self) -> dict[str, dict[str, str]]:
        return {corpus.name: _languages_of_locales(corpus) for corpus in self.corpora if not corpus.is_of_pairs}

    @cached_property
    def sentence_pairs(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return {
            corpus.name: tuple(split_codes(pair) for pair in corpus.pairs)
            for corpus in self.corpora
            if corpus.is_of_pairs
        }

    @cached_property
    def utterance_languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language for languages in self.locales.values() for language in languages))

    @cached_property
    def languages(self) -> tuple[str, ...]:
        pair_languages = (language for pairs in self.sentence_pairs.values() for pair in pairs for language in pair)
        return tuple(dict.fromkeys((*self.utterance_languages, *pair_languages)))

    @cached_property
    def pair_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys("-".join(pair) for pairs in self.sentence_pairs.values() for pair in pairs))

    @cached_property
    def trains_on_sentence_pairs(self) -> bool:
        """Whether any corpus of sentence pairs trains heads."""
        return any(corpus.is_of_pairs and corpus.trains for corpus in self.corpora)

    @cached_property
    def training_sets(self) -> tuple[str, ...]:
        of_methods = (training_set for name in self.experiment.methods for training_set in self.methods[name].pairs)
        return tuple(dict.fromkeys((*self.experiment.pairs, *of_methods)))

    @cached_property
    def pair_languages(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return {training_set: self.pairs_of(training_set) for training_set in self.training_sets}

    def is_of_pairs(self, training_set: str) -> bool:
        """Return whether a training set has translations, rather than a single language."""
        return any(left != right for left, right in self.pair_languages[training_set])

    @cached_property
    def evaluated_pairs(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return {name: (*pairs, *self.further_pairs(name)) for name, pairs in self.pair_languages.items()}

    @cached_property
    def _corpora_by_language(self) -> dict[str, tuple[CorpusConfig, ...]]:
        return _by_name((corpus, language) for corpus in self.corpora for language in self.locales.get(corpus.name, ()))

    @cached_property
    def _corpora_by_sentence_pair(self) -> dict[str, tuple[CorpusConfig, ...]]:
        return _by_name((corpus, pair) for corpus in self.corpora if corpus.is_of_pairs for pair in corpus.pairs)

    def pairs_of(self, training_set: str) -> tuple[tuple[str, str], ...]:
        """Return the language pairs of any training set, `pivot` first in those of a named one."""
        if (named := self.named_sets.get(training_set)) is None:
            return tuple(split_pair(pair, self.languages) for pair in training_set.split("+"))
        trained = (language for language in self.utterance_languages if self.corpora_of(language, training=True))
        chosen = trained if named.languages == "all" else named.languages
        pivot = named.pivot or next(iter(self.languages), "")
        return tuple((pivot, language) for language in chosen if language != pivot)

    def further_pairs(self, training_set: str) -> tuple[tuple[str, str], ...]:
        """Return the language pairs that heads of a training set are measured but not trained on."""
        named = self.named_sets.get(training_set)
        return () if named is None else tuple(split_pair(pair, self.languages) for pair in named.evaluate)

    def is_mixture(self, training_set: str) -> bool:
        return len(self.pair_languages[training_set]) > 1

    def meaning_of(self, training_sets: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the evaluated pairs of those training sets whose names don't list them."""
        return {name: self.evaluated_pairs[name] for name in training_sets if name in self.named_sets}

    def languages_of(self, training_set: str) -> tuple[str, ...]:
        """Return the languages of a training set, each once."""
        return tuple(dict.fromkeys(language for pair in self.pair_languages[training_set] for language in pair))

    def corpora_of(self, language: str, *, training: bool = False) -> tuple[CorpusConfig, ...]:
        """Return the corpora with utterances of the language; with `training`, only those that heads train on."""
        corpora = self._corpora_by_language.get(language, ())
        return tuple(corpus for corpus in corpora if corpus.trains or not training)

    def trained_corpora(self, method: MethodConfig, language: str) -> tuple[CorpusConfig, ...]:
        """Return the corpora whose utterances of the language the method trains on."""
        if not method.corpora:
            return self.corpora_of(language, training=True)
        return tuple(corpus for corpus in self.corpora_of(language) if corpus.name in method.corpora)

    def corpora_of_pair(self, left: str, right: str, *, training: bool = False) -> tuple[CorpusConfig, ...]:
        """Return the corpora that have parallel utterances of both languages."""
        of_left = self.corpora_of(left, training=training)
        of_both = [corpus for corpus in of_left if right in self.locales[corpus.name]]
        return tuple(corpus for corpus in of_both if reader(corpus.format).PARALLEL != "none" and left != right)

    def corpora_of_sentence_pair(self, pair: str) -> tuple[CorpusConfig, ...]:
        """Return the corpora of sentence pairs that have this pair, in this direction."""
        return self._corpora_by_sentence_pair.get(pair, ())

    def switchable_corpora(self, pair: str) -> tuple[CorpusConfig, ...]:
        """Return the corpora of this pair whose words can be code-switched because the pairs are translations."""
        return tuple(corpus for corpus in self.corpora_of_sentence_pair(pair) if corpus.is_switchable)

    def training_pairs(self, left: str, right: str) -> tuple[tuple[CorpusConfig, str], ...]:
        """Return the pair corpora that heads train on, each with its name for the pair, `de-en` or `en-de`."""
        names = dict.fromkeys((f"{left}-{right}", f"{right}-{left}"))
        candidates = ((corpus, name) for name in names for corpus in self.corpora_of_sentence_pair(name))
        return tuple((corpus, name) for corpus, name in candidates if corpus.trains and left != right)

    def methods_of(self, encoder: str) -> tuple[MethodConfig, ...]:
        """Return the experiment's methods that run on the encoder."""
        methods = (self.methods[name] for name in self.experiment.methods)
        is_base = self.encoders[encoder].is_base_of_heads(self)
        return tuple(
            method
            for method in methods
            if (encoder in method.encoders if method.encoders else is_base or not method.method.is_trained)
        )

    def measured(self) -> Iterator[tuple[str, MethodConfig, str]]:
        """Yield encoder, method and training set of everything that is measured."""
        for encoder in self.encoders:
            for method in self.methods_of(encoder):
                yield from ((encoder, method, training_set) for training_set in self.training_sets_of(method))

    def trials_of(self, encoder: str) -> tuple[MethodConfig, ...]:
        """Return the methods of an encoder whose settings are searched, and their trials."""
        return tuple(method for method in self.methods_of(encoder) if method.trial_of)

    def training_sets_of(self, method: MethodConfig) -> tuple[str, ...]:
        return method.pairs or self.experiment.pairs

    def seeds_of(self, method: MethodConfig) -> tuple[int, ...]:
        """Return the seeds that the method is trained with: only one if the method is deterministic."""
        return (method.seeds or self.experiment.seeds) if method.method.is_seeded else (0,)

    def needs(self, encoder: str) -> frozenset[Need]:
        """Return what the methods of an encoder read."""
        return frozenset().union(*(method.needs for method in self.methods_of(encoder)))

    @cached_property
    def exported(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Return (encoder, method) of the heads that are kept as folders -> training sets."""
        of_method: dict[tuple[str, str], tuple[str, ...]] = {}
        for method, encoder, training_set in map(head_name, self.exports.heads):
            of_method[encoder, method] = (*of_method.get((encoder, method), ()), training_set)
        return of_method

    def resolve(self, path: str) -> Path:
        """Return a path in the file, which is relative to the file's folder, as an absolute path."""
        return (self.path.parent / Path(path).expanduser()).resolve()


def head_name(head: str) -> tuple[str, str, str]:
    """Parse the name of a head in commands into method, encoder and training set; omitted parts are empty."""
    method, _, trained = head.partition("@")
    encoder, _, training_set = trained.partition(":")
    return method, encoder, training_set


def _languages_of_locales(corpus: CorpusConfig) -> dict[str, str]:
    """Map languages to locales. A language is the locale's language part, or the locale if two share that part."""
    language_of = reader(corpus.format).language_of
    parts = [language_of(locale) for locale in corpus.languages]
    return {
        language if parts.count(language) == 1 else locale: locale
        for language, locale in zip(parts, corpus.languages, strict=True)
    }


def _by_name(named: Iterable[tuple[CorpusConfig, str]]) -> dict[str, tuple[CorpusConfig, ...]]:
    """Group corpora by the name given with each, in their order."""
    corpora: dict[str, dict[str, CorpusConfig]] = defaultdict(dict)
    for corpus, name in named:
        corpora[name][corpus.name] = corpus
    return {name: tuple(of_name.values()) for name, of_name in corpora.items()}


def signature(config: Config) -> str:
    """Return a fingerprint of everything in a configuration, which is the same in every process."""
    return fingerprint(_parts(config))


def _parts(value: object) -> object:
    """Return the parts of a value in a form that does not depend on the process.

    The `repr` of a set is ordered by hashes, which differ between processes, and that of a function has its address.
    """
    if is_dataclass(value):
        named = ((field.name, _parts(getattr(value, field.name))) for field in fields(value))
        return [type(value).__name__, *named]
    if isinstance(value, Mapping):
        return [(_parts(key), _parts(inner)) for key, inner in value.items()]
    if isinstance(value, Set):
        return sorted(map(repr, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(map(_parts, value))
    return f"{value.__module__}:{value.__qualname__}" if isinstance(value, FunctionType) else repr(value)
