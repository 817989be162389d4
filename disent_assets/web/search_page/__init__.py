"""The page of `disent serve`: for a sentence, texts with its shape, its values and its meaning, side by side."""
