"""One module declares a method (its settings, presets, inputs and outputs), and `NAME_head` beside it computes it.

Declarations do not import torch: they name what computes as `module:ATTRIBUTE`, which is imported when a head is
trained or applied. To add a method, add a module that exports `METHOD`, and a line in `METHODS`; variants that share
a module are named `module:ATTRIBUTE`. A method outside the library needs no line: the configuration names its module.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from disent_core.errors import ConfigError
from disent_core.registry import find

if TYPE_CHECKING:
    from disent_core.methods.contract import Method

METHODS: dict[str, str] = {
    "raw": "disent_core.methods.untrained:RAW",
    "centered": "disent_core.methods.closed_form:CENTERED",
    "projection": "disent_core.methods.closed_form:PROJECTION",
    "procrustes": "disent_core.methods.closed_form:PROCRUSTES",
    "cca": "disent_core.methods.closed_form:CCA",
    "infonce": "disent_core.methods.infonce",
    "bertscore": "disent_core.methods.untrained:BERTSCORE",
    "dream": "disent_core.methods.dream",
    "meat": "disent_core.methods.dream:MEAT",
    "oracle": "disent_core.methods.oracle",
    "dream_oracle": "disent_core.methods.oracle:DREAM_ORACLE",
    "meat_oracle": "disent_core.methods.oracle:MEAT_ORACLE",
    "fmda": "disent_core.methods.fmda",
    "fmda_two_stage": "disent_core.methods.fmda:TWO_STAGE",
    "facet": "disent_core.methods.facet",
    "facet_static": "disent_core.methods.facet:FACET_STATIC",
    "facet_first": "disent_core.methods.facet:FACET_FIRST",
    "lexicon": "disent_core.methods.lexicon",
    "emu": "disent_core.methods.emu",
    "emu_no_discriminator": "disent_core.methods.emu:NO_DISCRIMINATOR",
    "emu_no_discriminator_no_center": "disent_core.methods.emu:NO_DISCRIMINATOR_NO_CENTER",
    "emu_parallel": "disent_core.methods.emu:PARALLEL",
    "softmax": "disent_core.methods.emu:SOFTMAX",
    "contrastive": "disent_core.methods.emu:CONTRASTIVE",
    "npair": "disent_core.methods.emu:NPAIR",
    "fine_tuned": "disent_core.methods.infonce:FINE_TUNED",
    "twosl": "disent_core.methods.twosl",
    "twosl_no_contrastive": "disent_core.methods.twosl:NO_CONTRASTIVE",
    "twosl_no_filter": "disent_core.methods.twosl:NO_FILTER",
    "token_classification": "disent_core.methods.twosl:TOKEN_CLASSIFICATION",
}

ALIASES = {"tuned": "fine_tuned"}
"""Earlier names of methods, which configurations may still use."""


def method(name: str, *, also: Iterable[str] = ()) -> "Method[Any]":
    """Return the method of that name, from the library or, as `module` or `module:ATTRIBUTE`, from a user's package.

    `also` are names that a message may suggest besides.
    """
    from disent_core.methods.contract import Method  # imported here, because word_rows needs only numpy

    name = ALIASES.get(name, name)
    instance = find("method", name, METHODS, "METHOD", also=also)
    if not isinstance(instance, Method):
        remedy = "export an instance of a subclass of disent_core.methods.contract.Method"
        raise ConfigError(f"method {name!r}: this is a {type(instance).__name__}, not a method; {remedy}")
    if name not in METHODS and instance.name in METHODS and instance is not method(instance.name):
        raise ConfigError(
            f"method {name!r}: its name {instance.name!r} is already the name of a built-in method; rename it"
        )
    return instance


def places(name: str) -> tuple[str, ...]:
    """Return where a method is computed and where it is declared, each as `module:ATTRIBUTE` or `module`."""
    parts = (getattr(method(name), part, None) for part in ("head", "solve", "sentence", "kind", "tasks", "trainer"))
    return (*(part for part in parts if isinstance(part, str)), METHODS.get(ALIASES.get(name, name), name))


def summary(name: str) -> str:
    """Return the first paragraph of the docstring of the method's module."""
    name = ALIASES.get(name, name)
    return (import_module(METHODS.get(name, name).partition(":")[0]).__doc__ or name).partition("\n\n")[0]
