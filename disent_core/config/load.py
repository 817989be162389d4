"""The configuration: one TOML file, validated whole before anything runs.

An unknown key, a wrong type or a name that does not exist is a `ConfigError` that names file, line and key.
Each stage keeps its own settings beside its code, as a frozen dataclass; here they are put together.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from disent_core import heads
from disent_core.config.checks import check_names
from disent_core.config.corpora import complete_corpora
from disent_core.config.model import Config, MethodConfig
from disent_core.config.sections import CorpusConfig, ExperimentConfig, TargetsConfig
from disent_core.config.toml_lines import Locator
from disent_core.encoders import ENCODER_KINDS, encoder_module
from disent_core.encoders.contract import EncoderConfig
from disent_core.errors import ConfigError, located
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.negatives import BleuConfig
from disent_core.registry import is_import
from disent_core.settings import Settings

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
    check_names(config, place)
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(located(path, None, f"not UTF-8 ({error})", "Save the file as UTF-8")) from error


def _encoders(tables: Sequence[dict[str, Any]], place: Locator) -> dict[str, EncoderConfig]:
    found: dict[str, EncoderConfig] = {}
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
            found[encoder.name] = encoder.resolved(place.path.parent)
        except (RuntimeError, ValueError, OSError) as error:  # no such home folder, or a character that no path has
            place.fail((*where, "path"), f"this is no path: {error}")
    return found


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
    if is_import(name) and not table:
        place.fail(named_by, f'{name!r} would name folders; give it another name, [methods.NAME] method = "{name}"')
    try:
        method = heads.method(base)
    except ConfigError as error:
        remedy = "" if table else f'; or name one by method = "..." in [methods.{name}]'
        place.fail(named_by, f"{error}{remedy}")
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
    return MethodConfig(name=name, base=base, method=method, settings=settings, **own)


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
