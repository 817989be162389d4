"""Load a model, static or a trained head, and embed texts with it, without the run that trained it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from disent.extras import needing_extra

if TYPE_CHECKING:
    import numpy as np

    from disent_core.encoders.contract import Device
    from disent_core.export.folder import Exported
    from disent_core.lineage.run_heads import RunHead
    from disent_core.lineage.saved_heads import SavedHead
    from disent_core.static_model import StaticModel

_BLOCK_TEXTS = 4_096  # texts that are encoded at once, which bounds the memory of their token states


MODELS = Path(__file__).with_name("models")
"""Folder of the models that disent comes with, a folder each."""
SMALL = "small"
"""Name of the model that `load()` opens."""


class ModelInfo(NamedTuple):
    """What `models` says of a model that disent comes with.

    Attributes:
        name: `disent.load(name)` opens it.
        languages: of its training texts.
        megabytes: of its files.
        licence: of its weights.
        folder: where it lies.
    """

    name: str
    languages: tuple[str, ...]
    megabytes: float
    licence: str
    folder: Path


def models() -> list[ModelInfo]:
    """Return the models that disent comes with, by name.

    Raises:
        DamagedError: if the record of one can't be read.
    """
    from disent_core.static_folder import read_header

    listed = []
    for folder in _shipped().values():
        header, _ = read_header(folder)
        megabytes = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        licence = str(header.description.get("licence", "not stated"))
        listed.append(ModelInfo(folder.name, header.languages, megabytes, licence, folder))
    return listed


def _shipped() -> dict[str, Path]:
    from disent_core.static_folder import RECORD

    return {record.parent.name: record.parent for record in sorted(MODELS.glob(f"*/{RECORD}"))}


@overload
def load(path: None = None) -> "StaticModel": ...
@overload
def load(
    path: str | Path,
    *,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model | StaticModel": ...
def load(
    path: str | Path | None = None,
    *,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model | StaticModel":
    """Load a static model, which needs numpy alone, or a trained head together with its encoder (`disent[train]`).

    Args:
        path: name of a model that disent comes with (`models` lists them), or folder of a static model; file of a head,
            `data/heads/ENCODER/METHOD/PAIR.safetensors`, or a folder that `save` or `disent export` wrote. The folder
            gives the vectors of the head to the bit. None: the model `small`. It may come from anyone: it runs no code.
        seed: of a head's training, one of `Model.seeds`; None: the first. Seeds are never averaged: their spaces
            differ.
        device: of a head: `cpu`, `cuda`, or `auto` for a GPU where there is one.
        encoder: folder of a head's encoder, if that has moved.
        methods: modules of your own, as `my_package.rotation:METHOD`, that a head may name as its method or as the kind
            of its encoder. A head that names another module is refused, and the module is not imported.

    Raises:
        ValueError: if there is no model of that name, the head has no such seed, or an encoder is named for a folder,
            which has its own.
        TrainingError: if there is no head there, it does not say what encoder it has, or it names a module.
        DamagedError: if it is not as it was written.
        EncoderError: if its encoder is not there, or is not the one that it was trained on.
        ModuleNotFoundError: if it is a head and a library for it is not installed; the message names the extra.
    """
    folder = _static_folder(path)
    if folder is not None:
        from disent_core.static_model import StaticModel

        if seed is not None or encoder is not None:
            raise ValueError(f"{folder} is a static model, which has neither seeds nor an encoder; leave them out")
        return StaticModel.load(folder)
    assert path is not None
    return _open_head(Path(path).expanduser(), seed, device, encoder, methods)


def _static_folder(path: str | Path | None) -> Path | None:
    """Return the folder of the static model that is meant; None if a head is meant."""
    from disent_core.static_folder import is_static

    shipped = _shipped()
    if path is None or (isinstance(path, str) and path in shipped):
        if SMALL in shipped or path is not None:
            return shipped[path or SMALL]
        others = f"load one of {', '.join(shipped)}" if shipped else "load a folder or a head of your own by its path"
        raise ValueError(f"this installation of disent comes without the model {SMALL!r}; {others}")
    folder = Path(path).expanduser()
    if isinstance(path, str) and path.isidentifier() and not folder.exists():
        known = ", ".join(shipped) or "none"
        raise ValueError(f"there is no model {path!r} and no such file; models that disent comes with: {known}")
    return folder if is_static(folder) else None


def load_head(
    path: str | Path,
    *,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model":
    """Load a trained head together with its encoder; see `load`."""
    from disent_core.static_folder import is_static

    if path in _shipped() or is_static(Path(path).expanduser()):
        raise ValueError(f"{path} is a static model, and this needs a trained head; embed with disent.load() in Python")
    return _open_head(Path(path).expanduser(), seed, device, encoder, methods)


def _open_head(
    path: Path, seed: int | None, device: "Device", encoder: str | Path | None, methods: Collection[str]
) -> "Model":
    with needing_extra():
        if not path.is_dir():
            from disent_core.lineage.saved_heads import open_head

            moved = None if encoder is None else Path(encoder)
            return Model(open_head(path, device=device, encoder=moved, allowed=methods), seed)
        from disent_core.export.saved_folder import open_folder

    if encoder is not None:
        raise ValueError(f"{path} has its own encoder; leave encoder= out")
    return Model(open_folder(path, device=device, allowed=methods), seed)


class Model:
    """A head and its encoder: texts in, embeddings out. `load` and `Run.head` return one.

    A text has the same vector to the bit alone and among any others, unless the method takes away the mean of the texts
    (`centered` with source `test`, `projection` with center `test`).

    Attributes:
        embeddings: names of the embeddings that it has, such as `meaning`, `template` and `residual`; none if the
            method tags slots.
        languages: languages of which one has to be named with the texts; None if a text's language does not matter.
        seeds: training seeds; empty if the method is deterministic.
        seed: the one in use.
        description: what was trained, on what, with what settings.
        fingerprint: of the weights.
        path: file of the head, or its exported folder; None if it is untrained.
        is_of_one_text: whether the vector of a text depends on it alone.
    """

    def __init__(self, head: "SavedHead | RunHead", seed: int | None = None) -> None:
        self._head: Any = head
        self.embeddings: tuple[str, ...] = head.method.embeddings
        self.seeds: tuple[int, ...] = tuple(head.description["seeds"]) if head.method.is_seeded else ()
        self.seed: int | None = self._seed(seed)
        languages = head.trained.languages
        self.languages: tuple[str, ...] | None = None if languages is None else tuple(sorted(languages))
        self.description: Mapping[str, Any] = head.description
        self.fingerprint: str = head.content
        path = head.path
        self.path: Path | None = path.parent if path is not None and path.suffix != ".safetensors" else path
        # A head that subtracts the mean of the very texts has to see all of them at once.
        self.is_of_one_text: bool = not head.method.is_transductive(head.settings)

    def __repr__(self) -> str:
        name, encoder, pair = (self.description[key] for key in ("name", "encoder", "trained_on"))
        return f"Model({name!r} on {encoder!r}, {pair!r}, embeddings={list(self.embeddings)})"

    def encode(
        self,
        texts: str | Sequence[str],
        embedding: str | None = None,
        *,
        language: str | None = None,
        progress: bool = False,
    ) -> "np.ndarray":
        """Embed texts.

        Args:
            texts: one text, or a list.
            embedding: one of `embeddings`; None: the meaning, or the only one that there is.
            language: of all of them; only a head that has `languages` needs it.
            progress: show on stderr how many are done, and the time left.

        Returns:
            float32 [dim] for one text, [texts, dim] for a list, in order.

        Raises:
            ValueError: if the head has no such embedding, needs a language or has not this one.
            EncoderError: if a text can't be encoded.
        """
        name = self._embedding(embedding)
        listed = [texts] if isinstance(texts, str) else texts
        matrix = self.encode_all(listed, language=language, progress=progress)[name]
        return matrix[0] if isinstance(texts, str) else matrix

    def encode_all(
        self, texts: Sequence[str], *, language: str | None = None, progress: bool = False
    ) -> "dict[str, np.ndarray]":
        """Embed texts by every embedding; the encoder runs once.

        Args:
            texts: at least one.
            language: as in `encode`.
            progress: as in `encode`.

        Returns:
            For each name of `embeddings` a matrix, float32 [texts, dim].

        Raises:
            ValueError: if there are no texts, or as in `encode`.
            EncoderError: if a text can't be encoded.
        """
        return self._encoded(texts, language, self.seed, progress=progress)

    def similarity(
        self, left: "np.ndarray | Sequence[str]", right: "np.ndarray | Sequence[str]", *, language: str | None = None
    ) -> "np.ndarray":
        """Compare all rows with all rows: cosines, or the late interaction of a method such as `bertscore`.

        Args:
            left: vectors [n, dim], or n texts.
            right: vectors [m, dim], or m texts.
            language: of the texts; only a head that has `languages` needs it.

        Returns:
            float32 [n, m].
        """
        import numpy as np

        matrices: list[Any] = [left, right]
        for side, rows in enumerate(matrices):
            if not isinstance(rows, np.ndarray):
                name = self._embedding(None)
                _require_texts(rows)
                features = self._head.features(rows, self._language(language))
                matrices[side] = self._head.trained.embed(features, self.seed)[name]
        if not isinstance(matrices[0], np.ndarray):
            return matrices[0].similarity(matrices[1])
        lengths = [np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12) for rows in matrices]
        return (matrices[0] / lengths[0]) @ (matrices[1] / lengths[1]).T

    def label(
        self, sentences: Sequence[Sequence[str]], *, language: str | None = None, seed: int | None = None
    ) -> list[list[str]]:
        """Tag the slots of sentences of one language, if the method tags.

        Args:
            sentences: the words of each, `[["wake", "me"], ["play", "jazz"]]`.
            language: of all of them, one of `languages`.
            seed: of the training, one of `seeds`; None: the one in use.

        Returns:
            A BIO tag for every word of every sentence.

        Raises:
            ValueError: if the head does not have the language or seed, the method embeds and does not tag, or a
                sentence is no list of words.
        """
        if self.embeddings:
            raise ValueError(f"{self._head.method.name} embeds texts and does not tag; call encode()")
        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise ValueError("a sentence to tag is a list of words, as in label([['wake', 'me'], ['play', 'jazz']])")
        spoken, chosen = self._language(language), self.seed if seed is None else self._seed(seed)
        return self._head.trained.label(sentences, spoken, chosen)

    def save(self, folder: str | Path, embeddings: Sequence[str] | None = None, *, onnx: bool = False) -> "Exported":
        """Write the head with its encoder as a folder that `SentenceTransformer(folder)` loads without disent.

        Args:
            folder: a folder that does not exist yet.
            embeddings: which of its embeddings; None: all that modules of sentence-transformers compute exactly.
            onnx: also write them as one ONNX graph, `disent.onnx`.

        Returns:
            What was written; `routes.steps` has the names that `encode(texts, task=...)` takes.

        Raises:
            TrainingError: if the head, or one of the embeddings, can't be exported, or not as a graph, or the folder
                exists.
            ValueError: if the head has no such embedding.
            ModuleNotFoundError: if a library is not installed: `pip install 'disent[export]'`, with `onnx` for `onnx`.
        """
        from disent_core.export.card import measured_of
        from disent_core.export.folder import export_head

        path, measured = Path(folder).expanduser(), measured_of(self._head, self.seed)
        return export_head(self._head, path, seed=self.seed, embeddings=embeddings, measured=measured, onnx=onnx)

    def _encoded(
        self, texts: Sequence[str], language: str | None, seed: int | None, *, progress: bool = False
    ) -> "dict[str, np.ndarray]":
        import numpy as np
        from tqdm import tqdm

        self._embedding(None)
        _require_texts(texts)
        head, spoken = self._head, self._language(language)
        size = _BLOCK_TEXTS if self.is_of_one_text else len(texts)
        blocks: list[dict[str, np.ndarray]] = []
        with tqdm(total=len(texts), unit=" texts", disable=not progress) as bar:
            for start in range(0, len(texts), size):
                block = texts[start : start + size]
                embedded = head.trained.embed(head.features(block, spoken), seed)
                if late := [name for name, value in embedded.items() if not isinstance(value, np.ndarray)]:
                    problem = f"{head.method.name} compares texts by their tokens: it has no vectors for {late}"
                    raise ValueError(problem)
                blocks.append(embedded)
                bar.update(len(block))
        return {name: np.concatenate([block[name] for block in blocks]).astype(np.float32) for name in blocks[0]}

    def _seed(self, seed: int | None) -> int | None:
        if seed is not None and seed not in self.seeds:
            name = self._head.method.name
            raise ValueError(f"{name} was not trained with seed {seed}; choose one of {list(self.seeds)}")
        return self.seeds[0] if seed is None and self.seeds else seed

    def _embedding(self, name: str | None) -> str:
        if not self.embeddings:
            raise ValueError(f"{self._head.method.name} tags the slots of sentences and does not embed; call label()")
        if name is None:
            return "meaning" if "meaning" in self.embeddings else self.embeddings[0]
        if name not in self.embeddings:
            raise ValueError(f"this head has no embedding {name!r}; choose one of {', '.join(self.embeddings)}")
        return name

    def _language(self, language: str | None) -> str:
        if self.languages is None:
            return language or ""
        if language not in self.languages:
            self._refuse_untagged(language)
            raise ValueError(f"name the language of the texts: language= one of {', '.join(self.languages)}")
        return language

    def _refuse_untagged(self, language: str | None) -> None:
        """Say which languages a tagger has, which may be fewer than those of its pair."""
        if not self.embeddings and language is not None and language not in (self.languages or ()):
            raise ValueError(f"this head tags {', '.join(self.languages or ())} only, not {language!r}")


def _require_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str) or not len(texts):
        raise ValueError("texts must be a list of at least one text")
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ValueError(f"a text is a str, and text {number} is a {type(text).__name__}")
