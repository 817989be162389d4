"""List the steps of an experiment, and run them: open the inputs of a stage, do its work, report what was made.

`steps` lists them, upstream first. A stage has a module of its name, some with a second one beside it for what needs
no torch (`head_spec` beside `heads`, `evaluation_inputs` beside `evaluation`); the warehouse is in `disent_assets`,
because it needs DuckDB. `state` says what is fresh, `workspace` where everything lies. Nothing here depends on an
orchestrator: `disent_assets` makes Dagster assets of the steps, and `disent` reads their results from Python.
"""
