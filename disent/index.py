"""Search texts by the embeddings of a head: by template, residual or meaning."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, overload

from disent.extras import needing_extra
from disent.model import Model, load_head

if TYPE_CHECKING:
    from disent_core.encoders.contract import Device
    from disent_core.search.build import Added
    from disent_core.search.contents import EngineChoice, HeadRecord
    from disent_core.search.stored import StoredIndex
    from disent_core.search.texts import Text


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
    """Texts with their vectors by one head; `Index.open` opens one, `Index.build` and `disent index` make one.

    A score depends on the two texts alone: not on the other texts, on how they were added, or on threads.

    Attributes:
        folder: where it lies.
        embeddings: what a search may go by, such as `meaning`, `template` and `residual`.
        engine: what searches: `exact`, or `hnsw` or `ivf` of faiss.
        recall: share of the ten nearest texts of exact search that the engine found when the index was made, by
            embedding; empty for exact search.
        texts: the text of each row.
        languages: the language of each row; None where it is not known.
    """

    def __init__(self, stored: "StoredIndex", head: "str | Path | Model | None", options: "_Loading") -> None:
        self._stored, self._head, self._options = stored, head, options
        self.folder: Path = stored.folder
        self.embeddings: tuple[str, ...] = tuple(stored.contents.embeddings)
        approximate = stored.contents.approximate
        self.engine: str = "exact" if approximate is None else approximate.engine
        self.recall: Mapping[str, float] = {} if approximate is None else approximate.recall_at_10
        self.texts: Sequence[str] = stored.texts
        self.languages: Sequence[str | None] = stored.languages

    def __len__(self) -> int:
        return self._stored.contents.rows

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self)} texts, {self.head_title!r}, {list(self.embeddings)})"

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        head: "str | Path | Model | None" = None,
        encoder: str | Path | None = None,
        device: "Device" = "auto",
        methods: Collection[str] = (),
    ) -> "Index":
        """Open an index, which may come from anyone.

        Args:
            folder: where it lies.
            head: a model, or the path of its head, if that is no longer where it was when the index was made.
            encoder: folder of the head's encoder, if that has moved.
            device: where queries are encoded.
            methods: as for `disent.load`: modules of your own that the head may name.

        Raises:
            TableError: if there is no index there.
            DamagedError: if one of its files is missing or damaged.
        """
        with needing_extra():
            from disent_core.search.stored import open_index

        options: _Loading = {"encoder": encoder, "device": device, "methods": methods}
        return cls(open_index(Path(folder).expanduser()), head, options)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        model: Model,
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
            ModuleNotFoundError: if the engine needs faiss, which is not installed: `pip install 'disent[faiss]'`.
            CorpusError: if a text is blank, too long or has reserved characters.
        """
        from disent_core.search.texts import checked_texts

        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts, not one text")
        remaining = iter(texts)
        if (first := next(remaining, None)) is None:
            raise ValueError("there are no texts")
        checked = checked_texts(chain([first], remaining), language, model.languages)
        path = Path(folder).expanduser()
        add(path, model, checked, embeddings=embeddings, engine=engine)
        return cls.open(path, head=model)

    @property
    def head_title(self) -> str:
        """The head in words: `facet on minilm, en-de, seed 0`."""
        return self._stored.contents.head.title

    @cached_property
    def model(self) -> Model:
        """The head that made the index, loaded when it is first used.

        Raises:
            TrainingError: if the head is not where it was, or is another one now.
            EncoderError: if its encoder can't be loaded.
        """
        return _model(self.folder, self._stored.contents.head, self._head, **self._options)

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
            by: `template` finds the same shape, `residual` the same values, `meaning` the same meaning. None: the
                meaning, or the first embedding that there is.
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
            For each embedding the hits of each query, as `search` returns them.

        Raises:
            As `search`.
        """
        from disent_core.text import normalise, text_keys

        if unknown := request.keys() - SearchRequest.__annotations__.keys():
            raise TypeError(f"unexpected arguments {sorted(unknown)}; choose from {[*SearchRequest.__annotations__]}")
        names = [self._embedding(name) for name in by]
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        queries = [normalise(text) for text in texts]
        if not queries or not all(query.strip() for query in queries):
            raise ValueError("there is no query" if not queries else "a query is empty")
        keep = self._language_filter(request)
        vectors, keys = self.model.encode_all(queries, language=request.get("language")), text_keys(queries)
        without = keys if request.get("except_same_text") else None
        count, is_exact = min(k, max(1, len(self))), request.get("exact", False)
        answers: dict[str, list[list[Hit]]] = {}
        for name in names:
            nearest = self._stored.nearest(vectors[name], name, count, keep=keep, without=without, is_exact=is_exact)
            # A query with fewer than k hits has rows of -1 at its end.
            answers[name] = [
                [self._hit(score, int(row)) for score, row in zip(*pair, strict=True) if row >= 0]
                for pair in zip(*nearest, strict=True)
            ]
        return answers

    def _language_filter(self, request: SearchRequest) -> "Callable[[str | None], bool] | None":
        """Return whether texts of a language are searched; None if all are."""
        language, only = request.get("language"), request.get("only_language")
        others = request.get("other_language", False)
        if others and language is None:
            raise ValueError("other_language= needs the language of the query: language=")
        known = {part.language for part in self._stored.contents.parts}
        if only is not None and only not in known:
            named = ", ".join(sorted(filter(None, known))) or "none with a language"
            raise ValueError(f"the index has no text in {only!r}; it has {named}")
        if not others and only is None:
            return None
        return lambda spoken: not (others and spoken == language) and only in (None, spoken)

    def _hit(self, score: float, row: int) -> Hit:
        return Hit(self.texts[row], self.languages[row], float(score), row, self._stored.keys[row].decode())

    def _embedding(self, name: str | None) -> str:
        if not self.embeddings:
            raise ValueError("this index has no texts")
        if name is None:
            return "meaning" if "meaning" in self.embeddings else self.embeddings[0]
        if name not in self.embeddings:
            known = ", ".join(self.embeddings)
            raise ValueError(f"this index has no {name!r} ({self.head_title}); choose one of {known}")
        return name


# --- heads ---


class _Loading(TypedDict, total=False):
    """How a head is loaded, as `load_head` takes it."""

    encoder: str | Path | None
    device: "Device"
    methods: Collection[str]


def index_model(folder: Path, **options: Unpack[_Loading]) -> Model:
    """Load the head that made an index, whose texts may be damaged."""
    from disent_core.errors import TableError, located
    from disent_core.search.contents import REMEDY, read_contents

    if (contents := read_contents(folder)) is None:
        raise TableError(located(folder, None, "no index here", REMEDY))
    return _model(folder, contents.head, None, **options)


def _model(folder: Path, record: "HeadRecord", head: "str | Path | Model | None", **options: Unpack[_Loading]) -> Model:
    """Load the head of an index, if it is not loaded yet, and check that it is the one."""
    from disent_core.errors import TrainingError, located
    from disent_core.lineage.head_records import is_there

    if head is None:
        paths = [folder / path for path in record.places]
        head = next(filter(is_there, paths), None)
        if head is None:
            problem = f"its head ({record.title}) {'is not where it was' if paths else 'has no file'}"
            raise TrainingError(located(folder, None, problem, "Name it as head="))
    model = head
    if not isinstance(model, Model):
        model = load_head(Path(model), seed=record.seed, **options)
    if not head_record(model).is_same(record):
        problem = f"its head is not the one that made this index ({record.title})"
        raise TrainingError(located(folder, None, problem, "Name the right one as head=, or index again"))
    return model


def add(folder: Path, model: Model, texts: "Iterable[Text]", **options: Any) -> "Added":
    """Add texts to an index, or make one; options are those of `disent_core.search.build.add_texts`."""
    from disent_core.search.build import add_texts

    require_vectors(model, options.get("embeddings") or ())
    return add_texts(
        folder,
        head_record(model, folder),
        lambda block, language: model.encode_all(block, language=language),
        texts,
        **options,
    )


def chosen_embeddings(model: Model, name: str | None) -> list[str]:
    """Return the embeddings that a command names: one, `all`, or by default the meaning or the first."""
    default = "meaning" if "meaning" in model.embeddings else next(iter(model.embeddings), "")
    names = [*model.embeddings] if name == "all" else [name or default]
    require_vectors(model, names)
    return names


def require_vectors(model: Model, embeddings: Sequence[str]) -> None:
    """Check that a model has these embeddings, and that the vector of a text does not depend on other texts."""
    method = model.description["name"]
    if not model.embeddings:
        raise ValueError(f"{method} tags the slots of sentences and does not embed")
    if not model.is_of_one_text:
        raise ValueError(
            f"{method} subtracts the mean of all texts that are encoded together; use a head that does not"
        )
    if unknown := [name for name in embeddings if name not in model.embeddings]:
        raise ValueError(f"this head has no embedding {unknown[0]!r}; choose one of {', '.join(model.embeddings)}")


def head_record(model: Model, index: Path | None = None) -> "HeadRecord":
    """Describe the head of a model and, for an index, its path relative to the index."""
    from disent_core.search.contents import HeadRecord

    path = None if model.path is None else model.path.resolve()
    names = ("name", "encoder", "encoder_fingerprint", "trained_on")
    return HeadRecord(
        fingerprint=model.fingerprint,
        seed=model.seed,
        places=() if path is None or index is None else (os.path.relpath(path, index.resolve()),),
        **{name: str(model.description.get(name, "")) for name in names},
    )
