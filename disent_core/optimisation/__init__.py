"""Step-by-step training of a module: the loop, its optimiser, random seeds and state on disk. What belongs here:
nothing that knows data or methods.
"""
