"""Frozen encoders: a published model, one that is pretrained or distilled here, or vectors from elsewhere."""

from disent_core.encoders.config import DistilledConfig, HuggingFaceConfig, ScratchConfig, VectorsConfig
from disent_core.encoders.contract import EncoderConfig

ENCODER_KINDS: dict[str, type[EncoderConfig]] = {
    "huggingface": HuggingFaceConfig,
    "scratch": ScratchConfig,
    "vectors": VectorsConfig,
    "distilled": DistilledConfig,
}
"""Kind, as the configuration names it -> its settings, by which `configured.LazyEncoder` finds what computes."""
