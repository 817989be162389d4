"""A configuration and its folder of results: one module a stage opens the inputs, does the work and says what it made.

Nothing here knows what runs the stages. `disent_assets` makes Dagster's assets of these functions, and `disent` asks
their results from Python.
"""
