"""Compare training with a plain PyTorch loop: the same vectors, losses, batches and epochs, in turns.

python -m bench.training [--quick]
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bench.gpu.measuring import epochs_in_turns, seconds
from bench.measuring import row
from disent_core.methods import dream, oracle
from disent_core.methods.contract import Method
from disent_core.methods.trainer import trainer
from disent_core.training.data import PairRows, TrainingData, VectorBank
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.needs import SIDES

PAIRS, DEV, TARGETS, BATCH = 11_514, 1_200, 3, 512
EPOCHS = 4
SETTINGS = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "fast": {"precision": "bfloat16", "partner": "next_in_batch"},
}
METHODS = {
    "DREAM": (dream.METHOD, dream.DreamConfig),
    "DREAM + ORACLE": (oracle.DREAM_ORACLE, oracle.DreamOracleConfig),
}


def data(dim: int, device: str, count: int = PAIRS, dev: int = DEV) -> TrainingData:
    """Return as many pairs as in MASSIVE, with one source and three target languages and random vectors."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2 * count, dim, generator=generator).to(device)
    labels = {"source": torch.zeros(count, dtype=torch.long), "target": 1 + torch.arange(count) % TARGETS}
    text = {"source": torch.arange(count), "target": torch.arange(count) + count}
    none = dict.fromkeys(SIDES, torch.full((count,), -1))
    pairs = PairRows(text, labels, none, none)
    sentences = [text["source"], *(text["target"][labels["target"] == label] for label in range(1, 1 + TARGETS))]
    splits = {"train": pairs.select(torch.arange(dev, count)), "dev": pairs.select(torch.arange(dev))}
    names = ("en", *(f"x{label}" for label in range(TARGETS)))
    return TrainingData(names, VectorBank([vectors]), None, None, splits, sentences, sentences)


# --- the peer ---------------------------------------------------------------------------------------------


class Split(nn.Module):
    """The heads of the plain loop."""

    def __init__(self, dim: int, languages: int) -> None:
        super().__init__()
        self.meaning, self.language = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.identity = nn.Linear(dim, languages)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        meaning, language = self.meaning(x), self.language(x)
        return meaning, language, self.identity(language)


