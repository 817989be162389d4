"""Embed texts as `raw`."""

import numpy as np
from jaxtyping import Float

from disent_core.methods.raw import RawConfig
from disent_core.training.data import TextFeatures


def sentence(features: TextFeatures, config: RawConfig) -> Float[np.ndarray, "texts dim"]:
    """Return the encoder's sentence vectors, float32."""
    return features.vectors.take(features.rows).numpy()
