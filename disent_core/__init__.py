"""Disentangled sentence embeddings: text in, tensors and tables out.

A pure library: it knows no orchestrator, no database, no environment variable and no global state.
"""

STAGES = ("corpora", "negatives", "targets", "embeddings", "heads", "evaluation", "warehouse")
"""The order of the lineage, written once: a stage reads earlier stages only."""
