"""One module for each evaluation task, which exports `TASK`."""
