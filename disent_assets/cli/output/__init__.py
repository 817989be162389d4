"""Format the output of commands."""
