"""A configuration and its folder of results: what each stage reads, does and writes, without Dagster."""
