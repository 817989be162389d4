"""Build and query the DuckDB file."""
