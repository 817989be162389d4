"""An encoder that needs no model, for the processes of tests: values are sines of the bytes of a text."""

import os
import signal
from pathlib import Path

import numpy as np

from disent_core.encoders.contract import EncodedBatch


class SinusEncoder:
    name, dim, fingerprint, vector_dtype, states_dtype = "sinus", 3, "f" * 32, "float32", "float16"

    def __init__(self, killed_at: str = "", mark: Path | None = None, loaded: Path | None = None) -> None:
        self.killed_at, self.mark = killed_at, mark
        if loaded is not None:
            with loaded.open("a") as file:
                file.write("loaded\n")

    def encode(self, texts, *, states):
        for row, text in enumerate(texts):
            if self.mark is not None and text == self.killed_at and not self.mark.exists():
                self.mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            values = np.sin(np.frombuffer(text.encode(), np.uint8)[:, None] * np.arange(1, 4)).astype(np.float32)
            kept = values.astype(np.float16) if states else None
            yield EncodedBatch(np.array([row]), values.mean(0)[None], kept, np.array([len(values)]), len(text) > 6)
