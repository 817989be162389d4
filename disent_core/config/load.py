"""Load the configuration: one TOML file, validated completely before anything runs.

An unknown key, a wrong type or a name that does not exist is a `ConfigError` that names file, line and key.
Each stage keeps its settings beside its code, as a frozen dataclass; this module puts them together.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any

from disent_core import methods
from disent_core.config import sections
from disent_core.config.checks import check_names
from disent_core.config.model import Config, MethodConfig
from disent_core.config.sections import CorpusConfig
from disent_core.config.toml_lines import TomlErrors
from disent_core.corpora import pair_reader, reader
from disent_core.corpora.languages import language_code, split_codes
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.encoders.contract import EncoderConfig
from disent_core.errors import ConfigError, CorpusError, commas, located, quoted
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.negatives.config import BleuConfig
from disent_core.registry import is_import, nearest
from disent_core.settings import Seed, Settings

_LONGEST_LINE = 20_000
"""Characters: `tomllib` takes quadratic time in the number of parts of a dotted key."""

_COMMON_KEYS = ("method", "preset", "encoders", "pairs", "seeds", "corpora")
"""Keys of `[methods.NAME]` that every method has, besides its own settings."""


@dataclass(frozen=True, kw_only=True)
class _File(Settings):
    """The sections of the file as written, before names are looked up."""

    corpora: tuple[CorpusConfig, ...]
    encoders: tuple[dict[str, Any], ...]
    experiment: sections.ExperimentConfig
    training_sets: dict[str, sections.TrainingSetConfig] = field(default_factory=dict)
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    negatives: BleuConfig = field(default_factory=BleuConfig)
    targets: sections.TargetsConfig = field(default_factory=sections.TargetsConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    settings_search: sections.SettingsSearchConfig = field(default_factory=sections.SettingsSearchConfig)
    mteb: sections.MtebConfig = field(default_factory=sections.MtebConfig)
    exports: sections.ExportsConfig = field(default_factory=sections.ExportsConfig)
    warehouse: sections.WarehouseConfig = field(default_factory=sections.WarehouseConfig)


def load_config(path: Path) -> Config:
    """Read and validate a configuration file; a `ConfigError` names file, line and key of everything that is wrong."""
    if not path.is_file():
        remedy = "Check the path (DISENT_CONFIG names it for the command line), or make a project with disent init"
        problem = "this is a folder, not a file" if path.is_dir() else "there is no such file"
        raise ConfigError(located(path, None, problem, remedy))
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors on Windows write a mark at the start
    except UnicodeDecodeError as error:
        raise ConfigError(located(path, None, f"not UTF-8 ({error})", "Save the file as UTF-8")) from error
    except OSError as error:
        remedy = "Check the permissions of the file and the disk"
        raise ConfigError(located(path, None, f"can't be read ({error})", remedy)) from error
    toml = TomlErrors(path, text)
    tables = _parsed(path, text)
    targets = tables.get("targets")
    if isinstance(targets, dict) and isinstance(given := targets.get("training_template_pairs"), dict):
        # Missing keys have the defaults of this table, not those of its kind.
        targets["training_template_pairs"] = {**sections.OF_TRAINING, **given}
    parsed = toml.validate(_File, tables, ())
    for index, corpus in enumerate(parsed.corpora):
        _check_path(corpus.path, ("corpora", index, "path"), toml)
    _check_path(parsed.targets.code_switching.dictionaries, ("targets", "code_switching", "dictionaries"), toml)
    for name, folder in parsed.mteb.results.items():
        _check_path(folder, ("mteb", "results", name), toml)
    names = dict.fromkeys((*parsed.experiment.methods, *parsed.methods))
    corpora = [_complete(corpus, ("corpora", index), toml) for index, corpus in enumerate(parsed.corpora)]
    configured = {name: _method(name, parsed.methods, toml) for name in names}
    trials = _trials(configured, parsed, toml)
    experiment = replace(parsed.experiment, methods=(*parsed.experiment.methods, *trials))
    resolved = ("corpora", "encoders", "experiment", "training_sets", "methods")
    others = {key.name: getattr(parsed, key.name) for key in fields(parsed) if key.name not in resolved}
    config = Config(
        path=path.resolve(),
        corpora=tuple(corpora),
        encoders=_encoders(parsed.encoders, toml),
        experiment=experiment,
        named_sets=parsed.training_sets,
        methods=configured | trials,
        **others,
    )
    check_names(config, toml)
    return config


def _parsed(path: Path, text: str) -> dict[str, Any]:
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _LONGEST_LINE:
            problem = f"a line of {len(line):,} characters; the limit is {_LONGEST_LINE:,}"
            raise ConfigError(located(path, number, problem, "Write a list over several lines"))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line.group(1)) if line else len(text.splitlines())  # an error without a line is at the end
        problem = re.sub(r"at line \d+, ", "at ", str(error))
        raise ConfigError(located(path, number, problem, "Fix the TOML syntax")) from error
    except (ValueError, RecursionError) as error:
        problem = f"a value is too long or nested too deeply ({error})"
        raise ConfigError(located(path, None, problem, "Shorten it")) from error


def _check_path(path: str | None, key_path: tuple[str | int, ...], toml: TomlErrors) -> None:
    try:
        (toml.path.parent / Path(path or "").expanduser()).resolve().stat()
    except (FileNotFoundError, NotADirectoryError):
        return  # it may come later
    except (RuntimeError, ValueError, OSError) as error:  # no such home folder, or an invalid character
        toml.fail(key_path, f"not a usable path: {error}")


# --- corpora --------------------------------------------------------------------------------------------


def _complete(corpus: CorpusConfig, key_path: tuple[str | int, ...], toml: TomlErrors) -> CorpusConfig:
    """Fill in the languages or pairs that are used: those that the corpus names, or all at its path."""
    available = _available(corpus, toml.path.parent, key_path, toml)
    if corpus.is_of_pairs and not corpus.pairs:
        languages = set(corpus.languages)
        pairs = tuple(pair for pair in available or () if not languages or languages.issuperset(split_codes(pair)))
        if not pairs:
            problem = f"the corpus has no pair of {commas(sorted(languages))}"
            toml.fail((*key_path, "languages"), f"{problem}; it has {', '.join(available or ())}")
        return replace(corpus, pairs=pairs, languages=())
    key, named = ("pairs", corpus.pairs) if corpus.is_of_pairs else ("languages", _locales(corpus, available))
    for name in named:
        if available is not None and name not in available:
            suggestions = get_close_matches(name, available, n=1, cutoff=0)
            toml.fail((*key_path, key), f"{corpus.format} has no {quoted(name)} (did you mean {suggestions[0]!r}?); "
                       f"it has {', '.join(available)}")  # fmt: skip
        try:  # a name becomes a folder
            split_codes(name) if corpus.is_of_pairs else language_code(name)
        except ValueError as error:
            toml.fail((*key_path, key), str(error))
    return replace(corpus, languages=() if corpus.is_of_pairs else named or tuple(available or ()))


def _locales(corpus: CorpusConfig, available: Sequence[str] | None) -> tuple[str, ...]:
    """Return the named locales. If the format does not list its locales, `yo` stands for the locale `yor`."""
    module = reader(corpus.format)
    if module.LOCALES is not None or available is None:
        return corpus.languages
    by_language = {module.language_of(locale): locale for locale in available}
    return tuple(name if name in available else by_language.get(name, name) for name in corpus.languages)


def _available(
    corpus: CorpusConfig, folder: Path, key_path: tuple[str | int, ...], toml: TomlErrors
) -> Sequence[str] | None:
    """Return the locales or pairs that the corpus has; None if some are named but the corpus can't be listed yet."""
    is_named = bool(corpus.pairs if corpus.is_of_pairs else corpus.languages)
    if not corpus.is_of_pairs and is_named and (locales := reader(corpus.format).LOCALES) is not None:
        return locales
    if corpus.path is None:
        return None
    path = (folder / Path(corpus.path).expanduser()).resolve()
    if is_named and not path.exists():
        return None  # the corpus asset reports the missing file
    try:
        return pair_reader(corpus.format).pairs(path) if corpus.is_of_pairs else reader(corpus.format).locales(path)
    except CorpusError as error:
        if is_named:
            return None
        toml.fail((*key_path, "path"), str(error))


