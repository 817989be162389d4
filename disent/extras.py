"""Name the extra of disent that installs a library which is absent."""

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "disent-embeddings"  # `disent` of PyPI is another project
TRAIN = frozenset({
    "annotated_types", "click", "jaxtyping", "pyarrow", "pydantic", "rich", "tokenizers", "torch", "transformers",
})  # fmt: skip
"""Modules that the extra `train` installs: an installation without it loads static models only."""
SERVE = frozenset({"jinja2", "starlette", "uvicorn"})  # modules that the extra `serve` installs beside them
LINEAGE = SERVE | {"dagster", "duckdb", "matplotlib", "polars", "scipy", "sklearn"}
"""Modules that the extra `lineage` installs beside them: an installation without it loads and exports heads."""
EXTRAS = {
    "sentence_transformers": "export",
    "mteb": "mteb",
    "faiss": "faiss",
    "obstore": "s3",
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    **dict.fromkeys(LINEAGE, "lineage"),
    **dict.fromkeys(SERVE, "serve"),
    **dict.fromkeys(TRAIN, "train"),
}
"""The extra that installs a module."""


def remedy(error: ModuleNotFoundError) -> str | None:
    """Return what is needed and how to install it; None if no extra of disent has the module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    return None if extra is None else f"needs {module}; install it with: pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def needing_extra() -> Iterator[None]:
    """Name the extra in the message of a module that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = remedy(error)
        if message is None or "pip install" in str(error):
            raise
        raise ModuleNotFoundError(f"this {message}", name=error.name, path=error.path) from error
