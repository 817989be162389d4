"""Search texts by a model or a trained head: read them, write their vectors, keep them as an index."""
