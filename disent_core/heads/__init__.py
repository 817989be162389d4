"""The methods, by name. A method is added by a module here and a line in `METHODS`: its module, whose `METHOD` it is.

Where variants share a module the line names the attribute too: `module:ATTRIBUTE`. A method outside the library needs
no line: the configuration names it so itself.
"""

from importlib import import_module
from typing import Any

from disent_core.errors import ConfigError
from disent_core.heads.contract import Method
from disent_core.registry import find, is_import

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


def method(name: str) -> Method[Any]:
    """The method of that name, of the library or, as `module` or `module:ATTRIBUTE`, of a user's package.

    Raises:
        ConfigError: if there is none, or it is no method, or it has the name of one of the library's.
    """
    name = ALIASES.get(name, name)
    found = find("method", name, METHODS, "METHOD")
    if not isinstance(found, Method):
        remedy = "export an instance of a subclass of disent_core.heads.contract.Method"
        raise ConfigError(f"method {name!r}: this is no method but a {type(found).__name__}; {remedy}")
    if is_import(name) and found.name in METHODS and found is not method(found.name):
        raise ConfigError(f"method {name!r}: its name {found.name!r} is that of a method of disent; rename it")
    return found


def described(name: str) -> str:
    """What the module of that method says of it."""
    name = ALIASES.get(name, name)
    return import_module(METHODS.get(name, name).partition(":")[0]).__doc__ or name
