"""The evaluation tasks by subject; each is a `Task` and a line of `contract.TASKS`."""
