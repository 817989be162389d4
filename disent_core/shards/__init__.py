"""Cut the work of one step into shards, and compute these here, in processes, or on a Ray cluster."""
