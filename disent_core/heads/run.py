"""Train one head unless an up-to-date one is on disk, and write its files."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import pyarrow as pa

from disent_core.errors import TrainingError
from disent_core.heads.contract import trainer
from disent_core.heads.cost import Meter
from disent_core.heads.identity import (
    ENCODER_CONFIG,
    INITIAL_WEIGHTS,
    METHOD_REFERENCE,
    WARM_START_KEY,
    HeadFiles,
    HeadRun,
    describe_head,
)
from disent_core.progress import Progress
from disent_core.storage.checksums import (
    ignore_damaged,
    remove_with_checksum,
    verified,
    write_checksummed_text,
)
from disent_core.storage.remote import sole_maker
from disent_core.storage.tables import SCHEMAS, TableInfo, fingerprint, read_info, write_table
from disent_core.training.data import TrainingData
from disent_core.training.epoch import Epoch, curve_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeadReport:
    """A head on disk. `epochs` and `steps` count what this call computed, without what a checkpoint replayed; `seconds`
    are those of the whole training.

    `is_reused`: the weights were on disk already. A finished checkpoint gives new weights with 0 steps.
    `initial_weights` is the fingerprint of the weights that a warm start began with.
    """

    content: str
    epochs: int
    steps: int
    seconds: float
    curve: TableInfo
    is_reused: bool
    initial_weights: str | None


def train_head(run: HeadRun, files: HeadFiles, open_data: Callable[[], TrainingData], *, device: str) -> HeadReport:
    """Train every seed of a head, unless one of equal inputs is on disk.

    An interrupted run resumes from its checkpoint. The weights are written last, so a head whose weights exist is
    complete. If two runs want the same head, one trains it and the other waits.

    Raises:
        TrainingError: if training can't start or diverges.
    """
    with sole_maker(files.weights):
        return _done(run, files) or _train_head(run, files, open_data, device)


def _done(run: HeadRun, files: HeadFiles) -> HeadReport | None:
    """Report the head on disk, if it is complete and its inputs are those of this run."""
    stored = ignore_damaged(lambda: describe_head(files.weights))
    curve = ignore_damaged(lambda: read_info(files.curve))
    description_file = verified(files.description)
    if stored is None or curve is None or description_file is None:  # all three are read: each damaged one is reported
        return None
    description, content = stored
    if not description["inputs"] == curve.inputs_hash == run.inputs:
        return None
    return HeadReport(
        content=content,
        epochs=0,
        steps=0,
        seconds=0.0,
        curve=curve,
        is_reused=True,
        initial_weights=description.get(INITIAL_WEIGHTS),
    )


def _initial_weights(run: HeadRun, files: HeadFiles) -> str | None:
    """Fingerprint of the weights that a warm start begins with; None for a cold start."""
    if not run.method.starts_warm(run.settings):
        return None
    stored = ignore_damaged(lambda: describe_head(files.weights))
    if stored is None or stored[0].get(WARM_START_KEY) != run.warm_start_key:
        log.info("%s: there are no weights for a warm start, so training starts from scratch", run.title)
        return None
    return stored[1]


def _train_head(run: HeadRun, files: HeadFiles, open_data: Callable[[], TrainingData], device: str) -> HeadReport:
    meter = Meter()
    data, initial_weights = open_data(), _initial_weights(run, files)
    epochs = _run_epochs(run, data, files, device, initial_weights)
    cost = meter.cost(epochs, device)
    curve = write_table(files.curve, cost.beside(_curve(run, epochs)), SCHEMAS["training_curve"], inputs=run.inputs)
    description = {
        "name": run.name,
        "encoder": run.encoder,
        "encoder_fingerprint": run.encoder_fingerprint,
        ENCODER_CONFIG: run.encoder_config,
        METHOD_REFERENCE: run.reference,
        "trained_on": run.trained_on,
        "languages": data.languages,
        "dim": data.dim,
        "seeds": run.seeds,
        "settings": asdict(run.settings),
        "inputs": run.inputs,
        WARM_START_KEY: run.warm_start_key,
        INITIAL_WEIGHTS: initial_weights,
    }
    write_checksummed_text(files.description, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    content = trainer(run.method).save(files.checkpoint, files.weights, description)
    remove_with_checksum(files.checkpoint)
    return HeadReport(
        content=content,
        epochs=sum(not epoch.is_replayed for epoch in epochs),
        steps=epochs[-1].steps - max((epoch.steps for epoch in epochs if epoch.is_replayed), default=0),
        seconds=cost.seconds,
        curve=curve,
        is_reused=False,
        initial_weights=initial_weights,
    )


def _run_epochs(
    run: HeadRun, data: TrainingData, files: HeadFiles, device: str, initial_weights: str | None
) -> Sequence[Epoch]:
    epochs: list[Epoch] = []
    progress = Progress(log, None, "epochs", what=run.title, at_most=run.method.most_epochs(run.settings))
    fit = partial(trainer(run.method).fit, data, run.settings, run.seeds, checkpoint=files.checkpoint, device=device)
    if initial_weights is None:
        fitted = fit(run=run.inputs)
    else:
        fitted = fit(run=fingerprint(run.inputs, initial_weights), initial=files.weights)
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
