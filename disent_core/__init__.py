"""Disentangled sentence embeddings: text in, tensors and tables out.

A pure library: it knows no orchestrator, no database, no environment variable and no global state.
"""

from pathlib import Path


def version() -> str:
    """Return the version of disent: that of the checkout which this file is in, installed or not, or of the package."""
    # What reads it is imported here, so that `import disent` takes no time for it.
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if project.is_file():
        import tomllib

        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    from importlib import metadata

    return metadata.version("disent-embeddings")
