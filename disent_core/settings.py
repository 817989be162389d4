"""Define the base class of settings and the types of their keys, whose annotations hold the bounds.

A value that would take years or all memory is refused before anything runs. Pydantic reads the annotations when a
configuration file is loaded, `Settings` when a class is instantiated; they import neither pydantic nor torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from functools import cache
from operator import ge, gt, le, lt
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen

from disent_core.errors import commas

Precision = Literal["float32", "bfloat16"]
"""Number format of matrix products."""

OF_PUBLISHED_CODE: Mapping[str, bool] = {"of_published_code": True}
"""Metadata of a field whose other values only reproduce the published code of a paper where it differs from the paper.

The page of all settings only names such a key; the page of its method describes it.
"""

LARGEST = 1_000_000_000
"""Upper bound of numbers for which no smaller value is known to be absurd."""


@dataclass(frozen=True)
class OfList:
    """Annotation of a list: a rule that only `Settings` checks, and its key and value in the JSON Schema."""

    rule: str
    holds: Callable[[tuple[Any, ...]], bool]
    in_schema: tuple[str, Any]

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return handler(schema) | dict([self.in_schema])


DISTINCT = OfList("be distinct", lambda values: len(set(values)) == len(values), ("uniqueItems", True))
NOT_EMPTY = OfList("name at least one", bool, ("minItems", 1))

Positive = Annotated[int, Ge(1), Le(LARGEST)]
NotNegative = Annotated[int, Ge(0), Le(LARGEST)]
Count = Annotated[int, Ge(1), Le(10_000)]
Width = Annotated[int, Ge(1), Le(1 << 16)]
TableRows = Annotated[int, Ge(1 << 10), Le(1 << 24)]
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]
Rate = Annotated[float, Gt(0), Le(100)]
Decay = Annotated[float, Ge(0), Le(1_000_000)]
Seconds = Annotated[float, Ge(0), Le(1_000_000)]
PositiveFloat = Annotated[float, Gt(0), Le(LARGEST)]
NotNegativeFloat = Annotated[float, Ge(0), Le(LARGEST)]
Factor = Annotated[float, Ge(-LARGEST), Le(LARGEST)]
Share = Annotated[float, Ge(0), Le(1)]
PositiveShare = Annotated[float, Gt(0), Le(1)]
Probability = Annotated[float, Ge(0), Lt(1)]
Names = Annotated[tuple[str, ...], DISTINCT]
NotEmpty = Annotated[tuple[str, ...], NOT_EMPTY]
SomeNames = Annotated[tuple[str, ...], DISTINCT, NOT_EMPTY]

STRICT: Any = {"strict": True, "extra": "ignore", "allow_inf_nan": False}
"""Configuration with which pydantic reads untrusted records."""
LARGEST_RECORD = 1 << 26
"""Most bytes of an untrusted record."""
Text = Annotated[str, MaxLen(1_000)]

_RULES: Mapping[type, tuple[str, Callable[[Any, Any], bool]]] = {
    Gt: ("above", gt),
    Ge: ("at least", ge),
    Lt: ("below", lt),
    Le: ("at most", le),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of every settings class: a frozen dataclass whose fields are the keys, with their defaults and bounds.

    A key that is not a field is refused. What a class checks beyond the bounds of single keys it checks in a
    `__post_init__` of its own, after that of this class. A message begins with the name of the field, by which the
    configuration finds its line.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    def __post_init__(self) -> None:
        """Reject values beyond the bounds in the annotations of their fields; None, a value not set, has no bounds."""
        hints = hints_of(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            for rule in _broken_rules(hints[field.name], value):
                shown = (commas(value) or "none") if isinstance(value, tuple) else value
                raise ValueError(f"{field.name} must {rule}, not {shown}")


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of a class, with their bounds."""
    return get_type_hints(kind, include_extras=True)


def bounds_of(hint: Any) -> dict[str, int | float]:
    """Return the bounds of an annotated number, by word: `{"at least": 1, "at most": 10_000}`."""
    rules = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return {_RULES[type(rule)][0]: astuple(rule)[0] for rule in rules if type(rule) in _RULES}


def _broken_rules(hint: Any, value: Any) -> Iterator[str]:
    """Yield the rules of its type that a value, or a value inside it, breaks."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(value, tuple):
        yield from (rule for item in value for rule in _broken_rules(inner[0], item))
    elif origin is dict and isinstance(value, Mapping):
        yield from (rule for item in value.values() for rule in _broken_rules(inner[1], item))
    elif origin is Annotated:
        yield from _broken_rules(inner[0], value)
        yield from _broken_here(hint, value)
    elif origin in (Union, UnionType):
        options = (option for option in inner if get_origin(option) is not Literal)
        yield from (rule for option in options for rule in _broken_rules(option, value))
    elif origin is Literal and value not in inner:
        yield f"be one of {', '.join(map(str, inner))}"


def _broken_here(hint: Any, value: Any) -> Iterator[str]:
    """Yield the rules of an annotated type that a value of that type breaks."""
    kind, *rules = get_args(hint)
    if isinstance(value, tuple) and get_origin(kind) is tuple:
        yield from (rule.rule for rule in rules if not rule.holds(value))
    elif isinstance(value, int | float) and kind in (int, float):  # no comparison with nan holds
        bounds = bounds_of(hint)
        if not all(holds(value, bounds[word]) for word, holds in _RULES.values() if word in bounds):
            yield "be " + " and ".join(f"{word} {bound:,}" for word, bound in bounds.items())
