"""Train a module step by step: loop, optimiser, random seeds and checkpoints. Nothing here knows data or methods."""
