"""Heads of every kind with random weights, as files that `open_head` opens.

The encoder is the folder `model` beside them: a tiny one, if there is none.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tiny_encoder import tiny_encoder

from disent_core import methods
from disent_core.encoders import LazyEncoder, describe_config
from disent_core.encoders.checkpoint import DensePooler, save_dense
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import VectorMap
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.methods.facet_head import FacetHead
from disent_core.methods.modules.hashed_words import HashedNgramTable
from disent_core.methods.modules.word_rows import TABLE_ROWS
from disent_core.methods.trainer import trainer
from disent_core.methods.twosl_head import SpanTagger, TokenTagger
from disent_core.storage.weights import save_weights

TEXTS = ["toy 1 2 3", "de 4", "", "en 5 6 7 8 9 10 11 12", "toy " * 60, "unknown words"]
LANGUAGES, TAGS, SEEDS = ("en", "de"), ("B-place", "I-place", "O"), (3, 4)
DIM = 16


def dim_of(folder: Path) -> int:
    if not (folder / "model").exists():
        tiny_encoder(folder / "model")
    return json.loads((folder / "model" / "config.json").read_text(encoding="utf-8"))["hidden_size"]


def random(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Weights of this shape that keep the length of what they are multiplied with."""
    return torch.randn_like(value) * dim**-0.5


