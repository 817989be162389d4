"""Pictures of a run and its report: rows in, PNG, SVG or HTML out. Nothing is measured or read here."""

PICTURES_VERSION = "2"
"""Changes with every change of how pictures look, so that stored ones are drawn anew."""
