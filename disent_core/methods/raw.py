"""`raw`: the encoder's sentence vector, unchanged. The baseline that every head should beat."""

from dataclasses import dataclass

from disent_core.methods.families import UntrainedMethod
from disent_core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RawConfig(Settings):
    """No settings: pooling and layer belong to the encoder."""


METHOD = UntrainedMethod(name="raw", presets={"paper": RawConfig()}, sentence="disent_core.heads.raw:sentence")
