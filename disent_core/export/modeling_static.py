"""Define a static model as a module of sentence-transformers. The file is in the folder of such a model.

It is loaded by SentenceTransformer(folder, trust_remote_code=True), and needs numpy and safetensors beside
sentence-transformers. Whatever it imports from disent is copied beside it.
"""

from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules.input_module import InputModule

from disent_core.export.side_by_side import side_by_side
from disent_core.static_folder import RECORD, WEIGHTS
from disent_core.static_model import StaticModel

Features = MutableMapping[str, Any]


class StaticWords(InputModule):
    """Map texts to unit vectors of the embedding that `task` names."""

    forward_kwargs = {"task"}  # noqa: RUF012

    def __init__(self, model: StaticModel) -> None:
        super().__init__()
        self.model = model

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Embed texts, which leaves nothing for a device to compute."""
        texts = [f"{prompt or ''}{text}" for text in inputs]
        return {"vectors": torch.from_numpy(self.model.encode(texts, self._name(options.get("task"))))}

    def forward(self, features: Features, task: str | None = None, **_: Any) -> Any:
        parts = list(self.model.header.parts.values()) if self._name(task) is None else ()
        features["sentence_embedding"] = side_by_side(features["vectors"], parts)
        return features

    def _name(self, task: str | None) -> str | None:
        """Return the embedding of a task; None, the meaning, for queries, documents and texts without a task."""
        return None if task in ("query", "document", "meaning") else task

    def get_embedding_dimension(self) -> int:
        return self.model.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        for name in (RECORD, WEIGHTS):
            Path(output_path, name).write_bytes(Path(self.model.path or "", name).read_bytes())

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read the model from its folder, or from the hub."""
        names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        source: dict[str, Any] = {name: kwargs[name] for name in names if name in kwargs}
        files = [cls.load_file_path(model_name_or_path, filename=name, **source) for name in (RECORD, WEIGHTS)]
        if None in files:
            raise ValueError(
                f"{model_name_or_path} lacks {RECORD} or {WEIGHTS}. Copy or download the whole folder again"
            )
        return cls(StaticModel.load(Path(str(files[0])).parent))
