"""How anything is trained, whatever its method: data, batches, and loops that can be resumed."""
