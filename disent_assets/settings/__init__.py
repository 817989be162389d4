"""Settings from the environment: project, home, profile and Dagster instance."""
