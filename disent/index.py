"""Search texts by shape (template), values (residual) or meaning, by the embeddings of a model; group them by shape."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, cast, overload

from disent.extras import needing_extra
from disent.home import expanded
from disent.model import Model, load, opened, recorded_model
from disent_core.embedding_names import ALIASES, ByEmbedding, embedding_of, plain_word
from disent_core.errors import DisentError, TrainingError, commas, located
from disent_core.text import is_whole, listed_texts, normalise, text_keys

if TYPE_CHECKING:
    import numpy as np

    from disent_core.encoders.contract import Device
    from disent_core.search.build import Added
    from disent_core.search.contents import EngineChoice, HeadRecord
    from disent_core.search.memory import MemoryIndex
    from disent_core.search.stored import StoredIndex
    from disent_core.search.texts import Text
    from disent_core.shapes import Shape
    from disent_core.static_model import StaticModel

    AnyModel = Model | StaticModel

Queries = list[str] | tuple[str, ...]


class Hit(NamedTuple):
    """A text found by a search.

    Attributes:
        text: in NFC.
        language: of the text, if the index knows it.
        score: cosine of text and query, exact up to one rounding to float32.
        row: number of the text in the index.
        text_key: of the text, as in the tables of a run.
    """

    text: str
    language: str | None
    score: float
    row: int
    text_key: str


class SearchRequest(TypedDict, total=False):
    """Options of a search; pass them as keywords of `Index.search` and `Index.search_each`.

    Attributes:
        language: of the queries. Required by `other_language`, and by heads that have `languages`.
        other_language: leave out texts in the language of the queries.
        only_language: find only texts in this language.
        except_same_text: leave out the query itself, in any language.
        exact: search exactly, whatever the engine; a search restricted to some languages is always exact.
    """

    language: str | None
    other_language: bool
    only_language: str | None
    except_same_text: bool
    exact: bool


class Index:
    """Texts with their vectors from one model, either static or a head.

    `Index.of` makes one in memory; `Index.build` and `disent index` make one on disk, which `Index.open` opens. A score
    depends only on the two texts: not on the other texts, how they were added, or the number of threads.

    Attributes:
        folder: the folder of the index; None if it is in memory.
        embeddings: embeddings to search by, such as `meaning`, `template` and `residual`.
        engine: `exact`, or faiss's `hnsw` or `ivf`.
        recall: by embedding, the share of the ten exactly nearest texts that the engine found when the index was made;
            empty for exact search.
        texts: the text of each row.
        languages: the language of each row; None where it is not known.
    """

    def __init__(
        self,
        stored: "StoredIndex | MemoryIndex",
        model: "str | Path | AnyModel | None",
        options: "Loading | None" = None,
    ) -> None:
        self._stored, self._source, self._options = stored, model, options or Loading()
        self.folder: Path | None = stored.folder
        self.embeddings: tuple[str, ...] = stored.embeddings
        approximate = stored.approximate
        self.engine: str = "exact" if approximate is None else approximate.engine
        self.recall: Mapping[str, float] = {} if approximate is None else approximate.recall_at_10
        self.texts: Sequence[str] = stored.texts
        self.languages: Sequence[str | None] = stored.languages

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        place = "in memory" if self.folder is None else repr(str(self.folder))
        return f"Index({place}, {len(self)} texts, {self.head_title!r}, {[*map(plain_word, self.embeddings)]})"

    @classmethod
    def of(
        cls,
        texts: Iterable[str],
        model: "AnyModel | str | Path | None" = None,
        *,
        language: str | Sequence[str | None] | None = None,
        embeddings: Sequence[str] | None = None,
    ) -> "Index":
        """Make an index in memory. A static model needs only numpy.

        Args:
            texts: a list, an array or any other iterable; texts may repeat. `Hit.row` counts them from 0.
            model: from `load`, or its name or path; None: the model `small`.
            language: of all texts, or of each.
            embeddings: embeddings to search by; None: all that the model has.

        Raises:
            ValueError: if a text is not a str, the numbers of texts and languages differ, or the model does not embed
                each text by itself or has no such embedding.
        """
        from disent_core.search.memory import MemoryIndex

        loaded = _small() if model is None else opened(model)
        names = require_vectors(loaded, embeddings)
        listed = [normalise(text) for text in listed_texts(texts)]
        languages = [language] * len(listed) if isinstance(language, str | None) else [*language]
        if len(languages) != len(listed):
            raise ValueError(
                f"{len(listed)} texts and {len(languages)} languages; give one language, or None, for each text"
            )
        vectors = _encoded_by_language(loaded, listed, languages)
        return cls(MemoryIndex(listed, languages, {name: vectors[name] for name in names}, _title(loaded)), loaded)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        head: "str | Path | AnyModel | None" = None,
        encoder: str | Path | None = None,
        device: "Device" = "auto",
        methods: Collection[str] = (),
    ) -> "Index":
        """Open an index. Indexes from untrusted sources are safe to open.

        Args:
            folder: where it lies.
            head: its model or the model's path, if the model has moved since the index was made.
            encoder: folder of the head's encoder, if that has moved.
            device: where queries are encoded.
            methods: as for `disent.load`: modules of your own that the head may name.

        Raises:
            TableError: if there is no index there.
            DamagedError: if one of its files is missing or damaged.
        """
        with needing_extra("cli"):
            from disent_core.search.stored import open_index

        options: Loading = {"encoder": encoder, "device": device, "methods": methods}
        return cls(open_index(expanded(folder)), head, options)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        model: "AnyModel | str | Path",
        texts: Iterable[str],
        *,
        language: str | None = None,
        embeddings: Sequence[str] | None = None,
        engine: "EngineChoice | None" = None,
    ) -> "Index":
        """Add texts to an index, creating it if needed. Only new texts are encoded.

        Args:
            folder: of the index; it may be new.
            model: of `load`, or its name or path.
            texts: of one language.
            language: of the texts.
            embeddings: embeddings to search by; None: those the index already has or, if it is new, all.
            engine: `exact`, `hnsw` or `ivf` (faiss), or `auto`: exact below a million texts, then `ivf` if faiss is
                installed. None: the engine chosen before or, if the index is new, `auto`.

        Raises:
            ValueError: if the model does not embed each text by itself or has no such embedding, or there are no texts.
            TableError: if the folder holds something else, or an index of another head or with other embeddings.
            ModuleNotFoundError: if the extra `cli` is not installed, or `train` for a head, or `faiss` for the engine.
            CorpusError: if a text is blank, too long or has reserved characters.
        """
        with needing_extra("cli"):
            from disent_core.search.contents import ENGINES
            from disent_core.search.texts import checked_texts

        if engine not in (None, *ENGINES):
            raise ValueError(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}")
        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts, not one text")
        loaded, remaining = opened(model), iter(texts)
        if (first := next(remaining, None)) is None:
            raise ValueError("there are no texts")
        checked = checked_texts(chain([first], remaining), language, needed_languages(loaded))
        path = expanded(folder)
        add(path, loaded, checked, embeddings=embeddings, engine=engine)
        return cls.open(path, head=loaded)

    @property
    def head_title(self) -> str:
        """The model in words: `facet on minilm, en-de, seed 0`."""
        return self._stored.title

    @cached_property
    def model(self) -> "AnyModel":
        """The model that made the index, loaded on first use.

        Raises:
            TrainingError: if the model has moved, or is no longer the same one.
            EncoderError: if its encoder can't be loaded.
        """
        if self.folder is None:
            return cast("AnyModel", self._source)
        record = cast("StoredIndex", self._stored).contents.head
        return _model(self.folder, record, self._source, **self._options)

    @overload
    def search(self, texts: str, by: str | None = None, k: int = 10, **request: Unpack[SearchRequest]) -> list[Hit]: ...
    @overload
    def search(
        self, texts: Queries, by: str | None = None, k: int = 10, **request: Unpack[SearchRequest]
    ) -> list[list[Hit]]: ...
    def search(
        self, texts: str | Queries, by: str | None = None, k: int = 10, **request: Unpack[SearchRequest]
    ) -> list[Hit] | list[list[Hit]]:
        """Find the texts that are nearest to a query.

        Args:
            texts: a query, or a list of queries of one language.
            by: `shape` (or `template`), `values` (or `residual`) or `meaning`; the name of any other embedding of
                `embeddings`. None: the meaning or, without it, the first embedding.
            k: hits per query; fewer if the index has fewer.
            **request: `language`, `other_language`, `only_language`, `except_same_text` and `exact`; see
                `SearchRequest`.

        Returns:
            The hits of a query, by descending score, ties by row; for a list of queries, a list of these.

        Raises:
            ValueError: if the index has no such embedding, a query is blank, or a language is missing.
            TrainingError, EncoderError: as `model`.
            TableError: if texts were added since the index was opened and a required file is gone.
            DamagedError: if a file of the index is missing or damaged.
        """
        name = self._embedding(by)
        answers = self.search_each([texts] if isinstance(texts, str) else texts, [name], k, **request)[name]
        return answers[0] if isinstance(texts, str) else answers

    def search_each(
        self, texts: Sequence[str], by: Sequence[str], k: int = 10, **request: Unpack[SearchRequest]
    ) -> dict[str, list[list[Hit]]]:
        """Find the texts that are nearest to each query by several embeddings; the queries are encoded once.

        Args:
            texts: queries of one language.
            by: names of embeddings.
            k: as in `search`.
            **request: as in `search`.

        Returns:
            Maps each name in `by` to the hits of each query, as `search` returns them.

        Raises:
            ValueError, TypeError: as `search`.
        """
        if unknown := sorted(request.keys() - SearchRequest.__annotations__.keys()):
            raise TypeError(f"unexpected: {commas(unknown)}; choose from {commas(SearchRequest.__annotations__)}")
        names = {name: self._embedding(name) for name in by}
        if not is_whole(k, least=1):
            raise ValueError(f"k is {k!r}; it must be a whole number, at least 1")
        queries = [normalise(text) for text in listed_texts(texts)]
        if not queries or not all(query.strip() for query in queries):
            raise ValueError("there is no query" if not queries else "a query is empty")
        keep = self._language_filter(request)
        vectors, keys = encoded(self.model, queries, request.get("language")), text_keys(queries)
        without = keys if request.get("except_same_text") else None
        count, is_exact = min(k, max(1, len(self))), request.get("exact", False)
        answers: dict[str, list[list[Hit]]] = {}
        for name, embedding in names.items():
            nearest = self._stored.nearest(
                vectors[embedding], embedding, count, keep=keep, without=without, is_exact=is_exact
            )
            # A query with fewer than k hits has rows of -1 at its end.
            answers[name] = [
                [self._hit(score, int(row)) for score, row in zip(*pair, strict=True) if row >= 0]
                for pair in zip(*nearest, strict=True)
            ]
        return answers

    @cached_property
    def noise(self) -> Mapping[str, float]:
        """The cosine that a hit must exceed to match, by embedding: 95 % of texts of random letters do not exceed it.

        `shape` and `values` are keys too. An index on disk stores it, unless texts were added by a version that did not
        measure it, or measuring it was interrupted.
        """
        if (known := self._stored.noise) is not None:
            return ByEmbedding(known)
        if not len(self):
            return ByEmbedding.fromkeys(self.embeddings, 0.0)
        from disent_core.search.noise import noise_levels

        def nearest(texts: list[str]) -> dict[str, list[float]]:
            hits_of = self.search_each(texts, self.embeddings, 1, language=self.languages[0])
            return {name: [hits[0].score for hits in of_texts] for name, of_texts in hits_of.items()}

        return ByEmbedding(noise_levels(nearest))

    def vectors(self, by: str | None, rows: Sequence[int]) -> "np.ndarray":
        """Return vectors of texts of the index, scaled to norm 1, float32 [rows, dim].

        Args:
            by: as in `search`.
            rows: row numbers of the texts, as in `Hit.row`.

        Raises:
            ValueError: if the index has no such embedding.
            IndexError: if there is no such row.
            TableError, DamagedError: as `search`.
        """
        import numpy as np

        name, chosen = self._embedding(by), np.array(rows, dtype=np.int64)
        if ((chosen < 0) | (chosen >= len(self))).any():
            raise IndexError(f"the index has rows 0 to {len(self) - 1}")
        return self._stored.units(name, chosen)

    def _language_filter(self, request: SearchRequest) -> "Callable[[str | None], bool] | None":
        """Return a predicate for the languages to search; None if all are searched."""
        language, only = request.get("language"), request.get("only_language")
        others = request.get("other_language", False)
        if others and language is None:
            raise ValueError("other_language= needs the language of the query: language=")
        known = set(filter(None, self._stored.spoken))
        if (others or only is not None) and not known:
            raise ValueError("no text of this index has a language; name it when texts are indexed (language)")
        if only is not None and only not in known:
            raise ValueError(f"the index has no text in {only!r}; it has {', '.join(sorted(known))}")
        if not others and only is None:
            return None
        return lambda spoken: not (others and spoken == language) and only in (None, spoken)

    def _hit(self, score: float, row: int) -> Hit:
        return Hit(self.texts[row], self.languages[row], float(score), row, self._stored.keys[row].decode())

    def _embedding(self, name: str | None) -> str:
        if not self.embeddings:
            raise ValueError("this index has no texts")
        try:
            return embedding_of(name, self.embeddings, f"this index ({self.head_title})")
        except ValueError:
            if is_without_slots(self):
                self.model._embedding(name)
            raise


class _ModelAndRequest(SearchRequest, total=False):
    model: "AnyModel | str | Path | None"


@overload
def search(
    texts: str, among: Iterable[str], by: str | None = None, k: int = 10, **options: Unpack[_ModelAndRequest]
) -> list[Hit]: ...
@overload
def search(
    texts: Queries, among: Iterable[str], by: str | None = None, k: int = 10, **options: Unpack[_ModelAndRequest]
) -> list[list[Hit]]: ...
def search(
    texts: str | Queries,
    among: Iterable[str],
    by: str | None = None,
    k: int = 10,
    *,
    model: "AnyModel | str | Path | None" = None,
    **request: Unpack[SearchRequest],
) -> list[Hit] | list[list[Hit]]:
    """Find the texts nearest to a query, by shape, values or meaning.

    To search the same texts again, make an index of them once: `Index.of(among, model)`.

    Args:
        texts: a query, or a list of queries.
        among: the texts to search.
        by: `shape`, `values` or `meaning`, as in `Index.search`.
        k: hits per query.
        model: of `load`, or a name or path for it; None: the model `small`.
        **request: see `SearchRequest`.

    Returns:
        As `Index.search`; `Hit.row` is the number of the text in `among`, from 0.

    Raises:
        ValueError: as `Index.of` and `Index.search`.
    """
    return Index.of(among, model).search(texts, by, k, **request)


@cache
def _small() -> "StaticModel":
    return load()


def shapes(
    texts: Iterable[str],
    model: Any = None,
    *,
    earlier: Iterable[str] | None = None,
    threshold: float | None = None,
    show_progress: bool = False,
) -> "list[Shape]":
    """Group texts of one or several languages by their shape, as patterns with proposed slots.

    Args:
        texts: the texts of a log; repeated texts count.
        model: what `load` returns, or a name or path for it; None: the model `small`.
        earlier: texts of an earlier log, to tell new shapes from known ones; both logs are grouped together.
        threshold: least mean cosine of shapes at which wordings share a group; None: 0.7.
        show_progress: show on stderr how many texts are encoded, and the time left.

    Returns:
        The groups, the largest first; see `disent_core.shapes`.

    Raises:
        ValueError: if the model has no shape, a text is not a string, or the threshold is out of range.
    """
    from disent_core.shapes import THRESHOLD, shapes

    loaded = opened(model)

    def encode(listed: Sequence[str]) -> "np.ndarray":
        return loaded.encode(listed, "shape", normalize=True, show_progress=show_progress)

    known = None if earlier is None else listed_texts(earlier)
    return shapes(listed_texts(texts), encode, earlier=known, threshold=THRESHOLD if threshold is None else threshold)


# --- models ---


class Loading(TypedDict, total=False):
    """Options of `load` for heads."""

    encoder: str | Path | None
    device: "Device"
    methods: Collection[str]


def needed_languages(model: "AnyModel") -> tuple[str, ...] | None:
    """Return the languages from which a text's must be named; None if a text's language does not matter."""
    return model.languages if isinstance(model, Model) else None


def encoded(model: "AnyModel", texts: Sequence[str], language: str | None) -> "dict[str, np.ndarray]":
    """Embed texts of one language; pass the language only to a model that needs it."""
    if needed_languages(model) is None:
        return model.encode_all(texts)
    return cast(Model, model).encode_all(texts, language=language)


def _encoded_by_language(
    model: "AnyModel", texts: Sequence[str], languages: Sequence[str | None]
) -> "dict[str, np.ndarray]":
    if needed_languages(model) is None or not texts:
        return model.encode_all(texts)
    import numpy as np

    rows = {language: [row for row, of_row in enumerate(languages) if of_row == language] for language in {*languages}}
    parts = [encoded(model, [texts[row] for row in chosen], language) for language, chosen in rows.items()]
    back = np.argsort(np.concatenate(list(rows.values())))
    return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}


def is_without_slots(index: Index) -> bool:
    """Whether the model of an index has neither shape nor values because its training texts had no slots."""
    if not index.embeddings or {*ALIASES.values()} & {*index.embeddings}:
        return False
    try:
        model = index.model
    except (DisentError, ModuleNotFoundError):  # the search does without the model, or reports its error later
        return False
    if isinstance(model, Model):
        return model.embeddings != model._head.method.embeddings
    return not model.header.named_parts


def index_model(folder: Path, **options: Unpack[Loading]) -> "AnyModel":
    """Load the model that made an index, or `small` if there is no index yet; the index's texts may be damaged."""
    from disent_core.search.contents import read_contents

    contents = read_contents(folder)
    return load() if contents is None else _model(folder, contents.head, None, **options)


