"""Small configurations and rows that tests of several folders share."""

from datetime import UTC, datetime

TOY = """\
[[corpora]]
name = "one"
format = "massive"
path = "one"
languages = ["en-US", "de-DE"]

[[encoders]]
name = "toy"
kind = "scratch"

[experiment]
pairs = ["en-de"]
methods = ["raw"]
"""
"""A configuration with one corpus, one encoder and the method `raw`."""
METRIC = {
    "task": "sts", "dataset": "toy", "method": "gone", "encoder": "toy", "trained_on": "", "evaluated_on": "en-de",
    "embedding": "sentence", "metric": "pearson", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 100, "seed": None,
    "settings": "{}", "fingerprint": "f", "created_at": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip
"""A row of the table `metrics`."""
