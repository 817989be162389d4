"""Draw pictures of a run and write its report: rows in, PNG, SVG or HTML out. Nothing is measured or read here."""

PICTURES_VERSION = "3"  # raise it whenever the style of pictures changes, so that stored ones are drawn again
TITLE = "disent: report of a run"
