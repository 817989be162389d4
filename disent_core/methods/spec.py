"""Describe a head, its files, fingerprints and training cost, without importing the code that computes it."""

import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disent_core.embedding_names import embedding_of
from disent_core.methods.contract import Method
from disent_core.settings import Settings
from disent_core.storage.results import verify_result
from disent_core.storage.tables import NOTES, TableInfo, fingerprint
from disent_core.storage.weights import describe_weights
from disent_core.training.needs import Need

if TYPE_CHECKING:
    from disent_core.training.epoch import Epoch

NOT_HASHED = frozenset({"checkpoint_seconds"})  # settings that do not change results
WARM_START_KEY, INITIAL_WEIGHTS = "kin", "began_with"
"""Keys in the description of a head on disk. They keep their original names, so that earlier heads stay fresh."""
ENCODER_CONFIG, METHOD_REFERENCE = "encoder_config", "reference"

MATES = "mates"
"""Key in the description of a head whose method learns templates from parallel mates alone: how many it was trained on.

No fingerprint includes it. Heads trained before it was recorded lack it, and keep all of their embeddings.
"""


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """A head to train: a method with its settings, on one encoder and one language pair (or mixture).

    `data_fingerprint` covers the texts that it trains on, `encoder_fingerprint` their vectors. `trained_on` is `en-de`
    or the name of a training set; `is_mixture` is whether that has several pairs.

    `reference` and `encoder_config` locate the method and the encoder when a head is opened without its configuration;
    `data` lists the training corpora with their licences, for the model card. No result depends on these three.
    """

    name: str
    method: Method[Any]
    settings: Settings
    encoder: str
    trained_on: str
    seeds: tuple[int, ...]
    data_fingerprint: str
    encoder_fingerprint: str
    is_mixture: bool = False
    reference: str = ""
    encoder_config: Mapping[str, Any] | None = None
    data: tuple[Mapping[str, Any], ...] = ()

    @property
    def title(self) -> str:
        """Name of the head in messages, such as `dream on minilm, en-de`."""
        return f"{self.name} on {self.encoder}, {self.trained_on}"

    @property
    def inputs(self) -> str:
        """Fingerprint of everything that the weights depend on."""
        return fingerprint(
            self.method.name,
            self.method.code_version,
            settings_fingerprint(self.settings),
            self.seeds,
            self.data_fingerprint,
            self.encoder_fingerprint,
            *mixture_version(self.method, self.settings, self.is_mixture),
        )

    @property
    def warm_start_key(self) -> str:
        """Fingerprint of everything except the training texts; a warm start needs an equal one."""
        cold = self.method.without_warm_start(self.settings)
        return replace(self, settings=cold, data_fingerprint="").inputs


@dataclass(frozen=True)
class HeadFiles:
    weights: Path
    curve: Path
    checkpoint: Path

    @property
    def description(self) -> Path:
        """The description of the weights as JSON, which can be read without loading them."""
        return self.weights.with_suffix(".json")


def mixture_version(method: Method[Any], settings: Settings, is_mixture: bool) -> tuple[str, ...]:
    """Return what a head's fingerprints include if its dev accuracy is a mean over the pairs of a mixture."""
    ranks_dev_pairs = method.ranks_dev_pairs or getattr(settings, "monitor", None) == "dev_retrieval"
    return ("dev accuracy by pair",) if ranks_dev_pairs and is_mixture else ()


def settings_fingerprint(settings: Settings) -> str:
    """Return the fingerprint of a method's settings, without those that don't change results.

    A setting at its default is left out, so that a new switch whose default keeps the behaviour retrains nothing.
    So a changed default needs a new `code_version`, except in a method outside the library: all settings that its class
    declares count.
    """
    values, kind = asdict(settings), type(settings)
    of_user = frozenset() if kind.__module__.startswith("disent_core.") else get_annotations(kind).keys()
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }
    counted = (name for name, value in values.items() if name in of_user or value != defaults[name])
    return fingerprint(kind.__name__, {name: values[name] for name in counted if name not in NOT_HASHED})


def learns_from_mates(method: Method[Any], settings: Settings) -> bool:
    """Whether a method learns to separate templates from residuals from parallel mates alone, with these settings."""
    needs, others = method.needs_of(settings), {Need.MASKED_TARGETS, Need.TEMPLATE_PAIRS}
    return Need.PARALLEL_MATES in needs and not others & needs and "template" in method.embeddings


def learned(embeddings: tuple[str, ...], description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the embeddings of a method that a head has learned: without mates, only the meaning is distinct."""
    if description.get(MATES) != 0:
        return embeddings
    return tuple(name for name in embeddings if name not in ("template", "residual"))


def learned_embedding(embeddings: tuple[str, ...], description: Mapping[str, Any], name: str | None) -> str:
    """Return the requested embedding of a method; ValueError, with the reason, if a head has none of that name."""
    known = learned(embeddings, description)
    return embedding_of(name, known, "this head", had_slots=known == embeddings)


def describe_head(weights: Path) -> tuple[Mapping[str, Any], str] | None:
    """Return the description and the fingerprint of a file of weights, or None if the file does not exist."""
    if verify_result(weights) is None:
        return None
    return describe_weights(weights)


# --- cost -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingCost:
    """Cost of training all seeds of a head."""

    seconds: float  # wall-clock time
    processor_seconds: float | None  # of all threads; None if lost because the process was killed
    machine: str  # its processor and cores, or its GPU

    def beside(self, curve: pa.Table) -> pa.Table:
        """Return the curve with the cost as a note in its manifest, outside its fingerprint."""
        return curve.replace_schema_metadata({NOTES: json.dumps(asdict(self))})

    @classmethod
    def of(cls, curve: TableInfo) -> "TrainingCost | None":
        """Return the cost of a curve; None if an earlier version wrote it."""
        return cls(**json.loads(curve.notes)) if curve.notes else None


def training_cost(began: tuple[float, float], epochs: Sequence["Epoch"], device: str) -> TrainingCost:
    """Return the cost of a training with these epochs, which `began` at these seconds of the clock and processor.

    The checkpoint of a killed run has the seconds of epochs that are replayed here. Their processor seconds are
    estimated in proportion to those of the epochs computed here.
    """
    seconds, processor = time.monotonic() - began[0], time.process_time() - began[1]
    replayed = sum(epoch.seconds for epoch in epochs if epoch.is_replayed)
    computed = sum(epoch.seconds for epoch in epochs if not epoch.is_replayed)
    if replayed:
        processor = processor * (1 + replayed / computed) if computed else None
    rounded = None if processor is None else round(processor, 3)
    return TrainingCost(round(seconds + replayed, 3), rounded, machine(device))


def machine(device: str) -> str:
    """Return the name of the GPU, or of the processor with the number of cores that this process may use."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = model[1].strip() if model else platform.processor() or platform.machine()
    return f"{name}, {usable_cores()} cores"


def usable_cores() -> int:
    """Return the number of cores this process may use; macOS and Windows do not restrict it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
