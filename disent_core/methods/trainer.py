"""Define the interfaces of computation (a trainer; a trained method, which embeds texts or tags slots), and train.

`train_head` trains a head and writes its files, unless an up-to-date one is on disk.
"""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.methods.contract import Method
from disent_core.methods.spec import (
    ENCODER_CONFIG,
    INITIAL_WEIGHTS,
    MATES,
    METHOD_REFERENCE,
    WARM_START_KEY,
    HeadFiles,
    HeadSpec,
    describe_head,
    learns_from_mates,
    training_cost,
)
from disent_core.progress import Progress
from disent_core.registry import imported
from disent_core.storage.results import none_if_damaged, open_result, remove_result, sole_maker, write_text_result
from disent_core.storage.tables import SCHEMAS, TableInfo, fingerprint, read_info, write_table
from disent_core.storage.weights import refuse_weights, require_shapes
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch, Fit, curve_table

log = logging.getLogger(__name__)

Module = TypeVar("Module", bound=nn.Module)
AnyMethod = TypeVar("AnyMethod", bound=Method[Any])  # a family of methods


class TrainedMethod(ABC):
    """A method after training, with the weights of every seed."""

    @property
    def languages(self) -> Collection[str] | None:
        return None

    @abstractmethod
    def embed(self, features: TextFeatures, seed: int | None) -> Mapping[str, Float[np.ndarray, "texts _"] | Any]:
        """Return by embedding name a matrix with one row per text, in order, or a late interaction of the texts."""


class TrainedLabeller(ABC):
    """A method after training that tags the slots of sentences, with the weights of every seed."""

    @property
    @abstractmethod
    def languages(self) -> Collection[str]:
        """Languages of its training."""

    @abstractmethod
    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """Return a BIO tag for every word of every sentence."""


@dataclass(frozen=True)
class Trainer(ABC, Generic[AnyMethod]):
    """Trains, saves and loads a method; each family of methods has a subclass."""

    method: AnyMethod

    @abstractmethod
    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed of the run with these settings, and yield one epoch at a time."""

    @abstractmethod
    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the best weights of a finished `checkpoint` to `path` and return their fingerprint."""

    @abstractmethod
    def load(
        self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None
    ) -> TrainedMethod | TrainedLabeller:
        """Read what `save` wrote, ready to embed or to label; an untrained method reads nothing from `path`."""


def trainer(method: Method[Any]) -> Trainer[Any]:
    """Return the trainer of a method; this imports the libraries it computes with."""
    return imported(method.trainer)(method)


def filled(path: Path, build: Callable[[], Module], weights: Mapping[str, Tensor]) -> Module:
    """Build a module and load weights into it; check their shapes before the module takes any memory."""
    try:
        with torch.device("meta"):
            wanted = {name: value.shape for name, value in build().state_dict().items()}
    except RuntimeError:  # a user's module that computes while it is built
        wanted = {}
    require_shapes(path, weights, wanted)
    try:
        module = build()
        module.load_state_dict(weights)
    except RuntimeError as error:
        refuse_weights(path, f"its weights do not match its settings ({error})", error)
    return module.eval()


# --- training of a head -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainResult:
    """A trained head on disk.

    `epochs` and `steps` count what this call computed, excluding what a checkpoint replayed; `seconds` covers the whole
    training. `is_reused`: the weights were already on disk. A finished checkpoint gives new weights with 0 steps.
    `initial_weights` is the fingerprint of the weights a warm start began from.
    """

    content: str
    curve: TableInfo
    initial_weights: str | None
    is_reused: bool = False
    epochs: int = 0
    steps: int = 0
    seconds: float = 0.0


def train_head(head: HeadSpec, files: HeadFiles, open_data: Callable[[], TrainingData], *, device: str) -> TrainResult:
    """Train every seed of a head, unless a head with equal inputs is on disk.

    An interrupted run resumes from its checkpoint. The weights are written last, so a head whose weights exist is
    complete. If two runs need the same head, one trains it and the other waits.
    """
    with sole_maker(files.weights):
        return _done(head, files) or _train_head(head, files, open_data, device)


