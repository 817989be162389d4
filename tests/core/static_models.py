"""A static model of random rows, for tests of what is done with models."""

import numpy as np

from disent_core.methods.modules.word_rows import random_rows
from disent_core.static_model import StaticModel


def static_model(
    name: str = "toy", *, seed: int = 1, unseen: float = 1.0, table: int = 3, slots: bool = True
) -> StaticModel:
    known = np.arange(0, 1_000, 3)
    facts = {"languages": ["de", "en"], "description": {"name": name, "licence": "CC-BY-4.0"}}
    parts = {"template": 8, "residual": 8} if slots else {"_1": 8, "_2": 8}
    rows = random_rows(known, 16, table)
    return StaticModel.of_table(known, rows, parts=parts, seed=seed, unseen=unseen, table_rows=1_000, **facts)
