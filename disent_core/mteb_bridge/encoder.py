"""Present a head as a model of mteb."""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from disent_core.corpora.languages import language_code
from disent_core.embedding_names import embedding_of
from disent_core.evaluation.metrics.ranking import unit_rows
from disent_core.evaluation.tasks.sts import paired_similarity

if TYPE_CHECKING:
    from mteb.models import ModelMeta

REVISION_DIGITS = 12  # digits of the fingerprint of a head's weights


@dataclass(frozen=True)
class Spoken:
    """The languages of the texts of one subset of a task."""

    prompts: Mapping[str, str] = field(default_factory=dict)  # languages of `query` and `document`, in retrieval tasks
    columns: Sequence[tuple[Sequence[str], Sequence[str]]] = ()  # texts with the language of each, in other tasks


def _languages(texts: list[str], metadata: Any, subset: str, prompt: str | None) -> Sequence[str | None]:
    """Return the language of each text as disent names it; None where the task does not specify it.

    Tasks of `mteb_bridge.tasks` do, if necessary by prompt (`query` or `document`), and so do subsets in one language.
    """
    spoken: Spoken = getattr(metadata, "spoken", {}).get(subset, Spoken())
    if prompt is not None and prompt in spoken.prompts:
        return [spoken.prompts[prompt]] * len(texts)
    for column, languages in spoken.columns:
        if list(column) == texts:
            return languages
    scripts = getattr(metadata, "hf_subsets_to_langscripts", {}).get(subset, ())
    codes = {script.partition("-")[0] for script in scripts}
    return [language_code(*codes) if len(codes) == 1 else None] * len(texts)


@runtime_checkable
class Embedder(Protocol):
    """Interface of a head, which `disent.Model` satisfies."""

    embeddings: tuple[str, ...]
    languages: tuple[str, ...] | None
    seeds: tuple[int, ...]
    seed: int | None
    description: Mapping[str, Any]
    fingerprint: str

    def encode(self, texts: Sequence[str], name: str | None = None, /, *, language: str | None = None) -> np.ndarray:
        """Embed texts, float32 [texts, dim]."""
        ...


class DisentEncoder:
    """One embedding of a head as a model of mteb: `mteb.evaluate(DisentEncoder(model, "template"), tasks)`.

    Each embedding of a head is a separate experiment under one name, `disent/METHOD-ENCODER-PAIR`, and the revision is
    the fingerprint of the weights: results are never those of another training. The class has the methods of mteb's
    `EncoderProtocol` without inheriting from it, so that it can be defined where mteb is absent.

    Args:
        model: the head.
        embedding: one of its embeddings; None: the meaning, or its only embedding.
    """

    def __init__(self, model: Embedder, embedding: str | None = None) -> None:
        if not model.embeddings:
            raise ValueError("this head tags slots and has no embedding")
        self.model, self.embedding = model, embedding_of(embedding, model.embeddings, "this head")

    @cached_property
    def mteb_model_meta(self) -> "ModelMeta":
        """Return the name, revision and experiment under which mteb files the results."""
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        description = self.model.description
        names = {"method": description["name"]} | {key: description[key] for key in ("encoder", "trained_on")}
        is_first = self.model.seed is None or self.model.seed == self.model.seeds[0]
        experiment = {"embedding": self.embedding, **({} if is_first else {"seed": self.model.seed})}
        return ModelMeta.create_empty(
            {
                "name": "disent/" + "-".join(filter(None, names.values())),
                "revision": self.model.fingerprint[:REVISION_DIGITS],
                "embed_dim": self._dim,
                "framework": ["PyTorch"],
                "similarity_fn_name": ScoringFunction.COSINE,
                "experiment_kwargs": experiment,
                "loader_kwargs": names,
            }
        )

    @cached_property
    def _dim(self) -> int:
        languages = self.model.languages
        return self.model.encode(["a"], self.embedding, language=languages[0] if languages else None).shape[1]

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        task_metadata: Any,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **options: Any,
    ) -> np.ndarray:
        """Embed the texts of batches, each with a list `text`: float32 [texts, dim].

        The metadata of tasks of `mteb_bridge.tasks` give the language of a text, if necessary by prompt type: query or
        document. The split and other options are not used.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        languages = _languages(texts, task_metadata, hf_subset, getattr(prompt_type, "value", None))
        rows: dict[str | None, list[int]] = defaultdict(list)
        for row, language in enumerate(languages):
            rows[language if language in (self.model.languages or ()) else None].append(row)
        matrix = np.empty((len(texts), self._dim), dtype=np.float32)
        for language, chosen in rows.items():
            matrix[chosen] = self.model.encode([texts[row] for row in chosen], self.embedding, language=language)
        return matrix

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Return the cosines of each row with each row of the other side, float32 [n, m], as disent computes them."""
        left, right = (unit_rows(np.atleast_2d(np.asarray(side)), "mteb") for side in (embeddings1, embeddings2))
        return left @ right.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Return the cosine of each row with its row of the other side, float64 [n], as disent computes it."""
        left, right = (np.atleast_2d(np.asarray(side)) for side in (embeddings1, embeddings2))
        return paired_similarity(left, right)
