"""Search one's own texts by a trained head: read them, write their vectors, keep them as an index."""
