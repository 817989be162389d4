"""How a module is trained step by step: the loop, its optimiser, seeds and state on disk; no data and no method."""
