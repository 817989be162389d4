"""The base class of settings: frozen dataclasses that the configuration file fills in, with checks that they share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, ClassVar, Literal

Precision = Literal["float32", "bfloat16"]
"""Number format of matrix products."""

OF_PUBLISHED_CODE: Mapping[str, bool] = {"of_published_code": True}
"""Metadata of a field whose other values only repeat the published code of a paper where it differs from the paper.

The page of all settings only names such a key; the page of its method describes it.
"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of every settings class: a frozen dataclass whose fields are the keys, with their defaults.

    A key that is not a field is refused. A class checks values in `__post_init__`, with the methods here. They accept
    None, which means that a value is not set, and refuse nan. A message begins with the name of the field, by
    which the configuration finds its line.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def check_positive(self, *names: str) -> None:
        """Refuse fields that are not above 0.

        Raises:
            ValueError: naming field and value; the other checks do the same.
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
        bounds = {word: (holds, bound) for word, (holds, bound) in rules.items() if bound is not None}
        rule = " and ".join(f"{word} {bound}" for word, (_, bound) in bounds.items())
        self._check(names, lambda value: all(holds(value, bound) for holds, bound in bounds.values()), f"be {rule}")

    def check_distinct(self, *names: str) -> None:
        """Refuse sequences in which a value occurs twice."""
        self._check(names, lambda values: len(set(values)) == len(values), "be distinct")

    def _check(self, names: tuple[str, ...], holds: Callable[[Any], bool], rule: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not holds(value):  # no comparison with nan holds
                raise ValueError(f"{name} must {rule}, not {list(value) if isinstance(value, tuple) else value}")
