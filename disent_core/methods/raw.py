"""`raw`: the encoder's sentence vector, unchanged. The baseline that every head should beat."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disent_core.methods.families import UntrainedMethod
from disent_core.settings import Settings

if TYPE_CHECKING:
    from disent_core.training.data import TextFeatures


@dataclass(frozen=True, kw_only=True)
class RawConfig(Settings):
    """No settings: pooling and layer belong to the encoder."""


def sentence(features: "TextFeatures", config: RawConfig) -> Any:
    """Return the encoder's sentence vectors, float32 [texts, dim]."""
    return features.vectors.take(features.rows).numpy()


METHOD = UntrainedMethod(name="raw", presets={"paper": RawConfig()}, sentence=sentence)
