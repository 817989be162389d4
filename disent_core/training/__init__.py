"""Training data and batches, the training of heads on frozen embeddings with all seeds at once, and its curve."""
