"""The checks that all settings share."""

from dataclasses import dataclass

import pytest

from disent_core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    rate: float | None = 1.0
    share: float = 0.5
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check_positive("rate")
        self.check_range("share", at_least=0, below=1)
        self.check_distinct("names")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate must be positive, not 0.0"),
        ({"share": 1.0}, "share must be at least 0 and below 1, not 1.0"),
        ({"share": -0.5}, "share must be at least 0 and below 1, not -0.5"),
        ({"names": ("a", "b", "a")}, r"names must be distinct, not \['a', 'b', 'a'\]"),
    ],
)
def test_a_value_that_breaks_a_rule_is_named_with_its_field_and_the_rule(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Toy(**wrong)


@pytest.mark.parametrize("name", ["rate", "share"])
def test_nan_breaks_every_rule(name):
    with pytest.raises(ValueError, match=f"{name} must be .*, not nan"):
        Toy(**{name: float("nan")})


@pytest.mark.parametrize("right", [{"share": 0.0}, {"rate": None}, {"names": ("a", "b")}])
def test_bounds_and_what_is_not_set_are_let_through(right):
    Toy(**right)
