"""Fuzz every reader with mutated files: `python -m tests.fuzz`; the tests run a short version."""
