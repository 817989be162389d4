"""Format what commands print."""
