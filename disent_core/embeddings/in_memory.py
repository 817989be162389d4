"""Encode a few texts in memory; the result equals the stored one to the bit."""

from collections.abc import Mapping

import numpy as np

from disent_core.embeddings.arrays import KEY, StateTable, VectorTable
from disent_core.encoders.contract import Encoder


def encoded_tables(
    encoder: Encoder, texts: Mapping[str, str], *, states: bool
) -> tuple[VectorTable, StateTable | None]:
    """Return vectors of some texts and, if `states`, their token states.

    Args:
        encoder: a loaded encoder; values have its storage types.
        texts: at least one text, by key.
        states: whether to return token states.

    Raises:
        EncoderError: if a text can't be encoded.
    """
    batches = list(encoder.encode(list(texts.values()), states=states))
    keys = np.asarray(list(texts), dtype=KEY)[np.concatenate([batch.indices for batch in batches])]
    order = keys.argsort()
    vectors = np.concatenate([batch.vectors for batch in batches]).astype(encoder.vector_dtype, copy=False)
    table = VectorTable(encoder.name, keys[order], vectors[order])
    if not states:
        return table, None
    lengths = np.concatenate([batch.lengths for batch in batches])
    values = np.concatenate([batch.states for batch in batches if batch.states is not None])
    states_by_text = np.split(values.astype(encoder.states_dtype, copy=False), np.cumsum(lengths)[:-1])
    offsets = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    return table, StateTable(
        encoder.name, keys[order], np.concatenate([states_by_text[text] for text in order]), offsets
    )
