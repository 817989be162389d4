"""Search texts by the embeddings of a model: by shape (template), values (residual) or meaning."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, cast, overload

from disent.extras import needing_extra
from disent.model import Model, load, recorded_model
from disent_core.embedding_names import ALIASES, ByEmbedding, embedding_of, plain_word
from disent_core.errors import DisentError, TrainingError, located
from disent_core.text import listed_texts, normalise, text_keys

if TYPE_CHECKING:
    import numpy as np

    from disent_core.encoders.contract import Device
    from disent_core.search.build import Added
    from disent_core.search.contents import EngineChoice, HeadRecord
    from disent_core.search.memory import MemoryIndex
    from disent_core.search.stored import StoredIndex
    from disent_core.search.texts import Text
    from disent_core.static_model import StaticModel

    AnyModel = Model | StaticModel

Queries = list[str] | tuple[str, ...]


class Hit(NamedTuple):
    """A text found by a search.

    Attributes:
        text: in NFC.
        language: of the text, if the index knows it.
        score: cosine of text and query, exact but for one rounding to float32.
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
        language: of the queries. A head that has `languages` and `other_language` need it.
        other_language: leave out texts in the language of the queries.
        only_language: find only texts in this language.
        except_same_text: leave out the query itself, in any language.
        exact: search exactly, whatever the engine; a search in some languages always does.
    """

    language: str | None
    other_language: bool
    only_language: str | None
    except_same_text: bool
    exact: bool


class Index:
    """Texts with their vectors by one model, static or a head.

    `Index.of` makes one in memory, `Index.build` and `disent index` make one on disk, which `Index.open` opens. A score
    depends on the two texts alone: not on the other texts, on how they were added, or on threads.

    Attributes:
        folder: where it lies; None if it is in memory.
        embeddings: what a search may go by, such as `meaning`, `template` and `residual`.
        engine: what searches: `exact`, or `hnsw` or `ivf` of faiss.
        recall: share of the ten nearest texts of exact search that the engine found when the index was made, by
            embedding; empty for exact search.
        texts: the text of each row.
        languages: the language of each row; None where it is not known.
    """

    def __init__(
        self,
        stored: "StoredIndex | MemoryIndex",
        model: "str | Path | AnyModel | None",
        options: "_Loading | None" = None,
    ) -> None:
        self._stored, self._source, self._options = stored, model, options or _Loading()
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
        """Make an index in memory. With a static model numpy suffices.

        Args:
            texts: a list, an array or any other iterable; a text may repeat. `Hit.row` counts them from 0.
            model: of `load`, or a name or path for it; None: the model `small`.
            language: of all texts, or of each.
            embeddings: what a search may go by; None: all that the model has.

        Raises:
            ValueError: if a text is no str, there are other numbers of texts and languages, or the model does not embed
                each text by itself, or has no such embedding.
        """
        from disent_core.search.memory import MemoryIndex

        if model is None or isinstance(model, str | Path):
            model = _small() if model is None else load(model)
        names = require_vectors(model, embeddings)
        listed = [normalise(text) for text in listed_texts(texts)]
        languages = [language] * len(listed) if isinstance(language, str | None) else [*language]
        if len(languages) != len(listed):
            raise ValueError(
                f"{len(listed)} texts and {len(languages)} languages; give each text its language, or None"
            )
        vectors = _encoded_by_language(model, listed, languages)
        return cls(MemoryIndex(listed, languages, {name: vectors[name] for name in names}, _title(model)), model)

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
        """Open an index, which may come from anyone.

        Args:
            folder: where it lies.
            head: its model, or the path of it, if that is no longer where it was when the index was made.
            encoder: folder of the head's encoder, if that has moved.
            device: where queries are encoded.
            methods: as for `disent.load`: modules of your own that the head may name.

        Raises:
            TableError: if there is no index there.
            DamagedError: if one of its files is missing or damaged.
        """
        with needing_extra("cli"):
            from disent_core.search.stored import open_index

        options: _Loading = {"encoder": encoder, "device": device, "methods": methods}
        return cls(open_index(Path(folder).expanduser()), head, options)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        model: "AnyModel",
        texts: Iterable[str],
        *,
        language: str | None = None,
        embeddings: Sequence[str] | None = None,
        engine: "EngineChoice | None" = None,
    ) -> "Index":
        """Add texts to an index, or make one. Only texts that it lacks are encoded.

        Args:
            folder: of the index; it may be new.
            model: of `load`.
            texts: of one language.
            language: of the texts.
            embeddings: what a search may go by; None: what the index has already or, if it is new, all.
            engine: `exact`, `hnsw` or `ivf` (faiss), or `auto`: exact below a million texts, then `ivf` if faiss is
                installed. None: what was chosen before or, if the index is new, `auto`.

        Raises:
            ValueError: if the model does not embed each text by itself, or has no such embedding; if there is no text.
            TableError: if the folder has something else, or an index of another head or with other embeddings.
            ModuleNotFoundError: if the extra `cli` is not installed, or `train` for a head, or `faiss` for the engine.
            CorpusError: if a text is blank, too long or has reserved characters.
        """
        with needing_extra("cli"):
            from disent_core.search.texts import checked_texts

        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts, not one text")
        remaining = iter(texts)
        if (first := next(remaining, None)) is None:
            raise ValueError("there are no texts")
        checked = checked_texts(chain([first], remaining), language, needed_languages(model))
        path = Path(folder).expanduser()
        add(path, model, checked, embeddings=embeddings, engine=engine)
        return cls.open(path, head=model)

    @property
    def head_title(self) -> str:
        """The model in words: `facet on minilm, en-de, seed 0`."""
        return self._stored.title

    @cached_property
    def model(self) -> "AnyModel":
        """The model that made the index, loaded when it is first used.

        Raises:
            TrainingError: if the model is not where it was, or is another one now.
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
                `embeddings`. None: the meaning, or the first embedding that there is.
            k: hits per query; fewer if the index has fewer.
            **request: `language`, `other_language`, `only_language`, `except_same_text` and `exact`; see
                `SearchRequest`.

        Returns:
            The hits of a query, the highest score first, equal ones by row; for a list of queries a list of these.

        Raises:
            ValueError: if the index has no such embedding, a query is blank, or a language is missing.
            TrainingError, EncoderError: as `model`.
            TableError: if texts were added since the index was opened, and a file that is needed is gone.
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
            For each name in `by` the hits of each query, as `search` returns them.

        Raises:
            ValueError, TypeError: as `search`.
        """
        if unknown := request.keys() - SearchRequest.__annotations__.keys():
            raise TypeError(f"unexpected arguments {sorted(unknown)}; choose from {[*SearchRequest.__annotations__]}")
        names = {name: self._embedding(name) for name in by}
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
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
        """The cosine that a hit has to exceed to match, by embedding: 95 of 100 texts of random letters do not.

        `shape` and `values` find it too. An index on disk has it, unless texts were added by a version that did not
        measure it, or it was stopped.
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
            rows: numbers of the texts, as in `Hit.row`.

        Raises:
            ValueError: if the index has no such embedding.
            IndexError: if there is no such row.
            TableError, DamagedError: as `search`.
        """
        import numpy as np

        name, chosen = self._embedding(by), np.array(rows, dtype=np.int64)
        if ((chosen < 0) | (chosen >= len(self))).any():
            raise IndexError(f"the index has the rows 0 to {len(self) - 1}")
        return self._stored.units(name, chosen)

    def _language_filter(self, request: SearchRequest) -> "Callable[[str | None], bool] | None":
        """Return whether texts of a language are searched; None if all are."""
        language, only = request.get("language"), request.get("only_language")
        others = request.get("other_language", False)
        if others and language is None:
            raise ValueError("other_language= needs the language of the query: language=")
        known = set(filter(None, self._stored.spoken))
        if (others or only is not None) and not known:
            raise ValueError("no text of this index has a language; name it where texts are indexed (language)")
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


@overload
def search(
    texts: str,
    among: Iterable[str],
    by: str | None = None,
    k: int = 10,
    *,
    model: "AnyModel | str | Path | None" = None,
    **request: Unpack[SearchRequest],
) -> list[Hit]: ...
@overload
def search(
    texts: Queries,
    among: Iterable[str],
    by: str | None = None,
    k: int = 10,
    *,
    model: "AnyModel | str | Path | None" = None,
    **request: Unpack[SearchRequest],
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
    """Find, among texts, those that are nearest to a query: of the same shape, the same values or the same meaning.

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


