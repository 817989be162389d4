"""Models of random weights with the files and architectures of models of the hub."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from disent_core.encoders.kinds.huggingface import DENSE

DIM = 32
ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنه"
"""Stand for the 26 letters where a reader looks at the script."""
WORDS = ["▁wake", "▁me", "▁up", "▁at", "▁play", "▁jazz", "▁query", "▁some"]


def save_tokeniser(folder: Path) -> int:
    """A tokeniser as XLM-R has it: Unigram pieces that begin with the space before them. Return their number."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = ["▁", *"abcdefghijklmnopqrstuvwxyz:", *ARABIC, *WORDS]
    scores = [(piece, 0.0) for piece in special] + [(piece, -3.0 / len(piece)) for piece in pieces]
    tokeniser = Tokenizer(models.Unigram(scores, unk_id=3))
    tokeniser.pre_tokenizer = pre_tokenizers.Metaspace()
    tokeniser.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    roles = dict(zip(names, special, strict=True)) | {"cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=128, **roles).save_pretrained(folder)
    return len(scores)


def save_body(folder: Path, *, is_bert: bool, layers: int = 2, has_lm_head: bool = False) -> Path:
    """Save a BERT or an XLM-R, alone or as the masked language model that Google's and Facebook's folders have."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertModel,
        XLMRobertaConfig,
        XLMRobertaForMaskedLM,
        XLMRobertaModel,
    )

    torch.manual_seed(0)
    size = {"hidden_size": DIM, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 64,
            "vocab_size": save_tokeniser(folder), "initializer_range": 0.3, "pad_token_id": 1}  # fmt: skip
    if is_bert:
        config = BertConfig(**size, max_position_embeddings=128)
        model = BertForMaskedLM(config) if has_lm_head else BertModel(config)
    else:  # positions begin after that of padding; the checkpoint has no pooler
        config = XLMRobertaConfig(**size, max_position_embeddings=130)
        model = XLMRobertaForMaskedLM(config) if has_lm_head else XLMRobertaModel(config, add_pooling_layer=False)
    model.save_pretrained(folder)
    return folder


def save_dense(folder: Path, width: int = DIM, *, activation: str = "torch.nn.modules.activation.Tanh") -> Path:
    """Add the dense layer that sentence-transformers has for LaBSE."""
    (folder / DENSE).mkdir(exist_ok=True)
    torch.manual_seed(1)
    weights = {"linear.weight": torch.randn(width, DIM), "linear.bias": torch.randn(width)}
    save_file(weights, folder / DENSE / "model.safetensors")
    settings = {"in_features": DIM, "out_features": width, "bias": True, "activation_function": activation}
    (folder / DENSE / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def save_in_cache(cache: Path, model: str, revision: str | None) -> None:
    """Save a stand-in of a model where the cache of the hub has the model."""
    folder = cache / f"models--{model.replace('/', '--')}"
    ref = folder / "refs" / (revision or "main")
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text("0" * 40, encoding="utf-8")
    snapshot = folder / "snapshots" / ("0" * 40)
    if not snapshot.is_dir():
        snapshot.mkdir(parents=True)
        layers = {"google-bert/bert-base-multilingual-cased": 8, "FacebookAI/xlm-roberta-large": 17}.get(model, 2)
        is_bert = model.rpartition("/")[2] in ("bert-base-multilingual-cased", "LaBSE")
        save_body(snapshot, is_bert=is_bert, layers=layers, has_lm_head=not model.startswith("sentence-transformers"))
        if model == "sentence-transformers/LaBSE":
            save_dense(snapshot)