# --- encoders and methods -------------------------------------------------------------------------------


def _encoders(tables: Sequence[dict[str, Any]], toml: TomlErrors) -> dict[str, EncoderConfig]:
    encoders: dict[str, EncoderConfig] = {}
    for index, table in enumerate(tables):
        key_path = ("encoders", index)
        kind = table.get("kind")
        if not isinstance(kind, str):
            toml.fail((*key_path, "kind"), f"kind is {kind!r}; choose one of {', '.join(ENCODER_KINDS)}")
        try:
            settings_class = encoder_kind(kind)
        except ConfigError as error:
            toml.fail((*key_path, "kind"), str(error))
        settings = {key: value for key, value in table.items() if key != "kind"}
        encoder = toml.validate(settings_class, settings, key_path)
        if encoder.name in encoders:
            toml.fail((*key_path, "name"), f"two encoders are named {encoder.name!r}")
        try:
            encoders[encoder.name] = encoder.resolved(toml.path.parent)
        except (RuntimeError, ValueError, OSError) as error:  # no such home folder, or an invalid character
            toml.fail((*key_path, "path"), f"not a usable path: {error}")
    return encoders


def _method(name: str, known: Mapping[str, dict[str, Any]], toml: TomlErrors) -> MethodConfig:
    table = dict(known.get(name, {}))
    key_path, name_path = ("methods", name), ("methods", name, "method") if table else ("experiment", "methods")
    base = toml.validate(str, table.pop("method", name), (*key_path, "method"))
    preset = toml.validate(str, table.pop("preset", "paper"), (*key_path, "preset"))
    encoders, pairs, corpora = (
        _pop_distinct(table, key, tuple[str, ...], key_path, toml) for key in ("encoders", "pairs", "corpora")
    )
    seeds = _pop_distinct(table, "seeds", tuple[Seed, ...], key_path, toml)
    if is_import(name) and not table:
        remedy = f'give it another name, [methods.NAME] method = "{name}"'
        toml.fail(name_path, f"{name!r} would become the name of folders; {remedy}")
    others = known.keys() - {name}
    try:
        method = methods.method(base, also=others if base == name else ())
    except ConfigError as error:
        remedy = "" if table or nearest(name, others) else f'; or name one by method = "..." in [methods.{name}]'
        toml.fail(name_path, f"{error}{remedy}")
    if seeds and not method.is_seeded:
        toml.fail((*key_path, "seeds"), f"nothing in {base} is random; leave seeds out")
    if corpora and not method.labels:
        remedy = "leave corpora out, and set train in each of [[corpora]]"
        toml.fail((*key_path, "corpora"), f"{base} trains on all corpora that have train = true; {remedy}")
    if preset not in method.presets:
        toml.fail((*key_path, "preset"), f"{base} has no preset {preset!r}; choose one of {', '.join(method.presets)}")
    defaults = method.presets[preset]
    settings = toml.validate(type(defaults), {**asdict(defaults), **table}, key_path, _COMMON_KEYS)
    common: dict[str, Any] = {"encoders": encoders, "pairs": pairs, "seeds": seeds, "corpora": corpora}
    return MethodConfig(name=name, base=base, method=method, settings=settings, **common)


