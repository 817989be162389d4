"""One head from its inputs to its files: what is to be trained, whether it is done already, and the doing."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.errors import TrainingError
from disent_core.heads.contract import Method
from disent_core.progress import Progress
from disent_core.settings import Settings
from disent_core.storage.atomic import locked
from disent_core.storage.checksums import (
    ignore_damaged,
    remove_with_checksum,
    verified,
    verify_checksum,
    write_checksummed_text,
)
from disent_core.storage.tables import SCHEMAS, TableInfo, fingerprint, read_info, write_table
from disent_core.storage.weights import describe_weights
from disent_core.training.data import TrainingData
from disent_core.training.epoch import Epoch, curve_table

log = logging.getLogger(__name__)
UNTOLD = frozenset({"checkpoint_seconds"})


@dataclass(frozen=True, kw_only=True)
class HeadRun:
    """A head to train: a method's settings on one encoder and one language pair (or mixture).

    `data_fingerprint` stands for the texts it trains on, `encoder_fingerprint` for their vectors.
    """

    name: str
    method: Method[Any]
    settings: Settings
    encoder: str
    trained_on: str
    seeds: tuple[int, ...]
    data_fingerprint: str
    encoder_fingerprint: str

    @property
    def title(self) -> str:
        """What messages call it: `dream on minilm, en-de`."""
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
        )

    @property
    def kin(self) -> str:
        """Fingerprint of all of it but the texts: weights of one kin may begin where others of it have ended."""
        cold = self.method.without_warm_start(self.settings)
        return replace(self, settings=cold, data_fingerprint="").inputs


@dataclass(frozen=True)
class HeadFiles:
    """Where a head's results go."""

    weights: Path
    curve: Path
    checkpoint: Path

    @property
    def description(self) -> Path:
        """What the weights say of themselves, to be read without loading them."""
        return self.weights.with_suffix(".json")


@dataclass(frozen=True)
class HeadReport:
    """A head on disk. `epochs` and `steps` count what this call computed, without what a checkpoint replayed.

    `is_reused` where the weights were there already. A finished checkpoint gives new weights with 0 steps.
    `began_with` is the fingerprint of the weights that a warm start began with.
    """

    content: str
    epochs: int
    steps: int
    seconds: float
    curve: TableInfo
    is_reused: bool
    began_with: str | None


def settings_fingerprint(settings: Settings) -> str:
    """Fingerprint of a method's settings, but for those that don't change results.

    A setting at its default is left out: a new switch that keeps what was done before retrains nothing. Hence a
    default that changes has to change `code_version` too.
    """
    values = asdict(settings)
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }
    told = {name: value for name, value in values.items() if name not in UNTOLD and value != defaults[name]}
    return fingerprint(type(settings).__name__, told)


def describe_head(weights: Path) -> tuple[Mapping[str, Any], str] | None:
    """What a file of weights says of itself, and the fingerprint of its weights; None where there is none.

    Raises:
        DamagedError: if the file is not as it was written. It has been quarantined.
    """
    if verify_checksum(weights) is None:
        return None
    return describe_weights(weights)


def train_head(run: HeadRun, files: HeadFiles, open_data: Callable[[], TrainingData], *, device: str) -> HeadReport:
    """Train every seed of a head, unless one of equal inputs is on disk.

    A run that was cut off goes on from its checkpoint. The weights are written last: while they are not
    there the head is not. Of two runs that want the same head one trains it and the other waits.

    Raises:
        TrainingError: if training can't start or diverges.
    """
    with locked(files.weights):
        return _done(run, files) or _train_head(run, files, open_data, device)


def _done(run: HeadRun, files: HeadFiles) -> HeadReport | None:
    """The head on disk, if it is of this run and whole."""
    done = ignore_damaged(lambda: describe_head(files.weights))
    curve = ignore_damaged(lambda: read_info(files.curve))
    described = verified(files.description)
    if done is None or curve is None or described is None:  # after all three, so that each damaged one is named
        return None
    if not done[0]["inputs"] == curve.inputs_hash == run.inputs:
        return None
    began_with = done[0].get("began_with")
    return HeadReport(done[1], epochs=0, steps=0, seconds=0.0, curve=curve, is_reused=True, began_with=began_with)


def _earlier(run: HeadRun, files: HeadFiles) -> str | None:
    """Fingerprint of the weights that a warm start begins with; None where it is none."""
    if not run.method.starts_warm(run.settings):
        return None
    found = ignore_damaged(lambda: describe_head(files.weights))
    if found is None or found[0].get("kin") != run.kin:
        log.info("%s: no weights to start warm from, it starts anew", run.title)
        return None
    return found[1]


def _train_head(run: HeadRun, files: HeadFiles, open_data: Callable[[], TrainingData], device: str) -> HeadReport:
    started = time.monotonic()
    data, began_with = open_data(), _earlier(run, files)
    epochs = _run_epochs(run, data, files, device, began_with)
    curve = write_table(files.curve, _curve(run, epochs), SCHEMAS["training_curve"], inputs=run.inputs)
    description = {
        "name": run.name,
        "encoder": run.encoder,
        "encoder_fingerprint": run.encoder_fingerprint,
        "trained_on": run.trained_on,
        "languages": data.languages,
        "dim": data.dim,
        "seeds": run.seeds,
        "settings": asdict(run.settings),
        "inputs": run.inputs,
        "kin": run.kin,
        "began_with": began_with,
    }
    write_checksummed_text(files.description, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    content = run.method.save(files.checkpoint, files.weights, description)
    remove_with_checksum(files.checkpoint)
    return HeadReport(
        content=content,
        epochs=sum(not epoch.is_replayed for epoch in epochs),
        steps=epochs[-1].steps - max((epoch.steps for epoch in epochs if epoch.is_replayed), default=0),
        seconds=time.monotonic() - started,
        curve=curve,
        is_reused=False,
        began_with=began_with,
    )


def _run_epochs(
    run: HeadRun, data: TrainingData, files: HeadFiles, device: str, began_with: str | None
) -> Sequence[Epoch]:
    epochs: list[Epoch] = []
    progress = Progress(log, None, "epochs", what=run.title)
    fit = partial(run.method.fit, data, run.settings, run.seeds, checkpoint=files.checkpoint, device=device)
    if began_with is None:
        fitted = fit(run=run.inputs)
    else:
        fitted = fit(run=fingerprint(run.inputs, began_with), initial=files.weights)
    for epoch in fitted:
        epochs.append(epoch)
        if epoch.is_replayed:
            progress.first = len(epochs)
        progress.advance(len(epochs), partial(_state_of, epoch))
    if not epochs:
        raise TrainingError("there was no epoch. Set max_epochs to at least 1")
    return epochs


def _state_of(epoch: Epoch) -> str:
    losses = (epoch.terms.get("dev") or epoch.terms["train"])["total"]
    return f"loss {[round(value, 4) for value in losses]}, seeds still training {list(epoch.seeds)}"


def _curve(run: HeadRun, epochs: Sequence[Epoch]) -> pa.Table:
    return curve_table(epochs, method=run.name, encoder=run.encoder, trained_on=run.trained_on)
