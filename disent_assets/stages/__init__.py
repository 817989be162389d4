"""One module for each stage of the lineage: its assets, and nothing that computes."""
