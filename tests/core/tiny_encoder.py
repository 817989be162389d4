"""A BERT of random weights that reads the invented utterances of `synthetic`, word by word."""

from collections.abc import Iterable
from pathlib import Path

import torch

from disent_core.encoders.contract import EncoderFiles

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WORDS = ["toy", "en", "de", "es", *map(str, range(40))]


def save_bert(
    folder: Path,
    words: Iterable[str],
    *,
    dim: int,
    heads: int,
    longest: int,
    mask: bool = True,
    pooler: bool = True,
    subwords: bool = False,
    lowercase: bool = False,
    **architecture: float,
) -> None:
    """A BERT of random weights and two layers, with dropout, whose every word is one token unless it has subwords."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *words])}
    tokeniser = Tokenizer((models.WordPiece if subwords else models.WordLevel)(vocabulary, unk_token="[UNK]"))
    tokeniser.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if lowercase else pre_tokenizers.Whitespace()
    if lowercase:
        tokeniser.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokeniser.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    roles = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    roles |= {"mask_token": "[MASK]"} if mask else {}
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=longest, **roles).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": dim, "intermediate_size": 2 * dim, "num_attention_heads": heads, "num_hidden_layers": 2}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=longest, **sizes, **architecture)
    BertModel(config, add_pooling_layer=pooler).save_pretrained(folder)


def tiny_encoder(folder: Path) -> EncoderFiles:
    """Save one of 16 dimensions."""
    save_bert(folder, WORDS, dim=16, heads=2, longest=32)
    return EncoderFiles(folder, "mean", -1, 32, "tiny")
