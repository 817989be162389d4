"""Vectors on disk: each text is encoded once and found again by the hash of its content."""
