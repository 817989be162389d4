"""Make Dagster assets of the steps that `disent_core.lineage.steps` lists, and refresh them; nothing here computes."""
