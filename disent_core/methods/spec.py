"""Describe a head, its files and its fingerprints, without importing what computes it."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from disent_core.methods.contract import Method
from disent_core.settings import Settings
from disent_core.storage.results import verify_result
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights

NOT_HASHED = frozenset({"checkpoint_seconds"})
"""Settings that do not change results."""
WARM_START_KEY, INITIAL_WEIGHTS = "kin", "began_with"
"""Keys in the description of a head on disk. They keep their first names, so that earlier heads stay fresh."""
ENCODER_CONFIG, METHOD_REFERENCE = "encoder_config", "reference"


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """A head to train: a method with its settings, on one encoder and one language pair (or mixture).

    `data_fingerprint` stands for the texts that it trains on, `encoder_fingerprint` for their vectors.

    `reference` and `encoder_config` find the method and the encoder when a head is opened without its configuration; no
    result depends on them.
    """

    name: str
    method: Method[Any]
    settings: Settings
    encoder: str
    trained_on: str
    seeds: tuple[int, ...]
    data_fingerprint: str
    encoder_fingerprint: str
    reference: str = ""
    encoder_config: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """Name of the head in messages: `dream on minilm, en-de`."""
        return f"{self.name} on {self.encoder}, {self.trained_on}"

    @property
    def inputs(self) -> str:
        """Fingerprint of everything that the weights depend on."""
        return fingerprint(
            self.method.name,
            self.method.code_version,
            settings_fingerprint(self.settings),
            self.seeds,
            self.data_fingerprint,
            self.encoder_fingerprint,
        )

    @property
    def warm_start_key(self) -> str:
        """Fingerprint of everything but the training texts; a warm start needs an equal one."""
        cold = self.method.without_warm_start(self.settings)
        return replace(self, settings=cold, data_fingerprint="").inputs


@dataclass(frozen=True)
class HeadFiles:
    """Files that a head is written to."""

    weights: Path
    curve: Path
    checkpoint: Path

    @property
    def description(self) -> Path:
        """The description of the weights as JSON, which can be read without loading them."""
        return self.weights.with_suffix(".json")


def settings_fingerprint(settings: Settings) -> str:
    """Return the fingerprint of a method's settings, without those that don't change results.

    A setting at its default is left out, so that a new switch whose default keeps the behaviour retrains nothing.
    Hence a change of a default needs a new `code_version`.
    """
    values = asdict(settings)
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }
    hashed = {name: value for name, value in values.items() if name not in NOT_HASHED and value != defaults[name]}
    return fingerprint(type(settings).__name__, hashed)


def describe_head(weights: Path) -> tuple[Mapping[str, Any], str] | None:
    """Read the description and the fingerprint of a file of weights; None if there is no file."""
    if verify_result(weights) is None:
        return None
    return describe_weights(weights)
