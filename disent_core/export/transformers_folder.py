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

from disent_core.encoders.checkpoint import DensePooler, quiet_transformers, save_dense
from disent_core.errors import DamagedError, located, reason
from disent_core.export.encoder import ExportedEncoder
from disent_core.export.routes import Routes, shipped
from disent_core.export.saved_folder import write_json
from disent_core.export.shipped_code import COPIED, shipped_code

Vectors = Mapping[str, Float[np.ndarray, "texts _"]]  # vectors of texts by route; for a tagger, `logits` of words


def write_folder(folder: Path, encoder: ExportedEncoder, routes: Routes) -> None:
    """Write `Transformer -> Router(routes)`, or words in place of the transformer, to a new folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    with quiet():
        if encoder.model is None:
            first = shipped().WordInput()
        else:
            encoder.model.save_pretrained(folder)
            encoder.tokeniser.save_pretrained(folder)
            kind = shipped().WordTransformer if routes.reads_words else Transformer
            first = kind(str(folder), max_seq_length=encoder.config.max_length)
            shutil.rmtree(folder)
            first.model = encoder.model  # without the random pooler that transformers adds if there is none
        # Without a mapping, encode_query and encode_document would find no route.
        mappings = {(task, None): routes.default for task in ("query", "document")} if routes.default else None
        router = Router(
            {name: list(steps) for name, steps in routes.steps.items()},
            default_route=routes.default,
            allow_empty_key=False,
            route_mappings=mappings,  # pyright: ignore[reportArgumentType]
        )
        model = SentenceTransformer(modules=[first, router], device="cpu", similarity_fn_name="cosine")
        model.save(str(folder), create_model_card=False)
    if isinstance(pooler := getattr(encoder.model, "pooler", None), DensePooler):
        save_dense(pooler, folder)  # for disent; the routes have it as well
    forget_origin(folder)
    if routes.needs_code:
        _ship(folder)


def folder_vectors(folder: Path, texts: Sequence[str], routes: Sequence[str]) -> Vectors:
    """Return vectors of texts by route, as sentence-transformers computes them from a folder on the CPU.

    Modules of the shipped file are taken from disent; no code in the folder is run.
    """
    model = load_folder(folder)
    return {
        name: np.asarray(model.encode(list(texts), task=name, show_progress_bar=False), dtype=np.float32)
        for name in routes
    }


@contextmanager
def loadable(folder: Path) -> Iterator[None]:
    """Raise an error with the remedy if a folder can't be loaded."""
    try:
        with quiet():
            yield
    except Exception as error:
        problem = f"this can't be loaded ({reason(error)})"
        raise DamagedError(located(folder, None, problem, "Export the head again")) from error


_PREFIX = "modeling_disent."
_CLASSES = ("WordTransformer", "WordInput", "LayerStates", "FacetHead", "AttentionHead", "Embedding")


def load_folder(folder: Path) -> Any:
    """Load a folder with sentence-transformers, taking the shipped modules from disent."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    with loadable(folder):
        if not (folder / f"{_PREFIX}py").exists():
            return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        kinds = {f"{_PREFIX}{name}": getattr(shipped(), name) for name in _CLASSES}
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        first = kinds.get(modules[0]["type"], Transformer).load(str(folder), local_files_only=True)
        router = Router.load(str(folder), subfolder=modules[1]["path"], local_files_only=True, module_classes=kinds)
        return SentenceTransformer(modules=[first, router], device="cpu")


def _ship(folder: Path) -> None:
    """Copy the shipped module and what it imports, and refer to its classes in the copy."""
    for name, source in shipped_code(COPIED).items():
        (folder / name).write_text(source, encoding="utf-8")
    for name in ("modules.json", "1_Router/router_config.json"):
        file = folder / name
        text = file.read_text(encoding="utf-8").replace(f"{shipped().__name__}.", _PREFIX)
        file.write_text(text, encoding="utf-8")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence messages about a model whose vectors are compared afterwards, and about truncated probe texts."""
    loggers = [logging.getLogger(name) for name in ("sentence_transformers", "disent_core.encoders")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with quiet_transformers():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def forget_origin(folder: Path) -> None:
    """Remove the path of the folder that the model was read from, and references to code on a hub."""
    for file in filter(Path.is_file, (folder / "config.json", folder / "tokenizer_config.json")):
        settings = json.loads(file.read_text(encoding="utf-8"))
        forgotten = ("_name_or_path", "name_or_path", "auto_map")
        write_json(file, {key: value for key, value in settings.items() if key not in forgotten})