# --- models ---


class _Loading(TypedDict, total=False):
    """How a head is loaded, as `load` takes it."""

    encoder: str | Path | None
    device: "Device"
    methods: Collection[str]


def needed_languages(model: "AnyModel") -> tuple[str, ...] | None:
    """Return the languages of which one has to be named with a text; None if a text's language does not matter."""
    return model.languages if isinstance(model, Model) else None


def encoded(model: "AnyModel", texts: Sequence[str], language: str | None) -> "dict[str, np.ndarray]":
    """Embed texts of one language, which is named to a model that needs it."""
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
    """Whether the model of an index has no shape and no values, since its training texts had no slots."""
    if not index.embeddings or {*ALIASES.values()} & {*index.embeddings}:
        return False
    try:
        model = index.model
    except (DisentError, ModuleNotFoundError):  # the index is searched without it, or says then what is wrong with it
        return False
    if isinstance(model, Model):
        return model.embeddings != model._head.method.embeddings
    return not model.header.named_parts


def index_model(folder: Path, **options: Unpack[_Loading]) -> "AnyModel":
    """Load the model that made an index, whose texts may be damaged; the model `small` if there is no index yet."""
    from disent_core.search.contents import read_contents

    contents = read_contents(folder)
    return load() if contents is None else _model(folder, contents.head, None, **options)


