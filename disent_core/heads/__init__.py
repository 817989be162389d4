"""The methods, by name. A method is added by a module here and a line in `METHODS`: its module, whose `METHOD` it is.

Where variants share a module the line names the attribute too: `module:ATTRIBUTE`.
"""

from importlib import import_module
from typing import Any

from disent_core.errors import ConfigError
from disent_core.heads.contract import Method

METHODS: dict[str, str] = {
    "raw": "disent_core.heads.raw",
    "centered": "disent_core.heads.centered",
    "projection": "disent_core.heads.projection",
    "bertscore": "disent_core.heads.bertscore",
    "dream": "disent_core.heads.dream",
    "meat": "disent_core.heads.meat",
    "oracle": "disent_core.heads.oracle",
    "dream_oracle": "disent_core.heads.dream_oracle",
    "meat_oracle": "disent_core.heads.meat_oracle",
    "fmda": "disent_core.heads.fmda",
    "fmda_two_stage": "disent_core.heads.fmda_two_stage",
    "facet": "disent_core.heads.facet",
    "emu": "disent_core.heads.emu",
    "emu_no_discriminator": "disent_core.heads.emu:NO_DISCRIMINATOR",
    "emu_no_discriminator_no_center": "disent_core.heads.emu:NO_DISCRIMINATOR_NO_CENTER",
    "emu_parallel": "disent_core.heads.emu:PARALLEL",
    "softmax": "disent_core.heads.intent_baselines:SOFTMAX",
    "contrastive": "disent_core.heads.intent_baselines:CONTRASTIVE",
    "npair": "disent_core.heads.intent_baselines:NPAIR",
    "fine_tuned": "disent_core.heads.fine_tuned_encoder",
    "twosl": "disent_core.heads.twosl.labeller",
    "twosl_no_contrastive": "disent_core.heads.twosl.labeller:NO_CONTRASTIVE",
    "twosl_no_filter": "disent_core.heads.twosl.labeller:NO_FILTER",
    "token_classification": "disent_core.heads.token_classification",
}

ALIASES = {"tuned": "fine_tuned"}
"""Earlier names of methods, which configurations may still use."""


def described(name: str) -> str:
    """What a method's module says of it."""
    return import_module(METHODS[name].partition(":")[0]).__doc__ or name


def method(name: str) -> Method[Any]:
    """The method of that name.

    Raises:
        ConfigError: if there is none.
    """
    name = ALIASES.get(name, name)
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}. Choose one of {', '.join(METHODS)}")
    module, _, attribute = METHODS[name].partition(":")
    return getattr(import_module(module), attribute or "METHOD")
