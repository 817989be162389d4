"""What is public changes only with the file that lists it."""

from tools import public_surface


def test_the_public_surface_equals_the_listed_one():
    listed = public_surface.PAGE.read_text(encoding="utf-8")
    assert public_surface.surface() == listed, "if this may change, run: python -m tools.public_surface"
