"""Heads as models of mteb, tasks as tasks of mteb, and official tasks of mteb on local files.

What belongs here: what needs mteb, which is imported where it is used. What does not: reading its result files, see
`evaluation.mteb_results`.
"""
