"""Base classes of methods of one kind: how they are fitted, saved and loaded."""
