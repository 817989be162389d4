"""Read the environment: project, home, profile, Dagster instance."""
