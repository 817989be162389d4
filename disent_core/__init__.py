"""Disentangled sentence embeddings: text in, tensors and tables out.

A pure library: it uses no orchestrator, no database, no environment variable and no global state.
"""

from pathlib import Path


def version() -> str:
    """Return the version of disent: that of the checkout with this file, installed or not, or of the package."""
    # Imported here, so that `import disent` does not pay for it.
    root = Path(__file__).resolve().parents[1]
    if (root / "disent_assets" / "project").is_dir():  # only a wheel has it
        from importlib import metadata

        return metadata.version("disent-embeddings")
    import tomllib

    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