def _done(head: HeadSpec, files: HeadFiles) -> TrainResult | None:
    """Return the head on disk, if it is complete and has the inputs of this head."""
    stored = none_if_damaged(lambda: describe_head(files.weights))
    curve = none_if_damaged(lambda: read_info(files.curve))
    description_file = open_result(files.description)
    if stored is None or curve is None or description_file is None:  # all three are read: each damaged one is reported
        return None
    description, content = stored
    if not description["inputs"] == curve.inputs_hash == head.inputs:
        return None
    return TrainResult(content, curve, description.get(INITIAL_WEIGHTS), is_reused=True)


def _initial_weights(head: HeadSpec, files: HeadFiles) -> str | None:
    if head.method.without_warm_start(head.settings) == head.settings:
        return None
    stored = none_if_damaged(lambda: describe_head(files.weights))
    if stored is None or stored[0].get(WARM_START_KEY) != head.warm_start_key:
        log.info("%s: there are no weights for a warm start, so training starts from scratch", head.title)
        return None
    return stored[1]


def _train_head(head: HeadSpec, files: HeadFiles, open_data: Callable[[], TrainingData], device: str) -> TrainResult:
    began = time.monotonic(), time.process_time()
    data, initial_weights = open_data(), _initial_weights(head, files)
    epochs = _run_epochs(head, data, files, device, initial_weights)
    cost = training_cost(began, epochs, device)
    rows = curve_table(epochs, method=head.name, encoder=head.encoder, trained_on=head.trained_on)
    curve = write_table(files.curve, cost.beside(rows), SCHEMAS["training_curve"], inputs=head.inputs)
    description = {
        "name": head.name,
        "encoder": head.encoder,
        "encoder_fingerprint": head.encoder_fingerprint,
        ENCODER_CONFIG: head.encoder_config,
        METHOD_REFERENCE: head.reference,
        "trained_on": head.trained_on,
        "languages": data.languages,
        "dim": data.dim,
        "seeds": head.seeds,
        "settings": asdict(head.settings),
        "inputs": head.inputs,
        WARM_START_KEY: head.warm_start_key,
        INITIAL_WEIGHTS: initial_weights,
        "data": head.data,
    }
    if learns_from_mates(head.method, head.settings):
        description[MATES] = len(data.mates.get("train", ()))
    write_text_result(files.description, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    content = trainer(head.method).save(files.checkpoint, files.weights, description)
    remove_result(files.checkpoint)
    return TrainResult(
        content,
        curve,
        initial_weights,
        epochs=sum(not epoch.is_replayed for epoch in epochs),
        steps=epochs[-1].steps - max((epoch.steps for epoch in epochs if epoch.is_replayed), default=0),
        seconds=cost.seconds,
    )


def _run_epochs(
    head: HeadSpec, data: TrainingData, files: HeadFiles, device: str, initial_weights: str | None
) -> Sequence[Epoch]:
    epochs: list[Epoch] = []
    progress = Progress(log, None, "epochs", what=head.title, at_most=head.method.most_epochs(head.settings))
    fit = Fit(head.seeds, files.checkpoint, head.inputs, device)
    if initial_weights is not None:
        fit = replace(fit, inputs=fingerprint(head.inputs, initial_weights), initial=files.weights)
    for epoch in trainer(head.method).fit(data, head.settings, fit):
        epochs.append(epoch)
        if epoch.is_replayed:
            progress.first = len(epochs)
        progress.advance(len(epochs), partial(_state_of, epoch))
    if not epochs:
        raise TrainingError("no epoch was trained. Set max_epochs to at least 1")
    return epochs


def _state_of(epoch: Epoch) -> str:
    losses = (epoch.terms.get("dev") or epoch.terms["train"])["total"]
    return f"loss {[round(value, 4) for value in losses]}, seeds still training {list(epoch.seeds)}"
