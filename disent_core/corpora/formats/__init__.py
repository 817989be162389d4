"""One module for each published corpus format."""
