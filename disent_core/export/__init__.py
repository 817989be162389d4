"""Write a trained head and its encoder as a folder that sentence-transformers loads without disent.

`routes` defines what each embedding computes, `encoder` prepares the model, `folder` writes and checks, `card`
describes. Needs the extra `export`. Training and evaluation import nothing from here.
"""
