"""Build and query the DuckDB file, and measure what steps cost."""
