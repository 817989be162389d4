"""Fuzz every reader with mutated files: `python -m harness.fuzz`; the tests run a short version."""
