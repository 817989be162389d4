"""The assets of the lineage, one module a stage; nothing here computes."""
