"""Present heads and tasks as models and tasks of mteb, and run its official tasks on local files.

This package has all code that needs mteb, which is imported where it is used. Reading its result files does not, see
`evaluation.mteb_results`.
"""
