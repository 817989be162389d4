"""Load a static model or a trained head, and embed texts with it, without the run that trained it."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from string import hexdigits
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload
from urllib.parse import urlsplit

from disent.extras import needing_extra
from disent.home import cache_folder, expanded
from disent_core.embedding_names import ByEmbedding, asked_name, is_vectors, plain_word, require_no_name
from disent_core.errors import CorpusError, DamagedError, TrainingError, commas, located
from disent_core.progress import text_bar
from disent_core.registry import nearest
from disent_core.text import listed_texts, require_batch_size

if TYPE_CHECKING:
    import numpy as np

    from disent_core.encoders.contract import Device
    from disent_core.export.folder import Exported
    from disent_core.lineage.run_heads import RunHead
    from disent_core.lineage.saved_heads import SavedHead
    from disent_core.static_model import StaticModel

_BLOCK_TEXTS = 4_096  # texts encoded at once; bounds the memory of their token states


MODELS = Path(__file__).with_name("models")
"""Folder of the models bundled with disent, one folder each."""
ENTRY_POINTS = "disent.models"
"""Entry point group by which wheels provide models: the name, and the package that is the model's folder."""
SMALL = "small"
"""Name of the model that `load()` opens."""
HEAD_RECORD = "disent_head.json"
"""File that marks the folder of a head written by `disent export`."""


class ModelInfo(NamedTuple):
    """An installed model, as `models` lists it.

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
    """Return the installed models: those bundled with disent, and those of wheels such as `disent-massive`.

    Raises:
        DamagedError: if a model's record can't be read.
    """
    from disent_core.static_folder import read_header

    listed = []
    for name, folder in shipped_models().items():
        header, _ = read_header(folder)
        megabytes = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        licence = str(header.description.get("licence", "not stated"))
        listed.append(ModelInfo(name, header.languages, megabytes, licence, folder))
    return listed


def shipped_models() -> dict[str, Path]:
    """Return the folders of the installed models by name, without importing any model's package."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    from disent_core.static_folder import RECORD

    folders = _models_of_disent()
    for point in entry_points(group=ENTRY_POINTS):
        spec = find_spec(point.value) if point.value.isidentifier() else None
        for location in (spec and spec.submodule_search_locations) or ():
            if (Path(location) / RECORD).is_file():
                folders.setdefault(point.name, Path(location))
    return folders


def recorded_model(folder: Path, places: Iterable[str], names: Iterable[str]) -> Path | str | None:
    """Return the model that a record in `folder` names: a path relative to it, or an installed model's name.

    The record is untrusted, so absolute paths are not followed. Return None if there is no such model.
    """
    near = (folder / place for place in places if not Path(place).anchor)
    if path := next(filter(os.path.exists, near), None):
        return path.resolve()
    return next((name for name in names if name in shipped_models()), None)


def _models_of_disent() -> dict[str, Path]:
    from disent_core.static_folder import RECORD

    return {record.parent.name: record.parent for record in sorted(MODELS.glob(f"*/{RECORD}"))}


