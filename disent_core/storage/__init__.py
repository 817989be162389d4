"""Bytes on disk: files that are whole or absent, Parquet tables, checkpoints and weights."""