def _model(
    folder: Path, record: "HeadRecord", model: "str | Path | AnyModel | None", **options: Unpack[_Loading]
) -> "AnyModel":
    """Load the model of an index, if it is not loaded yet, and check that it is the one."""
    what = "head" if record.encoder else "model"
    if model is None:
        model = recorded_model(folder, record.places, () if record.encoder else (record.name,))
        if model is None:
            problem = f"its {what} ({record.title}) {'is not where it was' if record.places else 'has no file'}"
            raise TrainingError(located(folder, None, problem, "Name it as head="))
    if isinstance(model, str | Path):
        model = load(model, seed=record.seed, **options)
    if not head_record(model).is_same(record):
        problem = f"its {what} is not the one that made this index ({record.title})"
        raise TrainingError(located(folder, None, problem, "Name the right one as head=, or index again"))
    return model


def add(folder: Path, model: "AnyModel", texts: "Iterable[Text]", **options: Any) -> "Added":
    """Add texts to an index, or make one; options are those of `disent_core.search.build.add_texts`."""
    from disent_core.search.build import add_texts

    names = require_vectors(model, options.get("embeddings"))
    if options.get("embeddings") is not None:  # otherwise those that the index has
        options["embeddings"] = names
    record = head_record(model, folder)
    return add_texts(folder, record, lambda block, language: encoded(model, block, language), texts, **options)


def chosen_embeddings(model: "AnyModel", name: str | None) -> list[str]:
    """Return the embeddings that a command names: one, `all`, or by default the meaning or the first."""
    return require_vectors(model, None if name == "all" else [name])


def require_vectors(model: "AnyModel", embeddings: Sequence[str | None] | None) -> list[str]:
    """Return the embeddings that are meant, None all of them; the vector of a text must not depend on other texts."""
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
