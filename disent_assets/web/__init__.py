"""Serve web pages on this machine: the Dagster UI and the search page."""
