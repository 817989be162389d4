"""Training data and batches, and the training of heads on frozen embeddings, all seeds at once, with its curve."""
