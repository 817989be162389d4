"""Disentangled sentence embeddings: text in, tensors and tables out.

A pure library: it knows no orchestrator, no database, no environment variable and no global state.
"""
