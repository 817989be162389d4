"""Name the extra of disent that installs a library which is absent."""

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "disent-embeddings"  # `disent` of PyPI is another project
CLI = frozenset({"annotated_types", "click", "jaxtyping", "pyarrow", "pydantic", "rich"})
"""Modules that the extra `cli` installs: an installation without it loads static models, and has no commands."""
TRAIN = CLI | {"polars", "scipy", "tokenizers", "torch", "transformers"}
"""Modules that the extra `train` installs: an installation without it has no heads and trains none."""
SERVE = frozenset({"jinja2", "starlette", "uvicorn"})  # modules that the extra `serve` installs beside those of `cli`
LINEAGE = SERVE | {"dagster", "duckdb", "matplotlib", "sklearn"}
"""Modules that the extra `lineage` installs beside those of `train`: an installation without it has no pipeline."""
EXTRAS = {
    "sentence_transformers": "export",
    "mteb": "mteb",
    "faiss": "faiss",
    "obstore": "s3",
    "model_signing": "sign",
    "filelock": "cli",  # on Windows
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    **dict.fromkeys(LINEAGE, "lineage"),
    **dict.fromkeys(SERVE, "serve"),
    **dict.fromkeys(TRAIN, "train"),
    **dict.fromkeys(CLI, "cli"),
}
"""The extra that installs a module."""
_GROWING = ("cli", "serve", "train", "lineage")  # extras, each of which has more than those before it


def remedy(error: ModuleNotFoundError, extra: str = "cli") -> str | None:
    """Return what is needed and how to install it; None if no extra of disent has the module.

    `extra` is the one that the caller needs in the end: libraries are not named one after another.
    """
    module = (error.name or "").partition(".")[0]
    of_module = EXTRAS.get(module)
    if of_module is None:
        return None
    chosen = max(of_module, extra, key=_GROWING.index) if of_module in _GROWING else of_module
    return f"needs {module}; install it with: pip install '{DISTRIBUTION}[{chosen}]'"


@contextmanager
def needing_extra(extra: str) -> Iterator[None]:
    """Name the extra in the message of a module that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = remedy(error, extra)
        if message is None or "pip install" in str(error):
            raise
        raise ModuleNotFoundError(f"this {message}", name=error.name, path=error.path) from error
