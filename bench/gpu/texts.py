"""Invented texts, and encoders with random weights to read them, or an encoder from a folder."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from disent_core.encoders.kinds.scratch.pretraining import SPECIAL_TOKENS, train_tokeniser

SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "ei", "au")]


@dataclass(frozen=True)
class Shape:
    """Sizes of a transformer."""

    name: str
    layers: int
    width: int
    heads: int
    inner: int


MINILM = Shape("MiniLM-L6", 6, 384, 12, 1_536)
BASE = Shape("XLM-R base", 12, 768, 12, 3_072)
TINY = Shape("tiny", 1, 32, 2, 64)


def texts(count: int, words: int = 20_000) -> list[str]:
    """Return distinct texts as long as MASSIVE's utterances, 7 words on average; some words are frequent."""
    chance = random.Random(0)
    vocabulary = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(words)]

    def line(number: int) -> str:
        length = min(1 + int(chance.gammavariate(2.5, 2.4)), 40)
        return " ".join([*(vocabulary[int(words ** chance.random()) - 1] for _ in range(length)), f"{number:x}"])

    return [line(number) for number in range(count)]


def random_encoder(folder: Path, shape: Shape, known: Sequence[str]) -> Path:
    """Write a BERT of this shape with random weights, no dropout and the vocabulary of the known texts."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    train_tokeniser(known[:20_000], "bpe", 8_000, folder / "tokenizer.json")
    bos, pad, eos, unk, mask = SPECIAL_TOKENS
    tokeniser = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=128, unk_token=unk, mask_token=mask,
        bos_token=bos, cls_token=bos, pad_token=pad, eos_token=eos, sep_token=eos,
    )  # fmt: skip
    tokeniser.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokeniser), hidden_size=shape.width, num_hidden_layers=shape.layers, pad_token_id=1,
        num_attention_heads=shape.heads, intermediate_size=shape.inner, max_position_embeddings=130,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
