"""Run steps, and determine which are stale."""
