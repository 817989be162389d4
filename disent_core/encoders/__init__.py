"""Frozen encoders, texts to vectors: what an encoder is (`contract`), its kinds, and what they compute with.

To add a kind, add a module to `kinds` with a subclass of `contract.EncoderConfig`, and a line in `ENCODER_KINDS`. A
kind outside the library needs no line: the configuration names its class, `kind = "my_package.my_kind:MyConfig"`.
"""

from disent_core.encoders.contract import EncoderConfig
from disent_core.errors import ConfigError
from disent_core.registry import find

ENCODER_KINDS: dict[str, str] = {
    "huggingface": "disent_core.encoders.kinds.huggingface:HuggingFaceConfig",
    "scratch": "disent_core.encoders.kinds.scratch:ScratchConfig",
    "vectors": "disent_core.encoders.kinds.vectors:VectorsConfig",
    "distilled": "disent_core.encoders.kinds.distilled:DistilledConfig",
    "words": "disent_core.encoders.kinds.words:WordsConfig",
}
"""Kind, as the configuration names it -> the class of its settings, which makes and loads the encoder."""


def encoder_kind(name: str) -> type[EncoderConfig]:
    """Return the settings class of a kind, from the library or, as `module:CLASS`, from a user's package."""
    settings = find("encoder kind", name, ENCODER_KINDS)
    if not (isinstance(settings, type) and issubclass(settings, EncoderConfig)):
        remedy = "name a subclass of disent_core.encoders.contract.EncoderConfig, as package.module:CLASS"
        raise ConfigError(f"encoder kind {name!r} is {settings!r}; {remedy}")
    return settings


def name_of_kind(settings: EncoderConfig) -> str:
    """Return the kind of an encoder as the configuration names it."""
    address = f"{type(settings).__module__}:{type(settings).__name__}"
    return next((name for name, registered in ENCODER_KINDS.items() if registered == address), address)
