"""Turn the steps in `disent_core.lineage.steps` into Dagster assets, refresh them, and write the report.

Nothing here computes.
"""