def of_seeds(state: Callable[[int], Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {f"{seed}.{name}": value for seed in SEEDS for name, value in state(seed).items()}


def stored(folder: Path, method_name: str, settings=None, tensors=None, of_seed=None, **encoder) -> Path:
    """A head; without `tensors`, a module over frozen vectors as it is before training."""
    config = HuggingFaceConfig(
        name="tiny", path=str(folder / "model"), max_length=32, states_dtype="float32", **encoder
    )
    dim = dim_of(folder) * len(np.atleast_1d(config.layer))
    method = methods.method(method_name)
    settings = settings or method.presets["paper"]
    path = folder / "heads" / "tiny" / method_name / "en-de.safetensors"
    description = {
        "name": method_name, "encoder": "tiny", "encoder_fingerprint": LazyEncoder(config, path).fingerprint,
        "encoder_config": describe_config(config, path.parent), "reference": method_name, "trained_on": "en-de",
        "languages": LANGUAGES, "dim": dim, "seeds": SEEDS, "settings": asdict(settings),
        **({"of_seed": of_seed} if of_seed else {}),
    }  # fmt: skip
    torch.manual_seed(1)
    if tensors is None:
        tensors = of_seeds(lambda seed: trainer(method).head(dim, len(LANGUAGES), settings).state_dict())
    path.parent.mkdir(parents=True)
    save_weights(path, tensors, description)
    return path


def frozen(folder: Path, name: str, preset: str = "paper", **encoder) -> Path:
    return stored(folder, name, methods.method(name).presets[preset], **encoder)


def facet_first(folder: Path) -> Path:
    settings = methods.method("facet_first").presets["paper"]
    if dim_of(folder) == DIM:
        settings = replace(settings, template_units=6, residual_units=5)
    return stored(folder, "facet_first", settings, layer=1)


def mapped(folder: Path, kind: str = "linear") -> Path:
    dim = dim_of(folder)
    state = dict(VectorMap(dim, kind).named_parameters())
    tensors = of_seeds(lambda seed: {name: random(value, dim) for name, value in state.items()})
    return stored(folder, "emu", replace(methods.method("emu").presets["head"], map=kind), tensors)


def of_languages(folder: Path, *names: str) -> dict[str, torch.Tensor]:
    """For each language a matrix that is its weight, and vectors of the other names."""
    dim = dim_of(folder)
    shapes = {name: (dim, dim) if name == "weight" else (dim,) for name in names}
    return {f"{name}.{of}": random(torch.zeros(shape, dtype=torch.float64), dim)
            for name, shape in shapes.items() for of in LANGUAGES}  # fmt: skip


def projection(folder: Path) -> Path:
    return stored(folder, "projection", tensors=of_languages(folder, "weight", "bias"))


def centered(folder: Path, preset: str = "paper") -> Path:
    return stored(folder, "centered", methods.method("centered").presets[preset], of_languages(folder, "mean"))


def aligned(folder: Path, name: str) -> Path:
    return stored(folder, name, tensors=of_languages(folder, "mean", "weight"))


def tuned(folder: Path, name: str = "fine_tuned", preset: str = "paper") -> Path:
    from transformers import AutoModel

    dim_of(folder)
    names = dict(AutoModel.from_pretrained(folder / "model").named_parameters())
    tensors = of_seeds(lambda seed: {f"model.{name}": value.detach() + torch.randn_like(value) / 50
                                     for name, value in names.items() if not name.startswith("pooler")})  # fmt: skip
    return stored(folder, name, methods.method(name).presets[preset], tensors, pooling="mean")


def facet(folder: Path, layer: int | tuple[int, ...] = 1, **changes) -> Path:
    """Facet with fitted erasers, and a table that knows every third row."""
    config = replace(methods.method("facet").presets["paper"], **changes)
    if dim_of(folder) == DIM:
        config = replace(config, template_units=6, residual_units=5, template_words=7, residual_words=4)
    return stored(
        folder, "facet", config, of_seeds(lambda seed: _facet(folder, config, layer, seed)), layer=layer, pooling="mean"
    )


def _facet(folder, config, layer, seed):
    words = None
    if config.reads_words:
        words = HashedNgramTable(torch.arange(0, TABLE_ROWS, 3), config.template_words + config.residual_words, seed)
        words.table.data = random(words.table, words.dim).half().float()
    head = FacetHead(dim_of(folder) * len(np.atleast_1d(layer)), len(LANGUAGES), config, words)
    for eraser in head.erasers:
        eraser.fit(torch.randn(20, len(eraser.centre)), torch.arange(20) % 2, kept_variance=0.9)
    return head.state_dict()


def lexicon(folder: Path, name: str = "lexicon") -> Path:
    config, known = methods.method(name).presets["paper"], torch.arange(0, TABLE_ROWS, 3, dtype=torch.int32)
    if dim_of(folder) == DIM:
        config = replace(config, template_units=7, residual_units=4)
    width = config.template_units + config.residual_units
    return stored(folder, name, config, of_seeds(
        lambda seed: {"known": known + 0, "table": (torch.randn(len(known), width) * width**-0.5).half()}))  # fmt: skip


def fmda(folder: Path, name: str = "fmda", **changes) -> Path:
    return stored(folder, name, replace(methods.method(name).presets["softmax"], **changes))


def tagger(folder: Path, **encoder) -> Path:
    return _tagger(folder, "token_classification", TAGS, TokenTagger, **encoder)


def span_tagger(folder: Path, name: str = "twosl") -> Path:
    return _tagger(folder, name, ("place", "time"), SpanTagger)


def _tagger(folder, name, classes, kind, layer=-1, **encoder):
    dim, settings = dim_of(folder), methods.method(name).presets["paper"]
    files = EncoderFiles(folder / "model", "cls", layer, 32, "")

    def state(seed):
        tagger = kind(classes, settings, files, seed=seed, device="cpu")
        return {name: value + random(value, dim) / 10 if value.dtype == torch.float32 else value
                for name, value in tagger.state_dict().items()}  # fmt: skip

    of_seed = {seed: {"classes": classes, "languages": ["de"]} for seed in SEEDS}
    return stored(folder, name, settings, of_seeds(state), of_seed=of_seed, layer=layer, **encoder)


def dense(folder: Path) -> Path:
    save_dense(DensePooler(dim_of(folder), bias=True), folder / "model")
    return stored(folder, "dream", pooling="cls_dense_norm")


CASES: Mapping[str, Callable[[Path], Path]] = {
    "dream": partial(frozen, name="dream"),
    "the model's own pooler": partial(frozen, name="dream", pooling="pooler"),
    "the dense layer of sentence-transformers": dense,
    "the embedding layer": partial(frozen, name="dream", layer=0, pooling="mean"),
    "several layers": partial(frozen, name="dream", layer=(1, -1), pooling="mean"),
    "meat_oracle": partial(frozen, name="meat_oracle"),
    "facet_first": facet_first,
    "emu, head": mapped,
    "emu, head, map = mlp": partial(mapped, kind="mlp"),
    "fine_tuned": tuned,
    "facet": partial(facet, layer=(1, 2)),
    "facet with the sentence": partial(facet, sentence_weight=0.3),
    "facet without words": partial(facet, without=("words",)),
    "facet without states": partial(facet, without=("states",)),
    "lexicon": lexicon,
    "fmda": fmda,
    "fmda with every switch": partial(
        fmda, ffn="mlp2", attention_scale="sqrt_d", attention_special="drop", residual_attention="renorm"
    ),
    "projection": projection,
    "centered": centered,
    "cca": partial(aligned, name="cca"),
    "infonce": partial(frozen, name="infonce"),
    "infonce, mlp": partial(frozen, name="infonce", preset="mlp"),
}
"""Heads that are exported to folders of sentence-transformers, by the name of the case."""