def plain_epochs(data: TrainingData, *, is_oracle: bool, device: str) -> Iterator[float]:
    """Yield the seconds per epoch, including validation, of a loop over a `DataLoader` with one seed."""
    model = Split(data.dim, len(data.languages)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    everything = {split: tensors(data, split) for split in ("train", "dev")}
    loaders = {
        split: DataLoader(TensorDataset(*parts), batch_size=BATCH, shuffle=split == "train")
        for split, parts in everything.items()
    }
    while True:
        started = time.perf_counter()
        for batch in loaders["train"]:
            optimiser.zero_grad()
            loss = plain_loss(model, batch, everything["train"], oracle=is_oracle, device=device)
            loss.backward()
            optimiser.step()
            loss.item()
        with torch.no_grad():
            for batch in loaders["dev"]:
                plain_loss(model, batch, everything["train"], oracle=is_oracle, device=device).item()
        yield time.perf_counter() - started


def tensors(data: TrainingData, split: str) -> list[Tensor]:
    """Return vectors and languages of both sides."""
    pairs = data.splits[split]
    vectors = [data.vectors.take(pairs.text[side].to(data.vectors.parts[0].device)).cpu() for side in SIDES]
    return [*vectors, *(pairs.language[side] for side in SIDES)]


def plain_loss(model: Split, batch: list[Tensor], train: list[Tensor], *, oracle: bool, device: str) -> Tensor:
    """Return DREAM's total loss, plus ORACLE's two terms if asked."""
    source, target = (part.to(device) for part in batch[:2])
    labels = [part.to(device) for part in batch[2:]]
    other = torch.randint(len(train[0]), (len(source),))
    partners = [
        matched(train[i][other], train[i + 2][other].tolist(), batch[i + 2].tolist()).to(device) for i in (0, 1)
    ]
    s_m, s_l, s_i = model(source)
    t_m, t_l, t_i = model(target)
    (s_rm, s_rl, _), (t_rm, t_rl, _) = model(partners[0]), model(partners[1])
    same = torch.ones(len(source), device=device)
    near, squared, entropy = nn.CosineEmbeddingLoss(), nn.MSELoss(), nn.CrossEntropyLoss()
    total = squared(s_m + s_l, source) + squared(t_m + t_l, target)
    total = total + near(s_m, t_m, same) + near(s_m, s_rm, -same) + near(t_m, t_rm, -same)
    total = total + near(s_l, s_rl, same) + near(t_l, t_rl, same)
    total = total + entropy(s_i, labels[0]) + entropy(t_i, labels[1])
    if not oracle:
        return total
    apart = near(s_m, s_l, -same) + near(t_m, t_l, -same)
    return total + apart + clusters(s_l, labels[0]) + clusters(t_l, labels[1])


def clusters(language: Tensor, labels: Tensor) -> Tensor:
    """Return 1 - the mean cosine of each row with the others of its language, from the matrix of all pairs."""
    norms = language.norm(dim=1, keepdim=True)
    cosines = language @ language.T / (norms * norms.T).clamp_min(1e-6)
    others = (labels.unsqueeze(0) == labels.unsqueeze(1)).float().fill_diagonal_(0)
    return 1 - ((cosines * others).sum(dim=1) / others.sum(dim=1).clamp_min(1)).mean()


def matched(candidates: Tensor, languages: list[int], wanted: list[int]) -> Tensor:
    """Return for each row the next candidate of its language, from a random start."""
    rows = torch.zeros_like(candidates)
    for i, language in enumerate(wanted):
        start = random.randrange(len(languages))
        for step in range(len(languages)):
            j = (start + step) % len(languages)
            if languages[j] == language:
                rows[i] = candidates[j]
                break
    return rows


# --- side by side -----------------------------------------------------------------------------------------


def settings_of(method: Method[Any], epochs: int, **changes: Any) -> Any:
    """Return a method's default settings, with `epochs` epochs and no checkpoints."""
    preset = method.presets["paper"]
    count = {"epochs": epochs} if hasattr(preset, "epochs") else {"max_epochs": epochs, "patience": epochs}
    return replace(preset, checkpoint_seconds=1e6, **count, **changes)


def fitted(data: TrainingData, method: Method[Any], config: Any, seeds: int, device: str = "cpu") -> Iterator[Epoch]:
    """Yield the epochs of our training."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "c.safetensors"
        yield from trainer(method).fit(data, config, Fit(range(seeds), checkpoint, "benchmark", device))


def our_epochs(data: TrainingData, name: str, settings: str, seeds: int, device: str) -> Iterator[float]:
    """Yield the seconds of each epoch, including validation."""
    method, config = METHODS[name]
    config = config(max_epochs=EPOCHS, patience=EPOCHS, batch_size=BATCH, checkpoint_seconds=1e6, **SETTINGS[settings])
    return (epoch.seconds for epoch in fitted(data, method, config, seeds, device))


def side_by_side(data: TrainingData, where: str, device: str) -> list[dict[str, Any]]:
    """Compare every method and setting with one seed, and DREAM with five seeds with five runs of the peer."""
    rows, one_seed = [], {}
    for name, settings, seeds in [*product(METHODS, SETTINGS, (1,)), *product(("DREAM",), SETTINGS, (5,))]:
        peers = plain_epochs(data, is_oracle=name != "DREAM", device=device)
        ours, peer = epochs_in_turns(our_epochs(data, name, settings, seeds, device), peers)
        # In units of the peer's epochs at the same time, as seconds drift when other processes use the processor.
        one_seed.setdefault((name, settings), ours / peer)
        note = [where, f"{seeds * (PAIRS - DEV) / ours:,.0f} pairs a second"]
        if seeds > 1:
            note.append(f"{ours / peer / one_seed[name, settings]:.1f} times one seed; the peer runs {seeds} times")
        if device == "cuda":
            note.append(f"{bandwidth_share(data, ours, seeds):.0%} of the memory bandwidth's limit")
        title = f"epoch of {name}, {data.dim} dimensions, {settings}, {seeds} seed{'s' * (seeds > 1)}"
        rows.append(row(title, ours, peer * seeds, "; ".join(note), of_ratio=1))
    return rows


def bandwidth_share(data: TrainingData, taken: float, seeds: int) -> float:
    """Return the time of the minimal memory traffic at copy speed, as a fraction of the time taken.

    The minimal traffic of a step: the gather reads and writes its vectors; two products, forward and backward, read
    them, write results and read gradients; weights, gradients and moments are read and written.
    """
    steps = -(-(PAIRS - DEV) // BATCH)
    texts, weights = 4 * BATCH * data.dim, 2 * data.dim**2
    a_step = 4 * seeds * (texts * (2 + 2 + 4) + weights * 7)
    return steps * a_step / copy_speed() / taken


def copy_speed(numbers: int = 2**28) -> float:
    """Return the bytes per second, read plus written, of a copy on the GPU."""
    source = torch.zeros(numbers, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * numbers / min(seconds(lambda: target.copy_(source), "cuda") for _ in range(5))


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Run every comparison; with `quick`, only the smallest."""
    from disent_assets.run.step import freed_memory_kept  # bench.gpu imports this module where there is no Dagster

    torch.set_num_threads(1)  # the second core trains the next head: two threads on small products gain little
    with freed_memory_kept():  # as in a step; the peer, in the same process, benefits too
        rows = [
            measured
            for dim in ((384,) if quick else (384, 768))
            for measured in side_by_side(data(dim, "cpu"), "1 thread", "cpu")
        ]
    if torch.cuda.is_available():
        rows += [measured for dim in (384, 768) for measured in side_by_side(data(dim, "cuda"), "GPU", "cuda")]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for line in run(quick=parser.parse_args().quick):
        print(json.dumps(line), flush=True)
