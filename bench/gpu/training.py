"""Compare training with plain PyTorch: stacked seeds, heads on token states, a tuned encoder, pretraining."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import training as heads
from bench.gpu import plain
from bench.gpu.measuring import Products, Row, epochs_in_turns, recorded
from bench.training import fitted, settings_of
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.encoders.kinds.scratch.pretraining import _new_model, pretrain, read_sequences, train_tokeniser
from disent_core.methods import dream, facet, fmda, infonce
from disent_core.methods.contract import Method
from disent_core.optimisation.seeds import seeded
from disent_core.training.data import TrainingData
from disent_core.training.needs import SIDES

SEEDS, EPOCHS = 5, 4
TOLERANCE = 1e-3
"""Largest relative difference of the first epoch's training loss in float32 from the CPU's."""


def first_loss(data: TrainingData, method: Method[Any], device: str, **changes: Any) -> float:
    """Return the mean total loss of one seed's first epoch, in float32."""
    config = settings_of(method, 1, **{"precision": "float32", **changes})
    return next(iter(fitted(data, method, config, 1, device))).terms["train"]["total"][0]


def apart(data: TrainingData, method: Method[Any], device: str, **changes: Any) -> float:
    """Return the relative difference of the first loss from the CPU's."""
    ours, cpu = (first_loss(data, method, where, **changes) for where in (device, "cpu"))
    return abs(ours - cpu) / abs(cpu)


def products_of(data: TrainingData, method: Method[Any], config: Any, seeds: int, device: str) -> Products:
    """Return the products of the first epoch."""
    epochs = fitted(data, method, config, seeds, device)
    return recorded(lambda: next(epochs))


def stacked_seeds(pairs: int, dev: int, dim: int, device: str, epochs: int = EPOCHS) -> Iterator[Row]:
    """Compare DREAM with one and five seeds with runs of a plain loop, in the settings of every preset."""
    data = heads.data(dim, "cpu", pairs, dev)
    different = apart(data, dream.METHOD, device)
    for name, changes in heads.SETTINGS.items():
        one_seed = 0.0
        for seeds in (1, SEEDS):
            config = settings_of(dream.METHOD, epochs, **changes)
            ours, peer = epochs_in_turns(
                (epoch.seconds for epoch in fitted(data, dream.METHOD, config, seeds, device)),
                heads.plain_epochs(data, is_oracle=False, device=device),
            )
            one_seed = one_seed or ours
            alone = products_of(data, dream.METHOD, config, seeds, device).seconds_alone(device)
            times = f"{ours / one_seed:.2f} times one seed; " if seeds > 1 else ""
            yield Row(
                f"epoch of DREAM, {dim} dimensions, {name}, {seeds} seed{'s' * (seeds > 1)}",
                ours,
                peer * seeds,
                f"{seeds * (pairs - dev) / ours:,.0f} pairs/s",
                alone / ours,
                different,
                TOLERANCE,
                f"{times}beside a loop over a DataLoader in float32, once for each seed",
            )


def token_heads(data: TrainingData, device: str, batch: int, epochs: int = EPOCHS, **facet_sizes: int) -> Iterator[Row]:
    """Compare FMDA and facet; facet is trained on the CPU, wherever its peer runs."""
    pairs = len(data.splits["train"])
    units = [sum(facet_sizes.get(f"{part}_{kind}", size) for part in ("template", "residual"))
             for kind, size in (("units", 512), ("words", 256))]  # fmt: skip
    cases = (
        (fmda.METHOD, {"contrast": "softmax", "monitor": "dev_retrieval"}, plain.fmda_epochs(data, batch, device)),
        (facet.METHOD, facet_sizes, plain.facet_epochs(data, batch, (units[0], units[1]), device)),
    )
    for method, case_settings, peer in cases:
        changes = {"batch_size": batch, **case_settings}
        where = "cpu" if method is facet.METHOD else device
        config = settings_of(method, epochs, **{"precision": "bfloat16", **changes})
        ours, peer_seconds = epochs_in_turns((epoch.seconds for epoch in fitted(data, method, config, 1, where)), peer)
        alone = products_of(data, method, config, 1, where).seconds_alone(where)
        yield Row(
            f"epoch of {method.name}, {data.dim} dimensions, bfloat16",
            ours,
            peer_seconds,
            f"{pairs / ours:,.0f} pairs/s",
            alone / ours,
            apart(data, method, where, **changes) if where == device else None,
            TOLERANCE if where == device else None,
            "beside plain PyTorch over padded batches without validation"
            + ("" if where == device else f"; ours is on the CPU, the peer on {device}"),
        )


