"""Find utterances that are unlike every other one of their language, by exact all-pairs BLEU (stage `negatives`)."""

from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import max_bleu, update_max_bleu
from disent_core.negatives.state import BLEU_STATE_SCHEMA, bleu_state, negative_pool, pool

__all__ = [
    "BLEU_STATE_SCHEMA",
    "BleuConfig",
    "bleu_state",
    "max_bleu",
    "negative_pool",
    "pool",
    "update_max_bleu",
]
