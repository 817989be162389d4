"""Name the extra of disent that installs a missing library."""

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "disent-embeddings"  # `disent` on PyPI is another project
CLI = frozenset({"annotated_types", "click", "jaxtyping", "pyarrow", "pydantic", "rich"})
"""Modules that the extra `cli` installs; without it, disent loads static models and has no commands."""
TRAIN = CLI | {"polars", "scipy", "tokenizers", "torch", "transformers"}
"""Modules that the extra `train` installs; without it, disent neither loads nor trains heads."""
SERVE = frozenset({"jinja2", "starlette", "uvicorn"})  # modules that the extra `serve` adds to those of `cli`
LINEAGE = SERVE | {"dagster", "duckdb", "matplotlib", "sklearn"}
"""Modules that the extra `lineage` installs in addition to `train`; without it, disent has no pipeline."""
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
_GROWING = ("cli", "serve", "train", "lineage")  # extras, each a superset of those before it


def remedy(error: ModuleNotFoundError, extra: str = "cli") -> str | None:
    """Return which module is missing and how to install it; None if no extra of disent has the module.

    `extra` is what the caller needs overall, so that one installation suffices rather than one per missing library.
    """
    module = (error.name or "").partition(".")[0]
    of_module = EXTRAS.get(module)
    if of_module is None:
        return None
    chosen = max(of_module, extra, key=_GROWING.index) if of_module in _GROWING else of_module
    return f"needs {module}; install it with: pip install '{DISTRIBUTION}[{chosen}]'"


@contextmanager
def needing_extra(extra: str) -> Iterator[None]:
    """Name the extra in the error about a module that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = remedy(error, extra)
        if message is None or "pip install" in str(error):
            raise
        raise ModuleNotFoundError(f"this {message}", name=error.name, path=error.path) from error
