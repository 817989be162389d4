"""Which texts meet in a step: shuffled pairs, random partners of the same language, negatives of the pool.

Every draw depends on a seed and an epoch alone. Rows are drawn for a whole epoch at once; a step only gathers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.heads.data import SIDES, Batch, PairRows, TrainingData, grouped_states
from disent_core.tables import fingerprint

Draw = Literal["partner", "negative"]
_REDRAWS = 64


@dataclass(frozen=True)
class PairSampler:
    """Batches of what a head asks for.

    A batch has `source_vectors`, `source_language` and the same of the target, and on demand:
    the `grouped_states` of both (`states`); `source_template_vectors`, `source_residual_vectors` and
    `source_has_residual` (`masked`); and for each of `draws`, `source_partner_vectors` (a random training
    sentence of the same language) or `source_negative_vectors` (of the negative pool), with states likewise.
    None of those is ever the anchor's own text.
    """

    data: TrainingData
    states: bool = False
    masked: bool = False
    draws: tuple[Draw, ...] = ()

    def plan(
        self,
        validation: Literal["dev", "train_fraction"],
        fraction: float,
        split_seed: int,
        device: str,
    ) -> "BatchPlan":
        """Split into training and validation pairs, with everything on the device.

        Raises:
            TrainingError: if there is nothing to validate on, or nothing to draw from.
        """
        train, dev = self.data.splits["train"], self.data.splits["dev"]
        if validation == "train_fraction":
            order = torch.randperm(len(train), generator=_generator("split", split_seed))
            held_out = max(1, round(fraction * len(train)))
            train, dev = train.select(order[held_out:]), train.select(order[:held_out])
        if not len(train) or not len(dev):
            raise TrainingError(
                f"{len(train)} training and {len(dev)} validation pairs: both are needed. "
                "Give the corpus a dev split, or set validation = 'train_fraction'"
            )
        return BatchPlan(_on_device(self, device), train, dev, split_seed, device)

    def gather(self, pairs: PairRows, drawn: Mapping[str, Tensor], shape: torch.Size) -> Batch:
        """The tensors of some pairs, seeds first: `shape` is seeds x pairs, `drawn` the texts of `source_partner`..."""
        batch: Batch = {}
        for side in SIDES:
            batch |= self.text(f"{side}_", pairs.text[side].view(shape))
            batch[f"{side}_language"] = pairs.language[side].view(shape)
            if self.masked:
                batch |= self._targets(side, pairs, shape)
        for role, rows in drawn.items():
            batch |= self.text(f"{role}_", rows.view(shape))
        return batch

    def text(self, prefix: str, rows: Int[Tensor, "seeds texts"]) -> Batch:
        """`vectors` of some texts and, if asked for, their `grouped_states`; every name begins with the prefix."""
        batch = {"vectors": self.data.vectors.take(rows.flatten()).view(*rows.shape, self.data.dim)}
        if self.states and self.data.states is not None and self.data.state_rows is not None:
            batch |= grouped_states(self.data.states, self.data.state_rows[rows])
        return {f"{prefix}{name}": value for name, value in batch.items()}

    def _targets(self, side: str, pairs: PairRows, shape: torch.Size) -> Batch:
        residual, take = pairs.residual[side], self.data.vectors.take
        return {
            f"{side}_template_vectors": take(pairs.template[side]).view(*shape, self.data.dim),
            f"{side}_residual_vectors": take(residual.clamp_min(0)).view(*shape, self.data.dim),
            f"{side}_has_residual": (residual >= 0).float().view(shape),
        }


@dataclass(frozen=True)
class BatchPlan:
    """Training and validation pairs of one run, on its device."""

    sampler: PairSampler
    train: PairRows
    dev: PairRows
    split_seed: int
    device: str

    def training_batches(self, seeds: Sequence[int], epoch: int, batch_size: int) -> Iterator[tuple[int, Batch]]:
        """Rows and stacked tensors (seeds first) of each step of an epoch, shuffled for each seed by itself."""
        orders, drawn = [], []
        for seed in seeds:
            generator = _generator("epoch", seed, epoch)
            order = torch.randperm(len(self.train), generator=generator)
            orders.append(order)
            drawn.append(self._draw(self.train.select(order), generator))
        for start in range(0, len(self.train), batch_size):
            block = slice(start, start + batch_size)
            rows = torch.stack([order[block] for order in orders])
            own = {role: torch.stack([one[role][block] for one in drawn]) for role in drawn[0]}
            yield rows.shape[1], self._stacked(self.train, rows, own)

    def validation_batches(self, seeds: int, batch_size: int) -> Iterator[tuple[int, Batch]]:
        """Rows and tensors of the validation pairs, the same, with the same draws, in every epoch and seed."""
        drawn = self._draw(self.dev, _generator("validation", self.split_seed))
        for start in range(0, len(self.dev), batch_size):
            rows = torch.arange(start, min(start + batch_size, len(self.dev)))
            own = {role: texts[rows].unsqueeze(0) for role, texts in drawn.items()}
            batch = self._stacked(self.dev, rows.unsqueeze(0), own)
            yield (
                len(rows),
                {name: value.expand(seeds, *value.shape[1:]) for name, value in batch.items()},
            )

    def validation_texts(self, side: str, batch_size: int = 1024) -> Iterator[Batch]:
        """`vectors` (and `grouped_states`) of one side of the validation pairs, in order."""
        for rows in self.dev.text[side].split(batch_size):
            batch = self.sampler.text("", rows.to(self.device).unsqueeze(0))
            yield {name: value.squeeze(0) for name, value in batch.items()}

    def _draw(self, pairs: PairRows, generator: torch.Generator) -> dict[str, Tensor]:
        data = self.sampler.data
        pools = {"partner": data.sentences, "negative": data.negatives}
        return {
            f"{side}_{draw}": draw_texts(pools[draw], pairs.language[side], pairs.text[side], generator, what=draw)
            for draw in self.sampler.draws
            for side in SIDES
        }

    def _stacked(self, pairs: PairRows, rows: Tensor, drawn: Mapping[str, Tensor]) -> Batch:
        flat = _pairs_on(pairs.select(rows.flatten()), self.device)
        own = {role: texts.flatten().to(self.device) for role, texts in drawn.items()}
        return self.sampler.gather(flat, own, rows.shape)


def draw_texts(
    pools: Sequence[Int[Tensor, " _"]],
    language: Int[Tensor, " rows"],
    anchors: Int[Tensor, " rows"],
    generator: torch.Generator,
    *,
    what: str,
) -> Int[Tensor, " rows"]:
    """For each row a uniform text of its language's pool, other than the anchor itself.

    Raises:
        TrainingError: if a language has nothing else to draw.
    """
    sizes = torch.tensor([len(pool) for pool in pools])
    if (sizes[language] == 0).any():
        raise TrainingError(
            f"a language has no {what} to draw: {sizes.tolist()} texts by language. "
            "For negatives, raise negatives.threshold or choose smoothing = 'none'"
        )
    flat = torch.cat(list(pools))
    starts = torch.cumsum(sizes, dim=0) - sizes
    drawn = anchors.clone()
    for _ in range(_REDRAWS):
        again = (drawn == anchors).nonzero().squeeze(1)
        if not len(again):
            return drawn
        own = language[again]
        offset = (torch.rand(len(again), generator=generator, dtype=torch.float64) * sizes[own]).long()
        drawn[again] = flat[starts[own] + offset]
    if not (drawn == anchors).any():
        return drawn
    raise TrainingError(f"a language has just one {what}, the anchor itself. Add sentences to the corpus")


def _generator(*key: object) -> torch.Generator:
    return torch.Generator().manual_seed(int(fingerprint(*key)[:15], 16))


def _on_device(sampler: PairSampler, device: str) -> PairSampler:
    data = sampler.data
    return replace(
        sampler,
        data=replace(
            data,
            vectors=data.vectors.to(device),
            states=data.states.to(device) if data.states is not None and sampler.states else None,
            state_rows=None if data.state_rows is None else data.state_rows.to(device),
        ),
    )


def _pairs_on(pairs: PairRows, device: str) -> PairRows:
    def part(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {side: rows[side].to(device) for side in SIDES}

    return PairRows(part(pairs.text), part(pairs.language), part(pairs.template), part(pairs.residual))
