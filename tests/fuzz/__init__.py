"""Mutated files against every reader: `python -m tests.fuzz`, and a short version among the tests."""
