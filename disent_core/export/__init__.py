"""Write a trained head and its encoder as a folder that sentence-transformers loads without disent.

`routes` says what each embedding computes, `encoder` prepares the model, `folder` writes and checks, `card` describes.
Needs the extra `export`. Nothing here is imported by training or evaluation.
"""
