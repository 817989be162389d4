"""Encode texts to the features that a head reads, in memory."""

from collections.abc import Sequence

from disent_core.embeddings.in_memory import encoded_tables
from disent_core.encoders.contract import Encoder
from disent_core.text import text_keys
from disent_core.training.data import TextFeatures, text_features


def features_of(encoder: Encoder, texts: Sequence[str], language: str, *, states: bool) -> TextFeatures:
    """Return the features of each text, in order; texts may repeat.

    Args:
        encoder: a loaded encoder.
        texts: at least one.
        language: of all of them; empty if the head does not ask for it.
        states: whether the head reads token states.

    Raises:
        EncoderError: if a text can't be encoded.
    """
    keys = text_keys(texts)
    tables = encoded_tables(encoder, dict(zip(keys, texts, strict=True)), states=states)
    return text_features(keys, tables, language=language, texts=list(texts))
