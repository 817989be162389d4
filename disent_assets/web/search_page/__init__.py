"""The page of `disent serve`: one sentence, and what has its shape, its values or its meaning, side by side."""
