"""Run the stages of an experiment: each module opens the inputs of a stage, does the work and reports what it made.

The modules do not depend on an orchestrator. `disent_assets` makes Dagster assets of these functions, and `disent`
reads their results from Python.
"""
