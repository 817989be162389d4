"""Ask a run of disent from Python: its heads, its tables, its metrics.

    import disent

    run = disent.open("disent.toml")
    head = run.head("facet", encoder="scratch", pair="en-de")
    head.embed(["wake me up at nine"], language="en")["meaning"]  # float32 [1, dim]
    run.table("metrics")                                          # a polars frame
    run.sql("from leaderboard")

Results are made by `disent materialize`; nothing here trains or changes them. Heavy libraries are loaded when they
are first needed. Errors about data or configuration are `disent_core.errors.DisentError`; a name that does not exist
is a `ValueError` that lists those that do.
"""

from disent.run import Head, HeadName, Run, open

__all__ = ["Head", "HeadName", "Run", "open"]
