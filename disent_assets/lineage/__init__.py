"""Turn the steps in `disent_core.lineage.steps` into Dagster assets, and refresh them; nothing here computes."""
