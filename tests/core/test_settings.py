"""Settings check the bounds in their annotations."""

import re
from dataclasses import dataclass, field
from math import nan
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from disent_core.settings import DISTINCT, NOT_EMPTY, Settings


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    rate: Annotated[float, Gt(0), Le(100)] | None = 1.0
    share: Annotated[float, Ge(0), Lt(1)] = 0.5
    names: Annotated[tuple[str, ...], DISTINCT, NOT_EMPTY] = ("a",)
    widths: int | tuple[Annotated[int, Ge(1)], ...] = 1
    form: Literal["long", "short"] | None = None
    kind: Literal["a", "b"] = "a"
    weights: dict[str, Annotated[float, Le(2)]] = field(default_factory=dict)


WRONG: dict[str, dict[str, Any]] = {
    "rate must be above 0 and at most 100, not 0.0": {"rate": 0.0},
    "rate must be above 0 and at most 100, not nan": {"rate": nan},
    "share must be at least 0 and below 1, not 1.0": {"share": 1.0},
    "share must be at least 0 and below 1, not -0.5": {"share": -0.5},
    "names must be distinct, not a, b, a": {"names": ("a", "b", "a")},
    "names must name at least one, not none": {"names": ()},
    "kind must be one of a, b, not c": {"kind": "c"},
    "widths must be at least 1, not 3, 0": {"widths": (3, 0)},
    "weights must be at most 2, not {'x': 3}": {"weights": {"x": 3}},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_value_beyond_a_bound_is_refused_by_field_bound_and_value(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Toy(**WRONG[message])


def test_boundary_and_unset_values_are_accepted():
    Toy(rate=None, form="long", share=0.0, names=("a", "b"), widths=(1, 2), weights={"x": 2.0})
