"""`raw`: the encoder's sentence vector, unchanged. The baseline that every head should beat."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from disent_core.heads.families.untrained import UntrainedMethod
from disent_core.settings import Settings
from disent_core.training.data import TextFeatures


@dataclass(frozen=True, kw_only=True)
class RawConfig(Settings):
    """No settings: pooling and layer belong to the encoder."""


def sentence(features: TextFeatures, config: RawConfig) -> Float[np.ndarray, "texts dim"]:
    """Return the encoder's sentence vectors, float32."""
    return torch.cat([batch["vectors"] for batch in features.batches(8192, "cpu")]).numpy()


METHOD = UntrainedMethod(name="raw", presets={"paper": RawConfig()}, sentence=sentence)
