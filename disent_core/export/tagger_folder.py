"""Write a head that tags slots as a folder of transformers: a model for token classification.

The tag of a word is that of its first sub-word, and words beyond the encoder's longest input are outside.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from disent_core.errors import DamagedError, located
from disent_core.export.card import Measured, tagger_card
from disent_core.export.comparing import (
    SENTENCES,
    Outputs,
    Vectors,
    Written,
    check_compared,
    described,
    difference_of,
    write_compared,
)
from disent_core.export.encoder import ExportedEncoder, exported_tagger_encoder
from disent_core.export.onnx_graph import TaggerGraph, open_graph
from disent_core.export.routes import refusal
from disent_core.export.transformers_folder import forget_origin, quiet
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.families.tagger import TrainedTaggers
from disent_core.methods.token_classification_head import TokenTagger

Run = Callable[[Mapping[str, np.ndarray]], Float[np.ndarray, "texts tokens tags"]]
"""Logits of tokens from `input_ids` and `attention_mask`."""


def write_tagger(
    head: SavedHead, folder: Path, *, seed: int | None, measured: Sequence[Measured], onnx: bool
) -> tuple[tuple[str, ...], Written]:
    """Write a folder that `AutoModelForTokenClassification.from_pretrained` loads, and return its tags."""
    tagger = _token_tagger(head, seed)
    encoder = exported_tagger_encoder(head, tagger.encoder.model)
    model = _model(head, tagger, encoder)
    with quiet():
        own = _own_logits(tagger)

    def write(path: Path) -> None:
        with quiet():
            model.save_pretrained(path)
            encoder.tokeniser.save_pretrained(path)
        forget_origin(path / "config.json", path / "tokenizer_config.json")

    outputs = replace(_outputs(own, SENTENCES, encoder.config.max_length), graph=lambda folder: TaggerGraph(model))
    probes = {"texts": SENTENCES, "vectors": {"logits": own["logits"].tolist()}}
    record = described(head, seed, encoder, measured) | {"tags": tagger.classes, "probes": probes}
    card = tagger_card(head, seed, measured, onnx=onnx)
    return tagger.classes, write_compared(head, folder, outputs, write, record, card, onnx=onnx)


def check_tagger(folder: Path, record: Mapping[str, Any]) -> bool | None:
    """Compare the logits of a folder with those at the export; see `check_compared`."""
    own = {"logits": np.asarray(record["probes"]["vectors"]["logits"], dtype=np.float32)}
    return check_compared(folder, _outputs(own, record["probes"]["texts"], record["encoder"]["max_length"]))


def _outputs(own: Vectors, sentences: Sequence[Sequence[str]], max_length: int) -> Outputs:
    return Outputs(
        what="logits",
        library="torch and transformers",
        own=own,
        of_folder=lambda folder: _logits(folder, _run_model(load_tagger(folder)), sentences, max_length),
        graph=lambda folder: TaggerGraph(load_tagger(folder)),
        graph_difference=lambda folder: difference_of(own, _logits(folder, _run_graph(folder), sentences, max_length)),
    )


def load_tagger(folder: Path) -> nn.Module:
    """Load the model of a folder."""
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
    """Build the model of transformers: the encoder with a linear layer."""
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
    """Compute the logits of all words that have a sub-word, a sentence at a time, as the code on the card does."""
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
