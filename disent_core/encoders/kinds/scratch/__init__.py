"""A small model that the lineage pretrains on the training texts of all corpora."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from disent_core.encoders.contract import IN_DOMAIN, EncoderStep, FloatName, Layers, StatesName, missing_layers
from disent_core.encoders.kinds.huggingface import ModelMadeHere, Products, TokensOfBatch, Vocabulary
from disent_core.settings import Decay, Positive, Probability, Rate, Seconds, Seed, Width
from disent_core.storage.tables import fingerprint

Algorithm = Literal["unigram", "bpe"]
CODE_VERSION = "1"
_READ_LATER = {"name", "pooling", "layer", "vector_dtype", "states_dtype", "checkpoint_seconds"}
"""Settings on which the weights do not depend."""


@dataclass(frozen=True, kw_only=True)
class ScratchConfig(ModelMadeHere):
    """A small encoder and how it is pretrained. The defaults take about a minute on two cores for 6,000 texts.

    Attributes:
        pooling: as in `HuggingFaceConfig`.
        layer: as in `HuggingFaceConfig`. After so little training, a head on token states does best with layer 0, where
            pooling `cls` carries no information.
        vector_dtype: number format of stored sentence vectors.
        states_dtype: number format of stored token states. `int8` takes half the memory of `float16`; the values of a
            token share a scale.
        vocab_size: entries of the tokeniser's vocabulary, special tokens included; at least 100.
        hidden_size: width of a state, a multiple of `heads`.
        layers: layers of the transformer.
        heads: attention heads of each layer.
        intermediate_size: width between the two maps of a layer's feed-forward block.
        tokeniser: algorithm that learns the vocabulary; a Unigram vocabulary may differ in a few entries from
            run to run.
        max_length: tokens read from a text (or a translation pair), including special tokens.
        dropout: dropout probability of states and attention while pretraining.
        epochs: passes over the texts.
        max_steps: training steps, instead of `epochs`.
        batch_tokens: tokens per batch, including padding.
        learning_rate: peak learning rate of AdamW.
        warmup: fraction of the steps over which the learning rate rises; then it falls linearly to 0.
        mask_probability: probability that a token is predicted: 80 % of these are masked, 10 % replaced, 10 % kept.
            Twice the usual 0.15 suits few texts: each text trains more tokens (https://arxiv.org/abs/2202.08005).
        weight_decay: strength of the decoupled weight decay.
        translation: also train on translation pairs, both sides in one sequence (TLM).
        seed: random seed of weights, batches and masks.
        checkpoint_seconds: seconds between two checkpoints.
    """

    products: ClassVar[Products] = "torch"

    pooling: Literal["cls", "mean"] = "mean"
    layer: Layers = -1
    vector_dtype: FloatName = "float32"
    states_dtype: StatesName = "float16"
    tokeniser: Algorithm = "bpe"
    vocab_size: Vocabulary = 1_500
    hidden_size: Width = 128
    layers: Annotated[int, Ge(1), Le(1_000)] = 2
    heads: Annotated[int, Ge(1), Le(1_000)] = 4
    intermediate_size: Width = 512
    max_length: Annotated[int, Ge(8), Le(1_000_000)] = 64
    dropout: Probability = 0.0
    epochs: Positive = 12
    max_steps: Positive | None = None
    batch_tokens: TokensOfBatch = 1_024
    learning_rate: Rate = 3e-3
    warmup: Probability = 0.1
    mask_probability: Probability = 0.3
    weight_decay: Decay = 0.01
    translation: bool = False
    seed: Seed = 0
    checkpoint_seconds: Seconds = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}")
        if missing := missing_layers(self.layer, self.layers):
            remedy = f"choose 0 (embeddings) to {self.layers}, or -1 for the last"
            raise ValueError(f"layer: there is no layer {missing[0]}; {remedy}")

    def identity(self) -> dict[str, Any]:
        settings = {name: value for name, value in asdict(self).items() if name not in _READ_LATER}
        # Without dropout nothing draws from these seeds, so encoders older than them keep their identity.
        return settings | ({"dropout_seeds": "derived"} if self.dropout else {})

    def has_seen(self, config: Any) -> str | None:
        return IN_DOMAIN

    def is_base_of_heads(self, config: Any) -> bool:
        """Return True: it saw training texts, and translations only if `translation` is set."""
        return True

    def steps(self, config: Any) -> Sequence[EncoderStep]:
        is_read = {"utterances": config.utterance_languages, "sentence_pairs": config.trains_on_sentence_pairs}
        step = EncoderStep(
            encoder=self.name,
            description="A transformer with its own tokenizer, pretrained on the corpora's training texts by "
            "masked-language modelling. It is pretrained once and then frozen: texts that change later do not "
            "change it. Delete its folder to pretrain anew.",
            version=fingerprint(CODE_VERSION, self),
            tables=tuple(table for table, is_table_read in is_read.items() if is_table_read),
            make="disent_core.encoders.kinds.scratch.steps:pretrain_once",
        )
        return [step]
