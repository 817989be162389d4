"""Draw pictures of a run and write its report: rows in, PNG, SVG or HTML out. Nothing is measured or read here."""

PICTURES_VERSION = "3"  # raise it with every change of the style of pictures, so that stored ones are drawn again
TITLE = "disent: report of a run"
