"""What a method is, seen from outside: the same for a frozen head, a fine-tuned encoder and a slot labeller.

A method's module exports `METHOD`. Adding one is a module here and a line in the registry (`__init__`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from disent_core.encoders.contract import EncoderFiles
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch
from disent_core.training.needs import Need

EMBEDDINGS = ("sentence", "meaning", "template", "residual", "language")
"""Names that an embedding may have: those that the tasks, the warehouse and its readers know."""


@runtime_checkable
class TrainedMethod(Protocol):
    """A method after training, with the weights of every seed.

    One that can embed some languages only, those of its training, has them as `languages`.
    """

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, Float[np.ndarray, "texts _"]]:
        """One matrix per embedding name, a row per text, in order."""
        ...


@runtime_checkable
class Method(Protocol):
    """A system that turns what the encoder gives into embeddings of its own.

    `presets` are named configurations, of which `paper` follows the paper. `embeddings` names what `embed`
    returns, in the order in which a reader wants to see it; `labels` says that it tags the slots of a sentence
    (`TrainedLabeller`). `is_trained` is False where there is nothing to fit, hence no weights; `is_seeded` is
    False where nothing is random: it is then fitted once, and embeds with seed None. `code_version` changes
    with every change that changes results. A method whose settings may spare it some of its `needs` has a method
    `needs_of(config)` too, which gives those that are left (`config.MethodConfig.needs`). One whose settings have a
    `warm_start` has a method `initial(path)`: what `fit` takes as `initial`, from what `save` wrote.
    """

    name: str
    presets: Mapping[str, Any]
    needs: frozenset[Need]
    embeddings: tuple[str, ...]
    labels: bool
    is_trained: bool
    is_seeded: bool
    code_version: str

    def fit(
        self, data: TrainingData, config: Any, seeds: Sequence[int], *, checkpoint: Path, device: str, run: str
    ) -> Iterator[Epoch]:
        """Train every seed, one epoch an item. A run that was cut off goes on from `checkpoint`.

        `run` is the fingerprint of everything that the weights depend on, the vectors of the texts included: a
        checkpoint of another run is not used.
        """
        ...

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the best weights of a finished `checkpoint` to `path` and return their fingerprint."""
        ...

    def load(self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None) -> TrainedMethod:
        """What `save` wrote, ready to embed; an untrained method reads nothing from `path`.

        `encoder` is given where the method needs it.
        """
        ...


@runtime_checkable
class TrainedLabeller(Protocol):
    """A method after training that tags the slots of sentences; `languages` are those that it was trained on."""

    languages: tuple[str, ...]

    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """A BIO tag for every word of every sentence."""
        ...
