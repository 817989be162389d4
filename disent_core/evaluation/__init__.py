"""Heads x tasks -> metric rows, rankings for case studies, plots.

A task is one module that exports `TASK`, and one line in `contract.TASKS`; or
it stays outside the library, and the configuration names its module. It turns tables into problems: the
texts that each role needs, and a pure function from the matrices of those roles to measurements.
"""

from disent_core.evaluation.contract import TASKS, EvaluationConfig, Task, task

__all__ = ["TASKS", "EvaluationConfig", "Task", "task"]