def tuned_encoder(data: TrainingData, folder: Path, device: str, batch: int, epochs: int = EPOCHS) -> Iterator[Row]:
    """Compare `fine_tuned` with a plain loop over the same pairs; both validate on at most one batch."""
    files = EncoderFiles(folder, "mean", -1, 64, "benchmark")
    splits = {**data.splits, "dev": data.splits["dev"].select(_first(min(batch, len(data.splits["dev"]))))}
    data = replace(data, encoder=files, splits=splits)
    text_of = {row: text for part in data.utterances["train"].values()
               for row, text in zip(part.rows.tolist(), part.texts, strict=True)}  # fmt: skip
    sides = (data.splits["train"].text[side].tolist() for side in SIDES)
    pairs = [(text_of[left], text_of[right]) for left, right in zip(*sides, strict=True)]
    method = infonce.FINE_TUNED
    few = replace(data, splits={**splits, "train": splits["train"].select(_first(min(4 * batch, len(pairs))))})
    different = apart(few, method, device, batch_size=batch)
    for precision in ("float32", "bfloat16"):
        config = settings_of(method, epochs, precision=precision, batch_size=batch, monitor="last")
        ours, peer = epochs_in_turns(
            (epoch.seconds for epoch in fitted(data, method, config, 1, device)),
            plain.tuning_epochs(folder, pairs, batch, device, precision),
        )
        alone = products_of(data, method, config, 1, device).seconds_alone(device)
        yield Row(
            f"epoch of fine_tuned, {precision}",
            ours,
            peer,
            f"{len(pairs) / ours:,.0f} pairs/s",
            alone / ours,
            different,
            TOLERANCE,
            f"beside plain transformers that tokenises every batch, batches of {batch} pairs",
        )


def _first(count: int) -> Any:
    import torch

    return torch.arange(count)


def pretraining(texts: list[str], config: ScratchConfig, device: str) -> Row:
    """Compare masked-language modelling with a plain loop with the same model and tokens per batch."""
    with tempfile.TemporaryDirectory() as folder:
        tokeniser = Path(folder) / "tokenizer.json"
        train_tokeniser(texts, config.tokeniser, config.vocab_size, tokeniser)
        sequences = read_sequences(texts, (), config.max_length, tokeniser)
        with seeded(config.seed):
            model = _new_model(config, sequences.vocab_size)
        ids = [sequences.of(text) for text in range(len(sequences.lengths))]
        few = texts[:2_000]
        losses = [next(pretrain(few, replace(config, epochs=1), Path(folder) / where, where)).terms["train"]["total"]
                  for where in (device, "cpu")]  # fmt: skip
        reports = pretrain(texts, config, Path(folder) / "ours", device)
        ours, peer = epochs_in_turns(
            (report.seconds for report in reports),
            plain.pretraining_epochs(model, ids, config.batch_tokens, config.mask_probability, device),
        )
        again = pretrain(texts, config, Path(folder) / "again", device)
        alone = recorded(lambda: next(again)).seconds_alone(device)
    tokens = int(sequences.lengths.sum())
    return Row(
        f"epoch of pretraining, {config.layers} layers of {config.hidden_size}",
        ours,
        peer,
        f"{tokens / ours:,.0f} tokens/s",
        alone / ours,
        abs(losses[0] - losses[1]) / losses[1],
        TOLERANCE if device == "cpu" else 2e-2,
        f"beside plain transformers with the loss of `labels`, {tokens:,} tokens; a GPU computes in bfloat16",
    )
