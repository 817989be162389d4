"""Heads of every kind with random weights on a tiny encoder, as files that `open_head` opens."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from tiny_encoder import tiny_encoder

from disent_core import methods
from disent_core.encoders.checkpoint import DensePooler, save_dense
from disent_core.encoders.config import HuggingFaceConfig
from disent_core.encoders.configured import LazyEncoder, describe_config
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import VectorMap
from disent_core.heads.contract import trainer
from disent_core.heads.facet import FacetHead
from disent_core.heads.modules.hashed_words import HashedWords
from disent_core.heads.modules.word_rows import TABLE_ROWS
from disent_core.heads.token_classification import TokenTagger
from disent_core.heads.twosl.labeller import SpanTagger
from disent_core.storage.weights import save_weights

TEXTS = ["toy 1 2 3", "de 4", "", "en 5 6 7 8 9 10 11 12", "toy " * 60, "unknown words"]
LANGUAGES, DIM = ("en", "de"), 16


def stored(folder: Path, method_name: str, settings=None, tensors=None, of_seed=None, **encoder) -> Path:
    """A head with random weights on a tiny encoder."""
    model = folder / "model"
    if not model.exists():
        tiny_encoder(model)
    config = HuggingFaceConfig(name="tiny", path=str(model), max_length=32, states_dtype="float32", **encoder)
    method = methods.method(method_name)
    settings = settings or method.presets["paper"]
    path = folder / "heads" / "tiny" / method_name / "en-de.safetensors"
    description = {
        "name": method_name, "encoder": "tiny", "encoder_fingerprint": LazyEncoder(config, path).fingerprint,
        "encoder_config": describe_config(config, path.parent), "reference": method_name, "trained_on": "en-de",
        "languages": LANGUAGES, "dim": DIM * len(np.atleast_1d(config.layer)), "seeds": [3, 4],
        "settings": asdict(settings), **({"of_seed": of_seed} if of_seed else {}),
    }  # fmt: skip
    torch.manual_seed(1)
    if tensors is None:
        head = trainer(method).head(description["dim"], len(LANGUAGES), settings)
        tensors = {
            f"{seed}.{name}": torch.randn_like(value) / 4
            for seed in (3, 4)
            for name, value in head.state_dict().items()
        }
    path.parent.mkdir(parents=True)
    save_weights(path, tensors, description)
    return path


def facet_settings():
    return replace(methods.method("facet_first").presets["paper"], template_units=6, residual_units=5)


def vector_map(kind="linear"):
    source = VectorMap(DIM, kind)
    return {f"{seed}.{name}": torch.randn_like(value) for seed in (3, 4) for name, value in source.named_parameters()}


def projection():
    return {f"{what}.{of}": torch.randn(*shape, dtype=torch.float64)
            for what, shape in (("weight", (DIM, DIM)), ("bias", (DIM,))) for of in LANGUAGES}  # fmt: skip


def centered():
    return {f"mean.{of}": torch.randn(DIM, dtype=torch.float64) for of in LANGUAGES}


def emu_head():
    return methods.method("emu").presets["head"]


def tuned_encoder(folder: Path):
    from transformers import AutoModel

    tiny_encoder(folder / "model")
    names = dict(AutoModel.from_pretrained(folder / "model").named_parameters())
    return {f"{seed}.model.{name}": torch.randn_like(value) / 5 for seed in (3, 4) for name, value in names.items()
            if not name.startswith("pooler")}  # fmt: skip


def facet_tensors(config, layers=2):
    """Two seeds of Facet with fitted erasers, and a table that knows every third row."""
    tensors = {}
    for seed in (3, 4):
        words = None
        if config.reads_words:
            words = HashedWords(torch.arange(0, TABLE_ROWS, 3), config.template_words + config.residual_words, seed)
            words.table.data = torch.randn_like(words.table).half().float()
        head = FacetHead(DIM * layers, len(LANGUAGES), config, words)
        for eraser in head.erasers:
            eraser.fit(torch.randn(20, len(eraser.centre)), torch.arange(20) % 2)
        tensors |= {f"{seed}.{name}": value for name, value in head.state_dict().items()}
    return tensors


def facet_config(**changes):
    widths = {"template_units": 6, "residual_units": 5, "template_words": 7, "residual_words": 4}
    return replace(methods.method("facet").presets["paper"], **widths, **changes)


def second_facet(folder, layer, **changes):
    config = facet_config(**changes)
    tensors = facet_tensors(config, len(np.atleast_1d(layer)))
    return stored(folder, "facet", config, tensors, layer=layer, pooling="mean")


def lexicon(folder):
    config = replace(methods.method("lexicon").presets["paper"], template_units=7, residual_units=4)
    known = torch.arange(0, TABLE_ROWS, 3, dtype=torch.int32)
    tensors = {f"{seed}.{name}": value for seed in (3, 4)
               for name, value in (("known", known + 0), ("table", torch.randn(len(known), 11).half()))}  # fmt: skip
    return stored(folder, "lexicon", config, tensors)


def fmda(folder, name="fmda", **changes):
    return stored(folder, name, replace(methods.method(name).presets["softmax"], **changes))


def dense(folder):
    tiny_encoder(folder / "model")
    torch.manual_seed(2)
    save_dense(DensePooler(DIM, bias=True), folder / "model")
    return stored(folder, "dream", pooling="cls_dense_norm")


TAGS = ("B-place", "I-place", "O")


def tagger(folder, **encoder):
    """A head of `token_classification`."""
    return _tagger(folder, "token_classification", TAGS, TokenTagger, **encoder)


def span_tagger(folder):
    """A head of `twosl`."""
    return _tagger(folder, "twosl", ("place", "time"), SpanTagger)


def _tagger(folder, name, classes, kind, layer=-1, **encoder):
    tiny_encoder(folder / "model")
    settings = methods.method(name).presets["paper"]
    files = EncoderFiles(folder / "model", "cls", layer, 32, "")
    tensors = {}
    for seed in (3, 4):
        state = kind(classes, settings, files, seed=seed, device="cpu").state_dict()
        tensors |= {f"{seed}.{name}": torch.randn_like(value) / 4 for name, value in state.items()}
    of_seed = {seed: {"classes": classes, "languages": ["de"]} for seed in (3, 4)}
    return stored(folder, name, settings, tensors, of_seed=of_seed, layer=layer, **encoder)


CASES: Mapping[str, Callable[[Path], Path]] = {
    "dream": lambda folder: stored(folder, "dream"),
    "mean pooling": lambda folder: stored(folder, "dream", pooling="mean"),
    "the model's own pooler": lambda folder: stored(folder, "dream", pooling="pooler"),
    "the dense layer of sentence-transformers": dense,
    "a layer below the last": lambda folder: stored(folder, "dream", layer=1),
    "the embedding layer": lambda folder: stored(folder, "dream", layer=0, pooling="mean"),
    "meat_oracle": lambda folder: stored(folder, "meat_oracle"),
    "facet_first": lambda folder: stored(folder, "facet_first", facet_settings(), layer=1),
    "emu over frozen vectors": lambda folder: stored(folder, "emu", emu_head(), vector_map()),
    "fine_tuned": lambda folder: stored(folder, "fine_tuned", tensors=tuned_encoder(folder), pooling="mean"),
    "several layers": lambda folder: stored(folder, "dream", layer=(1, -1), pooling="mean"),
    "a map of two layers": lambda folder: stored(folder, "emu", replace(emu_head(), map="mlp"), vector_map("mlp")),
    "facet": lambda folder: second_facet(folder, (1, 2)),
    "facet without words": lambda folder: second_facet(folder, 1, without=("words",)),
    "facet without states": lambda folder: second_facet(folder, 1, without=("states",)),
    "lexicon": lexicon,
    "fmda": fmda,
    "fmda with every switch": lambda folder: fmda(
        folder, ffn="mlp2", attention_scale="sqrt_d", attention_special="drop", residual_attention="renorm"
    ),
    "fmda_two_stage": lambda folder: fmda(folder, "fmda_two_stage"),
    "projection": lambda folder: stored(folder, "projection", tensors=projection()),
    "centered": lambda folder: stored(folder, "centered", tensors=centered()),
}
"""Heads that are exported, by the name of the case."""
