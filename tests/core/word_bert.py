"""A saved BERT of random weights whose every word is one token, its configuration, and what it makes of texts."""

from pathlib import Path

import numpy as np
import torch

from disent_core.encoders.kinds.huggingface import HuggingFaceConfig

WORDS = ["wake", "me", "up", "at", "nine", "play", "some", "jazz", "on", "friday"]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
TEXTS = ["wake me up at nine", "play jazz", "up", "play some jazz on friday at nine", "wake me", "unheard words"]


def save_model(folder: Path, *, pooler: bool = True, mask: bool = True) -> Path:
    """A BERT of random weights whose every word is one token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
    tokeniser = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
    tokeniser.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    token_roles = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    token_roles |= {"mask_token": "[MASK]"} if mask else {}
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=64, **token_roles).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config, add_pooling_layer=pooler).save_pretrained(folder)
    return folder


def config(folder, **changed):
    settings = {"name": "tiny", "path": str(folder), "max_length": 64, "states_dtype": "float32"}
    return HuggingFaceConfig(**(settings | changed))


def encode(encoder, texts):
    """Vectors in the order of the texts, and the states of each."""
    vectors, states = np.zeros((len(texts), encoder.dim), np.float32), [None] * len(texts)
    for batch in encoder.encode(texts, states=True):
        vectors[batch.indices] = batch.vectors
        for index, text_states in zip(
            batch.indices, np.split(batch.states, np.cumsum(batch.lengths)[:-1]), strict=True
        ):
            states[index] = text_states
    return vectors, states
