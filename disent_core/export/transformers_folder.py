"""Write and read the folder with the classes of sentence-transformers."""

import inspect
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from disent_core.encoders.checkpoint import DensePooler, quiet_transformers, save_dense
from disent_core.errors import DamagedError, located
from disent_core.export.comparing import Vectors
from disent_core.export.computed import Computed
from disent_core.export.encoder import ExportedEncoder
from disent_core.export.record import write_json
from disent_core.export.routes import Affine, Pool, Route, Routes, States, UnitNorm


def write_folder(folder: Path, encoder: ExportedEncoder, routes: Routes) -> None:
    """Write `Transformer -> Router(routes)`; the folder does not exist yet."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    dim = int(encoder.model.config.hidden_size)
    with quiet():
        encoder.save(folder)
        kind = _shipped().WordTransformer if routes.reads_words else Transformer
        transformer = kind(str(folder), max_seq_length=encoder.config.max_length)
        shutil.rmtree(folder)
        transformer.model = encoder.model  # without the random pooler that transformers gives one without
        # Without a mapping, encode_query and encode_document would find no route.
        mappings = {(task, None): routes.default for task in ("query", "document")} if routes.default else None
        made: dict[int, Any] = {}
        default = routes.default or ""
        router = Router(
            {name: list(_modules(steps, dim, default, made)) for name, steps in routes.steps.items()},
            default_route=routes.default,
            allow_empty_key=False,
            route_mappings=mappings,  # pyright: ignore[reportArgumentType]
        )
        model = SentenceTransformer(modules=[transformer, router], device="cpu", similarity_fn_name="cosine")
        model.save(str(folder), create_model_card=False)
    if isinstance(pooler := getattr(encoder.model, "pooler", None), DensePooler):
        save_dense(pooler, folder)  # for disent; the routes have it as well
    forget_origin(folder / "config.json", folder / "tokenizer_config.json")
    if routes.needs_code:
        _ship(folder)


def folder_vectors(folder: Path, texts: Sequence[str], routes: Sequence[str]) -> Vectors:
    """Return vectors of texts by route, as sentence-transformers computes them from a folder on the CPU.

    Modules of the shipped file are taken from disent: no code of the folder is run.
    """
    model = load_folder(folder)
    return {
        name: np.asarray(model.encode(list(texts), task=name, show_progress_bar=False), dtype=np.float32)
        for name in routes
    }


def load_folder(folder: Path) -> Any:
    """Load a folder with sentence-transformers, and the shipped modules from disent."""
    with quiet():
        try:
            return _load(folder)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
            remedy = "Export the head again"
            raise DamagedError(located(folder, None, f"this can't be loaded ({error})", remedy)) from error


def _load(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    if not (folder / SHIPPED).exists():
        return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    shipped = _shipped()
    kinds = {name: getattr(shipped, name) for name in _CLASSES}
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    kind = kinds.get(modules[0]["type"].removeprefix(_PREFIX), Transformer)
    transformer = kind.load(str(folder), local_files_only=True)
    named = {f"{_PREFIX}{name}": value for name, value in kinds.items()}
    router = Router.load(str(folder), subfolder=modules[1]["path"], local_files_only=True, module_classes=named)
    return SentenceTransformer(modules=[transformer, router], device="cpu")


SHIPPED = "modeling_disent.py"
_PREFIX = "modeling_disent."
_CLASSES = ("WordTransformer", "LayerStates", "FacetHead", "AttentionHead", "ResidualMap")


def _shipped() -> Any:
    from disent_core.export import modeling_disent

    return modeling_disent


COPIED = (
    "disent_core.export.modeling_disent",
    "disent_core.methods.modules.word_rows",
    "disent_core.normal_form",
    "disent_core.random_bits",
)
"""The shipped module, and the modules of disent that it imports, itself or through them."""


def _ship(folder: Path) -> None:
    """Copy the shipped module and what it imports, and name its classes as those of that file."""
    shipped = _shipped()
    for name in COPIED:
        (folder / _file_of(name)).write_text(_beside_each_other(import_module(name)), encoding="utf-8")
    for name in ("modules.json", "1_Router/router_config.json"):
        file = folder / name
        text = file.read_text(encoding="utf-8").replace(f"{shipped.__name__}.", _PREFIX)
        file.write_text(text, encoding="utf-8")


def _file_of(module: str) -> str:
    return f"{module.rpartition('.')[2]}.py"


def _beside_each_other(module: ModuleType) -> str:
    """The source of a module, with the other copied ones beside it: transformers copies relative imports only."""
    source = inspect.getsource(module)
    for name in COPIED:
        source = source.replace(f"from {name} import", f"from .{_file_of(name).removesuffix('.py')} import")
    return source


@contextmanager
def quiet() -> Iterator[None]:
    """Silence reports about a model whose vectors are compared afterwards, and about texts of ours that are cut."""
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


def _modules(steps: Route, dim: int, default: str, made: dict[int, Any]) -> Iterator[Any]:
    """Yield the modules of a route; a step that several routes share is one module, which is saved once."""
    for step in steps:
        if id(step) not in made:
            made[id(step)] = _computed(step, default) if isinstance(step, Computed) else _module(step, dim)
        dim = step.dim if isinstance(step, States) else len(step.weight) if isinstance(step, Affine) else dim
        yield made[id(step)]


def _module(step: Pool | Affine | UnitNorm | States, dim: int) -> Any:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
    from torch import nn

    if isinstance(step, States):
        return _shipped().LayerStates(list(step.layers), step.dim)
    if isinstance(step, Pool):
        return Pooling(dim, step.mode)
    if isinstance(step, UnitNorm):
        return Normalize()
    return Dense(
        step.weight.shape[1],
        step.weight.shape[0],
        bias=step.bias is not None,
        activation_function=nn.Tanh() if step.tanh else nn.Identity(),
        init_weight=step.weight,
        init_bias=step.bias,
        module_input_name="token_embeddings" if step.of_tokens else "sentence_embedding",
    )


def _computed(step: Computed, default: str) -> Any:
    module = getattr(_shipped(), step.kind)(step.settings, default)
    module.load_state_dict(step.weights)
    return module


def forget_origin(*files: Path) -> None:
    """Remove the path of the folder that the model was read from."""
    for file in files:
        settings = json.loads(file.read_text(encoding="utf-8"))
        for key in ("_name_or_path", "name_or_path"):
            settings.pop(key, None)
        write_json(file, settings)
