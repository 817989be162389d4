"""Embed texts as `raw`."""

import numpy as np
import torch
from jaxtyping import Float

from disent_core.methods.raw import RawConfig
from disent_core.training.data import TextFeatures


def sentence(features: TextFeatures, config: RawConfig) -> Float[np.ndarray, "texts dim"]:
    """Return the encoder's sentence vectors, float32."""
    return torch.cat([batch["vectors"] for batch in features.batches(8192, "cpu")]).numpy()
