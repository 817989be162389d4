"""Split the work of a step into shards, and compute them here, in processes, or on a Ray cluster."""
