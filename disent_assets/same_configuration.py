"""Let a step refuse another configuration than the one it was submitted with: its process loads the file later.

The process that submits a step gives its run the tag `disent/config`. A run that has none, as one that the web page has
started, works with what its process has loaded.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from disent_core.config.model import Config
from disent_core.config.signature import signature
from disent_core.errors import ConfigError, located

TAG = "disent/config"
"""Tag of a run: the fingerprint of the configuration with which its step was submitted."""
_REMEDY = "Start the same command again; if that does not help, give every machine the same file and version of disent"


def configuration_tag(config: Config) -> dict[str, str]:
    """The tag; equal for equal configurations, also where links lead to the file by another path."""
    return {TAG: signature(replace(config, path=Path(config.path.name)))[:12]}


def check_configuration(config: Config, tags: Mapping[str, str]) -> None:
    """Check that the step of a run works with the configuration with which it was submitted.

    Args:
        config: that the process of the step has loaded.
        tags: of its run.

    Raises:
        ConfigError: if it is another.
    """
    submitted = tags.get(TAG)
    if submitted is not None and submitted != (loaded := configuration_tag(config)[TAG]):
        problem = f"this step was submitted with configuration {submitted}, but its process has loaded {loaded}"
        raise ConfigError(located(config.path, None, problem, _REMEDY))
