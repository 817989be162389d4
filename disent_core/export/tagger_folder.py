"""Write a head that tags slots as a folder of transformers: a model for token classification.

The tag of a word is that of its first sub-word, and words beyond the encoder's longest input are outside.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from disent_core.errors import DamagedError, located
from disent_core.experiment.saved_heads import SavedHead
from disent_core.export.card import Measured, tagger_card
from disent_core.export.comparing import (
    TOLERANCE,
    Vectors,
    described,
    difference_of,
    require_equal,
    without_graph,
)
from disent_core.export.encoder import ExportedEncoder, exported_tagger_encoder
from disent_core.export.onnx_graph import GRAPH, TaggerGraph, open_graph, write_graph
from disent_core.export.probes import SENTENCES
from disent_core.export.record import CARD, write_record
from disent_core.export.routes import refusal
from disent_core.export.saved_folder import index_weights
from disent_core.export.transformers_folder import forget_origin, quiet
from disent_core.heads.families.tagger import TrainedTaggers
from disent_core.heads.token_classification import TokenTagger
from disent_core.storage.atomic import atomic_path

Run = Callable[[Mapping[str, np.ndarray]], Float[np.ndarray, "texts tokens tags"]]
"""Logits of tokens from `input_ids` and `attention_mask`."""


def write_tagger(
    head: SavedHead, folder: Path, *, seed: int | None, measured: Sequence[Measured], onnx: bool
) -> tuple[tuple[str, ...], float, float | None]:
    """Write a folder that `AutoModelForTokenClassification.from_pretrained` loads; it appears whole or not at all.

    Returns:
        The tags; the largest difference to the head's own logits, as a share of the largest; the same of the graph.

    Raises:
        TrainingError: if no model of transformers computes its tags, or not as a graph.
    """
    tagger = _token_tagger(head, seed)
    encoder = exported_tagger_encoder(head, tagger.encoder.model)
    model = _model(head, tagger, encoder)
    with quiet():
        own = _own_logits(tagger)
    with atomic_path(folder.resolve()) as temporary:
        with quiet():
            model.save_pretrained(temporary)
            encoder.tokeniser.save_pretrained(temporary)
        forget_origin(temporary / "config.json", temporary / "tokenizer_config.json")
        limit = encoder.config.max_length
        difference = difference_of(own, _logits(temporary, _run_model(load_tagger(temporary)), SENTENCES, limit))
        if not difference <= TOLERANCE:
            raise refusal(head, f"its logits would differ by {difference:.1e} of their largest value")
        graph_difference = _write_graph(temporary, head, own, model, limit) if onnx else None
        probes = {"texts": SENTENCES, "vectors": {"logits": own["logits"].tolist()}}
        record = described(head, seed, encoder, measured) | {"tags": tagger.classes, "probes": probes}
        write_record(temporary, {**record, "weights": index_weights(temporary, head, seed)})
        (temporary / CARD).write_text(tagger_card(head, seed, measured, onnx=onnx), encoding="utf-8")
    return tagger.classes, difference, graph_difference


def check_tagger(folder: Path, record: Mapping[str, Any]) -> bool | None:
    """Compare the logits of a folder, whose files have been checked, with those at the export.

    Returns:
        Whether its ONNX graph was run; None if it has none.

    Raises:
        DamagedError: if they are others.
    """
    own = {"logits": np.asarray(record["probes"]["vectors"]["logits"], dtype=np.float32)}
    texts, limit = record["probes"]["texts"], record["encoder"]["max_length"]
    difference = difference_of(own, _logits(folder, _run_model(load_tagger(folder)), texts, limit))
    require_equal(folder, difference, "torch and transformers")
    graph = find_spec("onnxruntime") is not None if (folder / GRAPH).is_file() else None
    if graph:
        require_equal(
            folder / GRAPH, difference_of(own, _logits(folder, _run_graph(folder), texts, limit)), "onnxruntime"
        )
    return graph


def load_tagger(folder: Path) -> nn.Module:
    """Load the model of a folder.

    Raises:
        DamagedError: if it can't be loaded.
    """
    from transformers import AutoModelForTokenClassification

    try:
        with quiet():
            return AutoModelForTokenClassification.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        problem = f"this can't be loaded ({error})"
        raise DamagedError(located(folder, None, problem, "Export the head again")) from error


def _token_tagger(head: SavedHead, seed: int | None) -> TokenTagger:
    trained = head.trained
    tagger = trained.tagger(seed) if isinstance(trained, TrainedTaggers) else None
    if not isinstance(tagger, TokenTagger):
        raise refusal(head, "it tags spans, each by two runs of the encoder, and transformers' models tag tokens")
    return tagger


def _model(head: SavedHead, tagger: TokenTagger, encoder: ExportedEncoder) -> Any:
    """The encoder with a linear layer, as the class that transformers has for it."""
    from transformers import AutoModelForTokenClassification

    config = deepcopy(encoder.model.config)
    config.id2label = dict(enumerate(tagger.classes))
    config.label2id = {tag: number for number, tag in config.id2label.items()}
    name = type(encoder.model).__name__
    try:
        model = AutoModelForTokenClassification.from_config(config)
    except ValueError as error:
        raise refusal(head, f"transformers has no token classification with a {name}") from error
    missing = model.base_model.load_state_dict(encoder.model.state_dict(), strict=False).missing_keys
    layer = getattr(model, "classifier", None)
    if missing or not isinstance(layer, nn.Linear) or layer.weight.shape != tagger.linear.weight.shape:
        raise refusal(head, f"transformers' token classification with a {name} is more than a linear layer")
    layer.load_state_dict(tagger.linear.state_dict())
    return model.eval()


@torch.no_grad()
def _own_logits(tagger: TokenTagger) -> Vectors:
    return {"logits": tagger.eval()(tagger.read(SENTENCES)).numpy()}


def _logits(folder: Path, run: Run, sentences: Sequence[Sequence[str]], max_length: int) -> Vectors:
    """Logits of all words that have a sub-word, as the lines of the card compute them, a sentence at a time."""
    from transformers import AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    rows: list[np.ndarray] = []
    for words in sentences:
        inputs = tokeniser(
            list(words), is_split_into_words=True, truncation=True, max_length=max_length, return_tensors="np"
        )
        numbers = inputs.word_ids()
        first = [at for at, word in enumerate(numbers) if word is not None and word not in numbers[:at]]
        rows.append(run({name: inputs[name].astype(np.int64) for name in TaggerGraph.inputs})[0][first])
    return {"logits": np.concatenate(rows).astype(np.float32)}


def _run_model(model: Any) -> Run:
    @torch.no_grad()
    def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        return model(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()

    return run


def _run_graph(folder: Path) -> Run:
    session = open_graph(folder)
    return lambda inputs: session.run(["logits"], dict(inputs))[0]


def _write_graph(folder: Path, head: SavedHead, own: Vectors, model: nn.Module, max_length: int) -> float:
    from torch.onnx import OnnxExporterError

    try:
        write_graph(TaggerGraph(model), folder / GRAPH)
        difference = difference_of(own, _logits(folder, _run_graph(folder), SENTENCES, max_length))
    except (OnnxExporterError, ValueError, RuntimeError) as error:
        raise without_graph(head, str(error).partition("\n")[0]) from error
    if not difference <= TOLERANCE:
        raise without_graph(head, f"its logits would differ by {difference:.1e} of their largest value")
    return difference
