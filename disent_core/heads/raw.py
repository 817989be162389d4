"""`raw`: the encoder's own sentence vector, untouched. The baseline that every head has to beat."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from disent_core.heads.families.untrained import UntrainedMethod
from disent_core.settings import Settings
from disent_core.training.data import TextFeatures


@dataclass(frozen=True, kw_only=True)
class RawConfig(Settings):
    """Nothing to set: pooling and layer belong to the encoder."""


def sentence(features: TextFeatures, config: RawConfig) -> Float[np.ndarray, "texts dim"]:
    """The encoder's sentence vectors, float32."""
    return torch.cat([batch["vectors"] for batch in features.batches(8192, "cpu")]).numpy()


METHOD = UntrainedMethod(name="raw", presets={"paper": RawConfig()}, sentence=sentence)
