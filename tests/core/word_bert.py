"""A saved BERT of random weights whose every word is one token, its configuration, and what it makes of texts."""

from pathlib import Path

import numpy as np
from tiny_encoder import save_bert

from disent_core.encoders.kinds.huggingface import HuggingFaceConfig

WORDS = ["wake", "me", "up", "at", "nine", "play", "some", "jazz", "on", "friday"]
TEXTS = ["wake me up at nine", "play jazz", "up", "play some jazz on friday at nine", "wake me", "unheard words"]


def save_model(folder: Path, *, pooler: bool = True, mask: bool = True) -> Path:
    save_bert(folder, WORDS, dim=32, heads=4, longest=64, pooler=pooler, mask=mask)
    return folder


def config(folder, **changed):
    settings = {"name": "tiny", "path": str(folder), "max_length": 64, "states_dtype": "float32"}
    return HuggingFaceConfig(**(settings | changed))


def encode(encoder, texts):
    vectors, states = np.zeros((len(texts), encoder.dim), np.float32), [None] * len(texts)
    for batch in encoder.encode(texts, states=True):
        vectors[batch.indices] = batch.vectors
        for index, text_states in zip(
            batch.indices, np.split(batch.states, np.cumsum(batch.lengths)[:-1]), strict=True
        ):
            states[index] = text_states
    return vectors, states
