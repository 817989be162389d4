"""Plan the texts to encode for the methods and tasks that share an encoder."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.embeddings.arrays import keys_array
from disent_core.embeddings.texts import Texts, distinct_texts, keys_of_texts
from disent_core.training.needs import Need, in_training_splits


def texts_to_encode(
    utterances: Sequence[pa.Table],
    masked: Sequence[pa.Table],
    template_pairs: Sequence[pa.Table],
    training_template_pairs: Sequence[pa.Table],
    needs: frozenset[Need],
    sentence_pairs: Iterable[tuple[np.ndarray, pa.ChunkedArray]] = (),
) -> Texts:
    """Return distinct texts of one language that methods with these needs read, in training and in every task.

    Tables are those of all corpora, of `masked` utterances those that heads train on: only training reads these.
    `sentence_pairs` are keys and texts.
    """
    plain = [*sentence_pairs, *((keys_array(table["text_key"]), table["text"]) for table in utterances)]
    trained_templates = training_template_pairs if Need.TEMPLATE_PAIRS in needs else ()
    for table in (*template_pairs, *trained_templates):
        for column in ("source_text", "target_text"):
            texts = table[column].unique()
            plain.append((keys_of_texts(texts), texts))
    of_masked = []
    for table in masked if Need.MASKED_TARGETS in needs else ():
        trained = _of_training(table, utterances)
        for name in ("template", "residual"):
            present = trained.filter(trained[f"{name}_key"].is_valid())
            of_masked.append((keys_array(present[f"{name}_key"]), present[f"{name}_text"]))
    with_states = Need.TOKEN_STATES in needs
    return distinct_texts([*((*column, with_states) for column in plain), *((*column, False) for column in of_masked)])


def _of_training(masked: pa.Table, utterances: Sequence[pa.Table]) -> pa.Table:
    """Return rows of one corpus's `masked_utterances` whose utterance is in a training split."""
    tables_of_corpus = (
        table for table in utterances if len(masked) and len(table) and table["corpus"][0] == masked["corpus"][0]
    )
    ids = [in_training_splits(table)["utterance_id"].combine_chunks() for table in tables_of_corpus]
    return masked.filter(pc.is_in(masked["utterance_id"], value_set=ids[0])) if ids else masked