@overload
def load(path: None = None) -> "StaticModel": ...
@overload
def load(
    path: str | Path,
    *,
    sha256: str | None = None,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model | StaticModel": ...
def load(
    path: str | Path | None = None,
    *,
    sha256: str | None = None,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model | StaticModel":
    """Load a static model, which needs only numpy, or a trained head with its encoder, which needs the extra `train`.

    Args:
        path: name of an installed model (see `models`); folder of a static model; file of a head,
            `data/heads/ENCODER/METHOD/PAIR.safetensors`; folder that `save` or `disent export` wrote, which gives the
            head's vectors to the bit; or URL of an archive of such a folder, `https://HOST/x.tar.gz`. None: the model
            `small`. A file from an untrusted source is safe to load: it runs no code.
        sha256: of the archive at a URL, 64 hexadecimal digits; nothing is downloaded without it. The archive is
            unpacked once, in DISENT_CACHE (`~/.cache/disent`).
        seed: of a head's training, one of `Model.seeds`; None: the first. Vectors are never averaged over seeds: their
            spaces differ.
        device: of a head: `cpu`, `cuda`, or `auto` for a GPU where there is one.
        encoder: folder of a head's encoder, if it has moved and is not in a folder beside the head's file.
        methods: modules of your own, as `my_package.rotation:METHOD`, that a head may name as its method or as the kind
            of its encoder. A head that names any other module is rejected, and the module is not imported. A name on
            the hub, `org/model`, allows that encoder to be downloaded; otherwise it must be in the hub's local cache.

    Raises:
        ValueError: if there is no model of that name, the head has no such seed, an encoder is named for a folder
            (which has its own), a URL comes without a checksum, or a path comes with one.
        TrainingError: if there is no head there, or it does not name its encoder, or names a disallowed module.
        DamagedError: if the model's files are damaged, or a URL does not lead to an archive of a model.
        EncoderError: if the head's encoder is missing, or is not the one it was trained on.
        ModuleNotFoundError: if it is a head and a library for it is not installed; the message names the extra.
    """
    if isinstance(path, str) and "://" in path:
        unpacked = downloaded(path, sha256)
        try:
            return load(unpacked, seed=seed, device=device, encoder=encoder, methods=methods)
        except DamagedError as error:
            raise DamagedError(f"{error}; delete {unpacked} to download it again") from error
    if path == "":
        raise ValueError("the path of the model is empty; name a model, its file or its folder")
    if sha256 is not None:
        raise ValueError(f"sha256= is the checksum of an archive at a URL, and {path} is not a URL; leave it out")
    folder = static_folder(path)
    if folder is not None:
        from disent_core.static_model import StaticModel

        for name, value in {"seed": seed, "encoder": encoder}.items():
            if value is not None:
                raise ValueError(f"{folder.name} is a static model, which has no {name}; leave {name}= out")
        if device not in ("auto", "cpu"):
            raise ValueError(f"{folder} is a static model, which runs only on 'cpu', not {device!r}; leave device= out")
        return StaticModel.load(folder)
    assert path is not None
    file = expanded(path)
    require_model(file)
    return load_head(file, seed=seed, device=device, encoder=encoder, methods=methods)


def opened(model: Any, seed: int | None = None) -> Any:
    """Return a model (an object with a method `encode`, or a function) as it is; load it if it is a name or a path."""
    if model is None:
        return load()
    if isinstance(model, str | Path):
        return load(model, seed=seed)
    if not callable(getattr(model, "encode", model)):
        raise ValueError(f"model is {model!r}; give a model, or its name or path")
    return model


_OTHERS = {
    "classifier.json": ("a classifier", "Open it with disent.Classifier.load"),
    "index.json": ("an index of texts", "Open it with disent.Index.open"),
}
"""Other kinds of folders that disent writes, by the file that marks them: what they are, and what opens them."""


def require_model(path: Path) -> None:
    """Reject a folder of another kind; the message says which kind it is."""
    from disent_core.static_folder import RECORD, read_header

    for name, (what, remedy) in _OTHERS.items():
        if (path / name).is_file():
            raise TrainingError(located(path, None, f"this is {what}, not a model", remedy))
    if (path / RECORD).is_file() and not (path / HEAD_RECORD).is_file():
        read_header(path)  # says what is wrong with the record of a static model


def static_folder(path: str | Path | None) -> Path | None:
    """Return the folder of the static model that `path` names; None if it names a head."""
    from disent_core.static_folder import is_static

    name = SMALL if path is None else path
    if name in (of_disent := _models_of_disent()):
        return of_disent[str(name)]
    shipped = shipped_models()  # slow: reads the metadata of all installed packages
    if name in shipped:
        return shipped[str(name)]
    if path is None:
        others = f"load one of {', '.join(shipped)}" if shipped else "load a folder or a head of your own by its path"
        raise ValueError(f"this installation of disent comes without the model {SMALL!r}; {others}")
    folder = expanded(path)
    if isinstance(path, str) and path.isidentifier() and not folder.exists():
        known, meant = ", ".join(shipped) or "none", nearest(path, shipped)
        raise ValueError(f"there is no model {path!r} and no such file{meant}; models that disent comes with: {known}")
    return folder if is_static(folder) else None


def load_head(
    path: Path,
    *,
    seed: int | None = None,
    device: "Device" = "auto",
    encoder: str | Path | None = None,
    methods: Collection[str] = (),
) -> "Model":
    """Load a trained head together with its encoder; see `load`."""
    from disent_core.static_folder import is_static, no_model

    if path.is_file() and (path.suffix != ".safetensors" or is_static(path.parent)):
        raise no_model(path)
    try:
        with needing_extra("train"):
            if not path.is_dir():
                from disent_core.lineage.saved_heads import open_head

                moved = None if encoder is None else Path(encoder)
                return Model(open_head(path, device=device, encoder=moved, allowed=methods), seed)
            from disent_core.export.saved_folder import open_folder
    except ModuleNotFoundError:
        if not path.exists():  # installing gigabytes would not help
            raise no_model(path) from None
        raise
    if encoder is not None:
        raise ValueError(f"{path} has its own encoder; leave encoder= out")
    return Model(open_folder(path, device=device, allowed=methods), seed)


def downloaded(url: str, sha256: str | None) -> Path:
    """Return the folder of the model in an archive; download the archive unless an earlier call has unpacked it."""
    with needing_extra("cli"):  # for the locks of Windows
        from disent_core.storage.archives import ArchiveError, unpack
        from disent_core.storage.download import fetch, file_name, shown
        from disent_core.storage.files import locked, replacing_folder

    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{shown(url)} can't be loaded; give an https:// URL, or download it and give its folder")
    file_name(url)
    if sha256 is None or len(sha256) != 64 or not set(sha256) <= set(hexdigits):
        what = "it is downloaded only with its checksum" if sha256 is None else "a SHA-256 has 64 hexadecimal digits"
        remedy = "Pass disent.load(..., sha256=) the checksum its publisher states; `sha256sum FILE` prints a file's"
        raise ValueError(located(shown(url), None, what, remedy))
    folder = cache_folder() / "models" / sha256.lower()
    archive = folder.with_suffix(".archive")
    with locked(folder):
        with suppress(LookupError):
            return _model_in(folder)
        try:
            fetch(url, archive, sha256=sha256)
            with replacing_folder(folder) as temporary:
                temporary.mkdir()
                unpack(archive, temporary)
                _model_in(temporary)
        except CorpusError as error:
            raise DamagedError(str(error)) from error
        except (ArchiveError, LookupError) as error:
            remedy = "The file has the given checksum: ask whoever gave you the address for the right one"
            raise DamagedError(located(shown(url), None, str(error), remedy)) from error
        finally:
            archive.unlink(missing_ok=True)
        return _model_in(folder)


def _model_in(folder: Path) -> Path:
    """Return the outermost model folder inside a folder; raise LookupError unless there is exactly one."""
    from disent_core.static_folder import RECORD

    records = (RECORD, HEAD_RECORD)
    inside = {path.parent for name in records for path in folder.rglob(name)}
    least = min((len(path.parts) for path in inside), default=0)
    outermost = [path for path in inside if len(path.parts) == least]
    if len(outermost) != 1:
        raise LookupError(f"expected one model folder, with {' or '.join(records)}; found {len(outermost) or 'none'}")
    return outermost.pop()


class Model:
    """A head and its encoder: texts in, embeddings out. `load` and `Run.head` return one.

    A text's vector is the same to the bit whether it is encoded alone or with others, unless the method subtracts the
    mean of the texts (`centered` with source `test`, `projection` with center `test`).

    Attributes:
        embeddings: names of its embeddings, such as `meaning`, `template` and `residual`; empty if the method tags
            slots. A head that was trained on texts without slots has no template and no residual.
        languages: languages from which the texts' must be named; None if a text's language does not matter.
            `description["languages"]` has the languages of the training, which a static model calls `languages`.
        seeds: training seeds; empty if the method is deterministic.
        seed: the one in use.
        description: what was trained, on what, with what settings.
        fingerprint: of the weights.
        path: file of the head, or its exported folder; None if it is untrained.
        is_of_one_text: whether the vector of a text depends on it alone.
    """

    def __init__(self, head: "SavedHead | RunHead", seed: int | None = None) -> None:
        from disent_core.methods.spec import learned

        self._head: Any = head
        self.embeddings: tuple[str, ...] = learned(head.method.embeddings, head.description)
        self.seeds: tuple[int, ...] = tuple(head.description["seeds"]) if head.method.is_seeded else ()
        self.seed: int | None = self._seed(seed)
        languages = head.trained.languages
        self.languages: tuple[str, ...] | None = None if languages is None else tuple(sorted(languages))
        self.description: Mapping[str, Any] = head.description
        self.fingerprint: str = head.content
        path = head.path
        self.path: Path | None = path.parent if path is not None and path.suffix != ".safetensors" else path
        # A head that subtracts the mean of the texts it encodes has to see all of them at once.
        self.is_of_one_text: bool = not head.method.is_transductive(head.settings)

    def __repr__(self) -> str:
        name, encoder, pair = (self.description[key] for key in ("name", "encoder", "trained_on"))
        return f"Model({name!r} on {encoder!r}, {pair!r}, embeddings={[*map(plain_word, self.embeddings)]})"

    @property
    def names(self) -> tuple[str, ...]:
        """Same as `embeddings`; the name that static models use."""
        return self.embeddings

    @property
    def dim(self) -> int:
        """Dimensions of the default embedding of `encode`; the first access encodes a text."""
        return self._widths[self._embedding(None)]

    @property
    def max_length(self) -> int | None:
        """Most tokens of a text that the encoder reads; longer texts are cut. None if there is no limit."""
        if not self._head.method.reads_encoder:
            return None
        return getattr(self._head.encoder_config, "max_length", None)

    @property
    def device(self) -> str:
        """Device that the model runs on, `cpu` or `cuda`."""
        return self._head.device

    def encode(
        self,
        texts: str | Iterable[str],
        name: str | None = None,
        *,
        embedding: str | None = None,
        language: str | None = None,
        normalize: bool = False,
        batch_size: int = _BLOCK_TEXTS,
        show_progress: bool = False,
        progress: bool = False,
    ) -> "np.ndarray":
        """Embed texts.

        Args:
            texts: one text, or several as a list, an array or any other iterable.
            name: one of `embeddings`, or `shape` for the template and `values` for the residual; None: the meaning or,
                without it, the first.
            embedding: the same as `name`.
            language: of all the texts; needed only by a head that has `languages`.
            normalize: return unit vectors. Unlike with static models, the default is False: vectors are as the head has
                learned them, as commands write them and as a run measures them. Cosines are the same.
            batch_size: texts encoded at once; bounds the memory of their token states. A head without `is_of_one_text`
                encodes all texts at once.
            show_progress: show on stderr how many texts are done, and the time left.
            progress: earlier name of `show_progress`.

        Returns:
            float32 [dim] for one text, [texts, dim] for several, in order.

        Raises:
            ValueError: if the head has no such embedding, needs a language or was not trained on the given one, or a
                text is not a str or has a lone surrogate.
            EncoderError: if a text can't be encoded.
        """
        chosen = self._embedding(asked_name(name, embedding))
        matrix = self.encode_all(
            [texts] if isinstance(texts, str) else texts,
            language=language,
            normalize=normalize,
            batch_size=batch_size,
            show_progress=show_progress or progress,
        )[chosen]
        return matrix[0] if isinstance(texts, str) else matrix

    def encode_all(
        self,
        texts: Iterable[str],
        *,
        language: str | None = None,
        normalize: bool = False,
        batch_size: int = _BLOCK_TEXTS,
        show_progress: bool = False,
        progress: bool = False,
    ) -> "dict[str, np.ndarray]":
        """Embed texts by every embedding, running the encoder once.

        Args:
            texts: as in `encode`, but not a single str.
            language: as in `encode`.
            normalize: as in `encode`.
            batch_size: as in `encode`.
            show_progress: as in `encode`.
            progress: as in `encode`.

        Returns:
            For each name of `embeddings`, and for `shape` and `values`, a matrix, float32 [texts, dim].

        Raises:
            ValueError, EncoderError: as `encode`.
        """
        import numpy as np

        matrices = self._encoded(texts, language, self.seed, batch_size, show_progress or progress)
        if not normalize:
            return matrices
        lengths = {name: np.linalg.norm(rows, axis=1, keepdims=True) for name, rows in matrices.items()}
        return ByEmbedding({name: rows / np.maximum(lengths[name], 1e-12) for name, rows in matrices.items()})

    def similarity(
        self,
        left: "np.ndarray | str | Iterable[str]",
        right: "np.ndarray | str | Iterable[str]",
        name: str | None = None,
        *,
        embedding: str | None = None,
        language: str | None = None,
    ) -> "np.ndarray":
        """Compare every pair of rows, by cosine or by the late interaction of a method such as `bertscore`.

        Args:
            left: vectors [n, dim], or n texts.
            right: vectors [m, dim], or m texts.
            name: the embedding of the texts, as in `encode`; not allowed if both sides are vectors.
            embedding: the same as `name`.
            language: of the texts; needed only by a head that has `languages`.

        Returns:
            float32 [n, m]; a single text or vector counts as n = 1.
        """
        import numpy as np

        asked = asked_name(name, embedding)
        require_no_name(asked, left, right)
        chosen, matrices = self._embedding(asked), []
        for side in (left, right):
            if is_vectors(side):
                matrices.append(np.atleast_2d(cast("np.ndarray", side)))
                continue
            texts = listed_texts([side] if isinstance(side, str) else side)
            if not texts:
                raise ValueError("there are no texts to compare")
            features = self._head.features(texts, self._language(language))
            matrices.append(self._head.trained.embed(features, self.seed)[chosen])
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
            language: of all sentences, one of `languages`.
            seed: of the training, one of `seeds`; None: the one in use.

        Returns:
            A BIO tag for every word of every sentence.

        Raises:
            ValueError: if the head does not have the language or seed, the method embeds and does not tag, or a
                sentence is not a list of words.
        """
        if self.embeddings:
            raise ValueError(f"{self._head.method.name} embeds texts and does not tag; call encode()")
        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise ValueError("a sentence to tag is a list of words, as in label([['wake', 'me'], ['play', 'jazz']])")
        spoken, chosen = self._language(language), self.seed if seed is None else self._seed(seed)
        return self._head.trained.label(sentences, spoken, chosen)

    def save(
        self,
        folder: str | Path,
        embeddings: Sequence[str] | None = None,
        *,
        onnx: bool = False,
        licence: str | None = None,
    ) -> "Exported":
        """Write the head and its encoder to a folder that `SentenceTransformer(folder)` loads without disent.

        Args:
            folder: a folder that does not exist yet.
            embeddings: embeddings to write; None: all that modules of sentence-transformers compute exactly.
            onnx: also write them as one ONNX graph, `disent.onnx`.
            licence: of the weights, such as `CC-BY-4.0`, for the model card.

        Returns:
            What was written; `routes.steps` has the names that `encode(texts, task=...)` accepts.

        Raises:
            TrainingError: if the head or one of the embeddings can't be exported, or not as a graph, or the folder
                exists.
            ValueError: if the head has no such embedding.
            ModuleNotFoundError: if the extra `export`, or `onnx` for `onnx`, is not installed.
        """
        from disent_core.export.card import measured_of
        from disent_core.export.folder import export_head

        path, measured = expanded(folder), measured_of(self._head, self.seed)
        return export_head(
            self._head, path, seed=self.seed, embeddings=embeddings, measured=measured, onnx=onnx, licence=licence
        )

    def _encoded(
        self,
        texts: Iterable[str],
        language: str | None,
        seed: int | None,
        batch_size: int = _BLOCK_TEXTS,
        show_progress: bool = False,
    ) -> "dict[str, np.ndarray]":
        import numpy as np

        self._embedding(None)
        require_batch_size(batch_size)
        listed, spoken = listed_texts(texts), self._language(language)
        if not listed:
            return ByEmbedding({name: np.empty((0, width), np.float32) for name, width in self._widths.items()})
        size = batch_size if self.is_of_one_text else len(listed)
        blocks: list[dict[str, np.ndarray]] = []
        with text_bar(len(listed), disable=not show_progress) as bar:
            for start in range(0, len(listed), size):
                block = listed[start : start + size]
                embedded = self._head.trained.embed(self._head.features(block, spoken), seed)
                if late := [name for name, value in embedded.items() if not isinstance(value, np.ndarray)]:
                    method = self._head.method.name
                    raise ValueError(f"{method} compares texts by their tokens: it has no vectors for {commas(late)}")
                blocks.append(embedded)
                bar.update(len(block))
        names = [name for name in blocks[0] if name in self.embeddings]
        matrices = {name: np.concatenate([block[name] for block in blocks]) for name in names}
        return ByEmbedding({name: rows.astype(np.float32) for name, rows in matrices.items()})

    @cached_property
    def _widths(self) -> dict[str, int]:
        """Dimensions of each embedding, measured by encoding a text."""
        vectors = self._encoded(["a"], self.languages[0] if self.languages else None, self.seed)
        return {name: rows.shape[1] for name, rows in vectors.items()}

    def _seed(self, seed: int | None) -> int | None:
        if seed is not None and seed not in self.seeds:
            name = self._head.method.name
            raise ValueError(f"{name} was not trained with seed {seed}; choose one of {commas(self.seeds)}")
        return self.seeds[0] if seed is None and self.seeds else seed

    def _embedding(self, name: str | None) -> str:
        if not self.embeddings:
            raise ValueError(f"{self._head.method.name} tags the slots of sentences and does not embed; call label()")
        from disent_core.methods.spec import learned_embedding

        return learned_embedding(self._head.method.embeddings, self.description, name)

    def _language(self, language: str | None) -> str:
        if self.languages is None:
            seen = self.description.get("languages")
            if language is not None and seen and language not in seen:
                raise ValueError(f"this head was trained on {', '.join(seen)}, not {language!r}; it needs no language=")
            return language or ""
        if language not in self.languages:
            self._refuse_untagged(language)
            raise ValueError(f"name the language of the texts: language= one of {', '.join(self.languages)}")
        return language

    def _refuse_untagged(self, language: str | None) -> None:
        """Reject a language that a tagger lacks: a tagger may have fewer languages than its pair."""
        if not self.embeddings and language is not None and language not in (self.languages or ()):
            raise ValueError(f"this head tags {', '.join(self.languages or ())} only, not {language!r}")
