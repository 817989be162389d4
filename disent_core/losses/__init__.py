"""Loss functions: tensors in, one value a pair or a batch out; no weights and no state."""
