"""Write and read the folder with the classes of sentence-transformers."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from disent_core.encoders.checkpoint import quiet_transformers
from disent_core.errors import DamagedError, located
from disent_core.export.encoder import ExportedEncoder
from disent_core.export.routes import Affine, Pool, Route, Routes

Vectors = Mapping[str, Float[np.ndarray, "texts _"]]
"""Vectors of texts by route."""


def write_folder(folder: Path, encoder: ExportedEncoder, routes: Routes) -> None:
    """Write `Transformer -> Router(routes)`; the folder does not exist yet."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    dim = int(encoder.model.config.hidden_size)
    with _quiet():
        encoder.save(folder)
        transformer = Transformer(str(folder), max_seq_length=encoder.config.max_length)
        shutil.rmtree(folder)
        transformer.model = encoder.model  # without the random pooler that transformers gives one without
        # Without a mapping, encode_query and encode_document would find no route.
        mappings = {(task, None): routes.default for task in ("query", "document")} if routes.default else None
        router = Router(
            {name: list(_modules(steps, dim)) for name, steps in routes.steps.items()},
            default_route=routes.default,
            allow_empty_key=False,
            route_mappings=mappings,  # pyright: ignore[reportArgumentType]
        )
        model = SentenceTransformer(modules=[transformer, router], device="cpu", similarity_fn_name="cosine")
        model.save(str(folder), create_model_card=False)
    _forget_origin(folder / "config.json", folder / "tokenizer_config.json")


def folder_vectors(folder: Path, texts: Sequence[str], routes: Sequence[str]) -> Vectors:
    """Vectors of texts by route, as sentence-transformers computes them from a folder on the CPU.

    Raises:
        DamagedError: if the folder can't be loaded.
    """
    from sentence_transformers import SentenceTransformer

    with _quiet():
        try:
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
            remedy = "Export the head again"
            raise DamagedError(located(folder, None, f"this can't be loaded ({error})", remedy)) from error
        return {
            name: np.asarray(model.encode(list(texts), task=name, show_progress_bar=False), dtype=np.float32)
            for name in routes
        }


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence reports about a model whose vectors are compared afterwards."""
    logger = logging.getLogger("sentence_transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with quiet_transformers():
            yield
    finally:
        logger.setLevel(level)


def _modules(steps: Route, dim: int) -> Iterator[Any]:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
    from torch import nn

    for step in steps:
        if isinstance(step, Pool):
            yield Pooling(dim, step.mode)
        elif isinstance(step, Affine):
            dim, inner = step.weight.shape
            yield Dense(
                inner,
                dim,
                bias=step.bias is not None,
                activation_function=nn.Tanh() if step.tanh else nn.Identity(),
                init_weight=step.weight,
                init_bias=step.bias,
                module_input_name="token_embeddings" if step.of_tokens else "sentence_embedding",
            )
        else:
            yield Normalize()


def _forget_origin(*files: Path) -> None:
    """Remove the path of the folder that the model was read from."""
    for file in files:
        settings = json.loads(file.read_text(encoding="utf-8"))
        for key in ("_name_or_path", "name_or_path"):
            settings.pop(key, None)
        write_json(file, settings)
