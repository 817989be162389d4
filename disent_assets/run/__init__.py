"""Run steps, and know which are stale."""
