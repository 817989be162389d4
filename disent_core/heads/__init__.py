"""The methods, one module each. A method is added by a module here and a line in `METHODS`."""

from importlib import import_module

from disent_core.errors import ConfigError
from disent_core.heads.contract import Method

METHODS: dict[str, str] = {
    "raw": "disent_core.heads.raw",
    "centered": "disent_core.heads.centered",
    "projection": "disent_core.heads.projection",
    "bertscore": "disent_core.heads.bertscore",
    "dream": "disent_core.heads.dream",
    "fmda": "disent_core.heads.fmda",
    "twosl": "disent_core.heads.twosl",
    "token_classification": "disent_core.heads.token_classification",
}


def method(name: str) -> Method:
    """The method of that name.

    Raises:
        ConfigError: if there is none.
    """
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}. Choose one of {', '.join(METHODS)}")
    return import_module(METHODS[name]).METHOD
