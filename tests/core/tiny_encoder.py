"""A BERT of random weights that reads the invented utterances of `synthetic`, word by word."""

from pathlib import Path

import torch

from disent_core.encoders.contract import EncoderFiles

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WORDS = ["toy", "en", "de", "es", *map(str, range(40))]


def tiny_encoder(folder: Path, *, pooling: str = "mean", layer: int = -1, fingerprint: str = "tiny") -> EncoderFiles:
    """Two layers of 16 dimensions, with dropout."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
    tokeniser = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
    tokeniser.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    token_roles = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=32, mask_token="[MASK]", **token_roles)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    BertModel(config, add_pooling_layer=True).save_pretrained(folder)
    return EncoderFiles(folder, pooling, layer, 32, fingerprint)
