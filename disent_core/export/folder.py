"""Export a head as a folder.

The output of a folder and of its ONNX graph on a few texts must be that of the head itself.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from disent_core.embedding_names import ALIASES
from disent_core.encoders.checkpoint import load_tokeniser
from disent_core.encoders.kinds.huggingface import PACKAGE_PREFIX, HuggingFaceConfig, Precision
from disent_core.errors import TrainingError, located
from disent_core.export.card import Measured, Rounding, card, outside_of_graph
from disent_core.export.encoder import ExportedEncoder, cut_encoder, exact_encoder, exported_encoder
from disent_core.export.onnx_graph import GRAPH, Graph, TaggerGraph, graph_vectors, open_graph, write_graph
from disent_core.export.routes import Routes, refusal, routes_of
from disent_core.export.saved_folder import CARD, index_weights, write_record
from disent_core.export.transformers_folder import (
    Vectors,
    folder_vectors,
    forget_origin,
    load_folder,
    loadable,
    quiet,
    write_folder,
)
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.families.tagger import TrainedTaggers
from disent_core.methods.spec import ENCODER_CONFIG, learned_embedding
from disent_core.methods.twosl_head import TokenTagger
from disent_core.storage.files import atomic_path
from disent_core.training.data import features_of, words_alone
from disent_core.training.needs import Need

PROBES = (
    "",
    "a",
    "wake me up at nine on friday",
    "weck mich am freitag um neun auf",
    "despiértame el viernes a las nueve",
    "金曜日の九時に起こして",
    "Play 'So What' (live), please!",
    " ".join(["what is the weather in rome"] * 40),
)
"""Texts whose vectors a folder must reproduce: empty, short, in several scripts, longer than an encoder reads."""
SENTENCES = (*(tuple(text.split()) for text in PROBES if text), tuple("金曜日の九時"))
"""Sentences whose tags a folder must reproduce: the words of the probes, and the characters of one."""

TOLERANCE = 2e-6  # largest difference from the head's own vectors, as a share of their largest value


def difference_of(expected: Vectors, vectors: Vectors) -> float:
    """Return the largest difference of any route, as a share of its largest expected value."""
    return max(float(np.abs(matrix - vectors[name]).max() / max(np.abs(matrix).max(), 1e-12))
               for name, matrix in expected.items())  # fmt: skip


@dataclass(frozen=True)
class _Probes:
    """Texts with the head's own output.

    A subclass computes the largest `difference` of a folder's output, the module that becomes its ONNX `graph`, and the
    `graph_difference` of that graph's output.
    """

    what: ClassVar[str]  # name of the output in messages
    library: ClassVar[str]  # library that computes it
    texts: Sequence[Any]  # for a tagger, sentences as lists of words
    vectors: Vectors  # the head's own output
    max_length: int | None  # most tokens of a text that the encoder reads; None without an encoder


class VectorProbes(_Probes):
    """Texts with their vectors by route."""

    what, library = "vectors", "torch and sentence-transformers"

    def difference(self, folder: Path) -> float:
        return difference_of(self.vectors, folder_vectors(folder, self.texts, list(self.vectors)))

    def graph(self, folder: Path) -> Graph:
        return Graph(load_folder(folder))

    def graph_difference(self, folder: Path) -> float:
        """Return the largest difference over batches of several shapes."""
        batches = graph_vectors(folder, self.texts, self.max_length)
        return max(difference_of({name: self.vectors[name][rows] for name in self.vectors}, of_graph)
                   for rows, of_graph in batches)  # fmt: skip


class TaggerProbes(_Probes):
    """Sentences with the logits of their words."""

    what, library = "logits", "torch and transformers"

    def difference(self, folder: Path) -> float:
        model = _load_tagger(folder)

        @torch.no_grad()
        def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
            return model(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()

        return self._difference(folder, run)

    def graph(self, folder: Path) -> TaggerGraph:
        return TaggerGraph(_load_tagger(folder))

    def graph_difference(self, folder: Path) -> float:
        session = open_graph(folder)
        return self._difference(folder, lambda inputs: session.run(["logits"], dict(inputs))[0])

    def _difference(
        self, folder: Path, run: Callable[[Mapping[str, np.ndarray]], Float[np.ndarray, "texts tokens tags"]]
    ) -> float:
        """Compare the logits of all words that have a sub-word, one sentence at a time, like the code on the card."""
        tokeniser = load_tokeniser(folder)
        options = {"is_split_into_words": True, "truncation": True, "max_length": self.max_length}
        rows: list[np.ndarray] = []
        for words in self.texts:
            inputs = tokeniser(list(words), **options, return_tensors="np")
            numbers = inputs.word_ids()
            first = [at for at, word in enumerate(numbers) if word is not None and word not in numbers[:at]]
            rows.append(run({name: inputs[name].astype(np.int64) for name in TaggerGraph.inputs})[0][first])
        return difference_of(self.vectors, {"logits": np.concatenate(rows).astype(np.float32)})


# --- writing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exported:
    folder: Path
    routes: Routes
    difference: float  # largest difference from the head's vectors in float32, as a share of their largest value
    graph_difference: float | None = None  # the same for its ONNX graph; None if it has none
    tags: tuple[str, ...] = ()  # tags of a tagger, which has no routes
    rounding: Rounding | None = None  # difference of the head in its own number format; None if that is float32


def export_head(
    head: SavedHead,
    folder: Path,
    *,
    seed: int | None,
    embeddings: Sequence[str] | None = None,
    measured: Sequence[Measured] = (),
    onnx: bool = False,
    licence: str | None = None,
    made_from: str = "",
) -> Exported:
    """Write a head and its encoder as a folder that `SentenceTransformer(folder)` loads.

    A tagger becomes a folder that transformers' `AutoModelForTokenClassification` loads. The new folder appears whole
    or not at all: before it gets its name it is loaded once, and its vectors must be the head's.

    `embeddings` are the routes to export; None: all that sentence-transformers computes with its own modules or, if
    there are none, all. Others need a module in the folder, and `trust_remote_code=True`. `seed` is None if the method
    is deterministic. With `onnx`, the folder has a graph too. The card has the numbers `measured` and the `licence`;
    None: that of an earlier export of the head, if any. The record keeps `made_from`.
    """
    if folder.exists():
        raise TrainingError(located(folder, None, "this exists already", "Name a new folder"))
    settings: Any = head.settings
    if getattr(settings, "precision", "float32") != "float32":
        settings = replace(settings, precision="float32")
    # On the CPU, with all products in float32.
    trained = replace(head, device="cpu", source=replace(head.source, device="cpu"))
    head = replace(trained, settings=settings)
    if licence is not None:
        head = replace(head, description={**head.description, "licence": licence})
    if head.method.labels and embeddings is not None:
        raise ValueError(f"{head.method.name} tags the slots of sentences and has no embeddings to choose from")
    draft = _tagger(head, seed) if head.method.labels else _embedder(head, seed, embeddings)
    probes = draft.probes
    with atomic_path(folder.resolve()) as temporary:
        draft.write(temporary)
        difference = probes.difference(temporary)
        if not difference <= TOLERANCE:
            raise refusal(
                head, f"its {probes.what} would differ from the head's by {difference:.1e} of their largest value"
            )
        outside = outside_of_graph(head, draft.routes)
        graph_difference = _write_graph(temporary, head, probes, outside) if onnx else None
        rounding = _rounding(trained, seed, draft)
        record = {
            "description": _of_seed(head.description, seed),
            "fingerprint": head.content,
            "seed": seed,
            "made_from": made_from,
            "encoder": draft.encoder.described(),
            "measured": [asdict(row) for row in measured],
            **draft.record,
            "probes": {
                "texts": probes.texts,
                "vectors": {name: matrix.tolist() for name, matrix in probes.vectors.items()},
            },
            "weights": index_weights(temporary, head, seed),
        }
        write_record(temporary, record)
        text = card(head, seed, draft.routes, measured, onnx=onnx, rounding=rounding)
        (temporary / CARD).write_text(text, encoding="utf-8")
    return Exported(folder, draft.routes, difference, graph_difference, draft.tags, rounding)


@dataclass(frozen=True)
class _Draft:
    """A folder to be written: `write` writes the model, `record` is what this kind of folder adds to the record."""

    encoder: ExportedEncoder
    probes: VectorProbes | TaggerProbes
    write: Callable[[Path], None]
    record: Mapping[str, Any]
    routes: Routes
    tags: tuple[str, ...] = ()


def _tagger(head: SavedHead, seed: int | None) -> _Draft:
    tagger = head.trained.tagger(seed) if isinstance(head.trained, TrainedTaggers) else None
    if not isinstance(tagger, TokenTagger):
        raise refusal(head, "it tags spans, each by two runs of the encoder, but transformers' models tag tokens")
    encoder = cut_encoder(head, tagger.encoder.model)
    probes = TaggerProbes(SENTENCES, _logits(tagger), encoder.config.max_length)

    def write(folder: Path) -> None:
        with quiet():
            _model(head, tagger, encoder).save_pretrained(folder)
            encoder.tokeniser.save_pretrained(folder)
        forget_origin(folder)

    return _Draft(encoder, probes, write, {"tags": tagger.classes}, Routes({}), tagger.classes)


@torch.no_grad()
def _logits(tagger: TokenTagger) -> Vectors:
    with quiet():
        return {"logits": tagger.eval()(tagger.read(SENTENCES)).float().numpy()}


def _embedder(head: SavedHead, seed: int | None, embeddings: Sequence[str] | None) -> _Draft:
    encoder = exported_encoder(head, seed)
    for name in embeddings or ():
        if ALIASES.get(name, name) in head.method.embeddings:  # others are routes, or unknown
            learned_embedding(head.method.embeddings, head.description, name)
    routes = routes_of(head, seed, encoder.pooled).learned(head).chosen(embeddings)
    with quiet():
        max_length = encoder.config.max_length if encoder.model is not None else None
        probes = VectorProbes(PROBES, _head_vectors(head, seed, routes), max_length)
    names = ("by_language", "default", "left_out", "needs_code")
    record = {"routes": list(routes.steps), **{name: getattr(routes, name) for name in names}}
    return _Draft(encoder, probes, partial(write_folder, encoder=encoder, routes=routes), record, routes)


def _of_seed(description: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Return the description of a head of one seed, without the path of its encoder."""
    encoder = dict(description[ENCODER_CONFIG])
    if not str(encoder.get("path")).startswith(PACKAGE_PREFIX):
        encoder.pop("path", None)
    seeds = {} if seed is None else {"seeds": [seed]}
    of_seed = description.get("of_seed", {}).get(str(seed))
    return {**description, **seeds, ENCODER_CONFIG: encoder} | ({"of_seed": {str(seed): of_seed}} if of_seed else {})


