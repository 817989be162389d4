"""Settings: frozen dataclasses that the configuration file fills in, and the checks that they share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, ClassVar

OF_PUBLISHED_CODE: Mapping[str, bool] = {"of_published_code": True}
"""Metadata of a field whose other values only repeat what the code of a paper does, unlike the paper.

The reference of the configuration names such a key and says no more.
"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of every class of settings: a frozen dataclass whose fields are the keys, with their defaults.

    A key that is no field is refused. A class checks values in `__post_init__`, with the functions here. They let
    None pass, which is a value that is not set, and refuse nan. A message begins with the name of the field, by
    which the configuration finds its line.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def check_positive(self, *names: str) -> None:
        """Refuse fields that are not above 0.

        Raises:
            ValueError: naming field and value; so do the other checks.
        """
        self._check(names, lambda value: value > 0, "be positive")

    def check_not_negative(self, *names: str) -> None:
        """Refuse fields that are below 0."""
        self._check(names, lambda value: value >= 0, "not be negative")

    def check_range(
        self,
        *names: str,
        above: int | None = None,
        at_least: int | None = None,
        below: int | None = None,
        at_most: int | None = None,
    ) -> None:
        """Refuse fields that are not within all of these bounds."""
        rules = {"above": (gt, above), "at least": (ge, at_least), "below": (lt, below), "at most": (le, at_most)}
        given = {word: (holds, bound) for word, (holds, bound) in rules.items() if bound is not None}
        said = " and ".join(f"{word} {bound}" for word, (_, bound) in given.items())
        self._check(names, lambda value: all(holds(value, bound) for holds, bound in given.values()), f"be {said}")

    def check_distinct(self, *names: str) -> None:
        """Refuse sequences in which a value occurs twice."""
        self._check(names, lambda values: len(set(values)) == len(values), "be distinct")

    def _check(self, names: tuple[str, ...], holds: Callable[[Any], bool], rule: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not holds(value):  # no comparison with nan holds
                raise ValueError(f"{name} must {rule}, not {list(value) if isinstance(value, tuple) else value}")