def _model(
    folder: Path, record: "HeadRecord", model: "str | Path | AnyModel | None", **options: Unpack[Loading]
) -> "AnyModel":
    """Load the model of an index unless it is loaded already, and check that it is the one that made the index."""
    what = "head" if record.encoder else "model"
    if model is None:
        model = recorded_model(folder, record.places, () if record.encoder else (record.name,))
        if model is None:
            missing = "is not where it was" if record.places else "was not loaded from a file"
            problem = f"its {what} ({record.title}) {missing}"
            raise TrainingError(located(folder, None, problem, "Name it as head="))
    if isinstance(model, str | Path):
        model = load(model, seed=record.seed, **options)
    if not head_record(model).is_same(record):
        problem = f"its {what} is not the one that made this index ({record.title})"
        raise TrainingError(located(folder, None, problem, "Name the right one as head=, or index again"))
    return model


def add(folder: Path, model: "AnyModel", texts: "Iterable[Text]", **options: Any) -> "Added":
    """Add texts to an index, creating it if needed; options are those of `disent_core.search.build.add_texts`."""
    from disent_core.search.build import add_texts

    names = require_vectors(model, options.get("embeddings"))
    if options.get("embeddings") is not None:  # otherwise keep those that the index has
        options["embeddings"] = names
    record = head_record(model, folder)
    return add_texts(folder, record, lambda block, language: encoded(model, block, language), texts, **options)