def _rounding(head: SavedHead, seed: int | None, draft: _Draft) -> Rounding | None:
    """Return the number format of a head, and how far its output is from that in float32.

    None if it computes in float32, or if the format does not change the output.
    """
    config = head.source.saved_config if head.method.reads_encoder else None
    precision: Precision = config.precision if isinstance(config, HuggingFaceConfig) else "float32"
    formats = {precision, getattr(head.settings, "precision", "float32")} - {"auto", "float32"}
    if not formats:
        return None
    if isinstance(head.trained, TrainedTaggers):
        output = _logits(cast("TokenTagger", head.trained.tagger(seed)))
    else:
        with quiet():
            output = _head_vectors(head, seed, draft.routes, precision)
    difference = difference_of(draft.probes.vectors, output)
    return Rounding(" and ".join(sorted(formats)), difference) if difference > TOLERANCE else None


def _head_vectors(head: SavedHead, seed: int | None, routes: Routes, precision: Precision = "float32") -> Vectors:
    """Embed the probes with the head itself; the encoder's states are float32, however they are stored."""
    encoder, trained = exact_encoder(head, precision) if head.method.reads_encoder else None, head.trained
    states = Need.TOKEN_STATES in head.method.needs_of(head.settings)

    def embed(language: str) -> Any:
        if encoder is None:
            features = words_alone(PROBES, language)
        else:
            features = features_of(encoder, PROBES, language, states=states)
        return trained.embed(features, seed)  # pyright: ignore[reportAttributeAccessIssue]

    if routes.by_language:
        return {language: embed(language)["sentence"] for language in routes.steps}
    embedded = embed("")
    return {name: embedded[name] for name in routes.steps}


