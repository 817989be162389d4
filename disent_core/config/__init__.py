"""What the TOML file may contain: sections, checks across sections, and errors that name file, line and key."""