def _pop_distinct(
    table: dict[str, Any], key: str, kind: Any, key_path: tuple[str, ...], toml: TomlErrors
) -> tuple[Any, ...]:
    """Take the values of a key out of a method's table; empty if the method has none of its own."""
    if key not in table:
        return ()
    values = toml.validate(kind, table.pop(key), (*key_path, key))
    if not values or len(set(values)) < len(values):
        default = {"encoders": "all encoders", "corpora": "all with train = true"}.get(key, "the experiment's")
        problem = f"{key} must be distinct, and there must be at least one, not {commas(values) or 'none'}"
        toml.fail((*key_path, key), f"{problem}; leave it out to use {default}")
    return values


# --- search of settings -----------------------------------------------------------------------------------


def _trials(configured: dict[str, MethodConfig], parsed: _File, toml: TomlErrors) -> dict[str, MethodConfig]:
    """Return the trials of `[settings_search]` by name; mark the searched methods in `configured`."""
    search, trials = parsed.settings_search, dict[str, MethodConfig]()
    if search.methods and parsed.evaluation.split != "dev":
        toml.fail(("settings_search", "methods"), 'settings are chosen on dev; set split = "dev" in [evaluation]')
    if odd := sorted(set(search.trials_of) - set(search.methods)):
        toml.fail(("settings_search", "trials_of", odd[0]), f"{quoted(odd[0])} is not among the methods searched")
    for name in search.methods:
        if name not in parsed.experiment.methods:
            remedy = f"choose one of {', '.join(parsed.experiment.methods)}"
            toml.fail(("settings_search", "methods"), f"{quoted(name)} is not a method of the experiment; {remedy}")
        if not configured[name].method.space:
            problem = f"{configured[name].base} declares no values to search (`space` of its METHOD)"
            toml.fail(("settings_search", "methods"), f"{problem}; leave {name} out")
        configured[name] = replace(configured[name], trial_of=name)
        for trial in range(1, search.trials_of.get(name, search.trials)):
            of_trial, random = f"{name}_trial_{trial}", Random(f"{search.seed} {name} {trial}")
            drawn = {key: random.choice(values) for key, values in configured[name].method.space.items()}
            settings = replace(configured[name].settings, **drawn)
            trials[of_trial] = replace(configured[name], name=of_trial, settings=settings, trial=trial)
    return trials
