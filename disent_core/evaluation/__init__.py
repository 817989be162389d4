"""Evaluate heads on tasks: metric rows, rankings for case studies, and the items that paired tests compare.

A task is a `Task` plus a line in `contract.TASKS`; a task outside the library is named in the configuration instead. It
turns tables into problems: the texts that each role needs, and a pure function from the roles' matrices to
measurements.
"""

from disent_core.evaluation.contract import TASKS, EvaluationConfig, Task, task

__all__ = ["TASKS", "EvaluationConfig", "Task", "task"]
