"""Name the assets of an encoder.

The last part of a key says what the asset is, because the graph of the UI shows only that part. Tables, their folders
and SQL have names of their own, without the encoder and the kind of asset.
"""

from disent_core.embeddings.store import STATES, VECTORS
from disent_core.lineage.workspace import Key

HEAD, METRICS = "_head", "_metrics"
"""Endings of the keys of methods; the name of the method comes before them."""
EMBEDDINGS = {VECTORS: "vectors", STATES: "states"}
"""Endings of the keys of embeddings, by table; the name of the encoder and `_` come before them."""


def embedding_key(encoder: str, table: str) -> Key:
    """Key of the vectors or token states of an encoder."""
    return ("embeddings", encoder, f"{encoder}_{EMBEDDINGS[table]}")


def training_data_key(encoder: str) -> Key:
    """Key of what the heads of an encoder read; every head depends on it."""
    return ("heads", encoder, f"{encoder}_training_data")


def head_key(encoder: str, method: str) -> Key:
    """Key of a head."""
    return ("heads", encoder, f"{method}{HEAD}")


def evaluation_sets_key(encoder: str) -> Key:
    """Key of what the tasks read; the metrics of every method of the encoder depend on it."""
    return ("evaluation", encoder, f"{encoder}_evaluation_sets")


def metrics_key(encoder: str, method: str) -> Key:
    """Key of a method's metrics."""
    return ("evaluation", encoder, f"{method}{METRICS}")


def comparisons_key(encoder: str) -> Key:
    """Key of the paired tests between the methods of an encoder."""
    return ("evaluation", encoder, f"{encoder}_comparisons")
