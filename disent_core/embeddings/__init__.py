"""Store vectors on disk: each text is encoded once and looked up by the hash of its content."""