def _write_graph(folder: Path, head: SavedHead, probes: VectorProbes | TaggerProbes, outside: str) -> float:
    from torch.onnx import OnnxExporterError

    try:
        write_graph(probes.graph(folder), folder / GRAPH, outside)
        difference = probes.graph_difference(folder)
        if not difference <= TOLERANCE:
            raise ValueError(
                f"its {probes.what} would differ from the head's by {difference:.1e} of their largest value"
            )
    except (OnnxExporterError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        problem = f"{head.path}: {head.description['name']} can't be one ONNX graph: {reason}"
        raise TrainingError(f"{problem}. Export it without the graph") from error
    return difference


# --- taggers ----------------------------------------------------------------------------------------------


def _load_tagger(folder: Path) -> nn.Module:
    from transformers import AutoModelForTokenClassification

    with loadable(folder):
        return AutoModelForTokenClassification.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )


def _model(head: SavedHead, tagger: TokenTagger, encoder: ExportedEncoder) -> Any:
    """Build the model of transformers: the encoder with a linear layer."""
    from transformers import AutoModelForTokenClassification

    config = deepcopy(encoder.model.config)
    config.id2label = dict(enumerate(tagger.classes))
    config.label2id = {tag: number for number, tag in config.id2label.items()}
    name = type(encoder.model).__name__
    try:
        model = AutoModelForTokenClassification.from_config(config)
    except ValueError as error:
        raise refusal(head, f"transformers has no token classification for a {name}") from error
    missing = model.base_model.load_state_dict(encoder.model.state_dict(), strict=False).missing_keys
    layer = getattr(model, "classifier", None)
    if missing or not isinstance(layer, nn.Linear) or layer.weight.shape != tagger.linear.weight.shape:
        raise refusal(head, f"transformers' token classification for a {name} is more than a linear layer")
    layer.load_state_dict(tagger.linear.state_dict())
    return model.eval()
