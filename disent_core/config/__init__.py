"""What the TOML file may say: sections, checks across sections, and errors that name file, line and key."""
