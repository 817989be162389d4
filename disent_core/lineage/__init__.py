"""List the steps of an experiment, and run them: open a stage's inputs, do its work, and report the results.

`steps` lists them, upstream first. Each stage has a module of its name, some with a second module for what needs
no torch (`head_spec` beside `heads`, `evaluation_inputs` beside `evaluation`); the warehouse is in `disent_assets`,
because it needs DuckDB. `state` computes what is fresh, `workspace` has the paths. Nothing here depends on an
orchestrator: `disent_assets` makes Dagster assets from the steps, and `disent` reads their results from Python.
"""