def chosen_embeddings(model: "AnyModel", name: str | None) -> list[str]:
    """Return the embeddings that a command asks for: the named one, `all`, or by default the meaning or the first."""
    return require_vectors(model, None if name == "all" else [name])


def require_vectors(model: "AnyModel", embeddings: Sequence[str | None] | None) -> list[str]:
    """Return the requested embeddings (None: all); reject a model whose vector of a text depends on other texts."""
    if isinstance(model, Model):
        method = model.description["name"]
        if not model.embeddings:
            raise ValueError(f"{method} tags the slots of sentences and does not embed")
        if not model.is_of_one_text:
            problem = f"{method} subtracts the mean of all texts that are encoded together"
            raise ValueError(f"{problem}; use a head that does not")
    names = model.embeddings if embeddings is None else embeddings
    return list(dict.fromkeys(map(model._embedding, names)))


def _title(model: "AnyModel") -> str:
    if isinstance(model, Model):
        return str(model.description["name"])
    return str(model.description.get("name", "static model"))


def head_record(model: "AnyModel", index: Path | None = None) -> "HeadRecord":
    """Describe a model and, for an index, its path relative to the index."""
    from disent_core.search.contents import HeadRecord

    path = None if model.path is None else model.path.resolve()
    places = () if path is None or index is None else (os.path.relpath(path, index.resolve()),)
    if isinstance(model, Model):
        names = ("name", "encoder", "encoder_fingerprint", "trained_on")
        described = {name: str(model.description.get(name, "")) for name in names}
        return HeadRecord(fingerprint=model.fingerprint, seed=model.seed, places=places, **described)
    header = model.header
    return HeadRecord(
        fingerprint=model.fingerprint,
        encoder_fingerprint=f"{header.table_rows} rows, seed {header.seed}, norm {header.unseen}",
        seed=None,
        name=_title(model),
        encoder="",
        trained_on=", ".join(model.languages),
        places=places,
    )
