"""Which texts meet in a step: shuffled pairs, random partners, negatives of the pool.

Every draw depends on a seed and an epoch alone. Rows are drawn for a whole epoch at once; a step only gathers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.storage.tables import fingerprint
from disent_core.training.data import SIDES, Batch, PairRows, TrainingData, grouped_states

Draw = Literal["partner", "negative", "mate", "other_pair", "second_half", "next_in_batch"]
Rows = dict[str, Tensor]
"""For each text of a pair, by role (`source`, `target_partner`, ...), its row in the bank; and their languages."""

_REDRAWS = 64


@dataclass(frozen=True)
class PairSampler:
    """Batches of what a head asks for.

    A batch has `source_vectors`, `source_language` and the same of the target, and on demand the `grouped_states`
    of both (`states`); `source_template_vectors`, `source_residual_vectors` and `source_has_residual` (`masked`);
    and for each of `draws`, with states likewise:

    - `source_partner_vectors`: a random training sentence of the same language, never the anchor's own text;
    - `source_negative_vectors`: the same, of the negative pool;
    - `source_mate_vectors`: the same utterance with other slot values, of the template pairs of training; where
      there is none, as without slots, the anchor itself;
    - `source_other_pair_vectors`, `target_...`: both sides of another training pair, whatever its languages;
    - `source_second_half_vectors`, `target_...`, with `..._language`: the pairs of the batch's second half, and
      only those of its first half are pairs then;
    - `source_next_in_batch`, `target_...`: no vectors, but which pair of the batch is the next of the language on
      that side, in a circle. Batches are shuffled, so that is a random other one; a lone one is its own.

    `role_vectors` has them all, [roles, pairs, dim], in the order of `roles`: the others are views of it.
    `role_texts` tells which texts they are, [roles, pairs]: those of equal number are equal.
    """

    data: TrainingData
    states: bool = False
    masked: bool = False
    draws: tuple[Draw, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """The texts that a pair comes with: both sides, then each draw's."""
        return (*SIDES, *(f"{side}_{draw}" for draw in self.draws if draw != "next_in_batch" for side in SIDES))

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

    def rows(self, pairs: PairRows, generator: torch.Generator) -> Rows:
        """What is gathered for some pairs, in order, with what is drawn for them."""
        rows: Rows = dict(pairs.text) | {f"{side}_language": pairs.language[side] for side in SIDES}
        if self.masked:
            rows |= {f"{side}_template": pairs.template[side] for side in SIDES}
            rows |= {f"{side}_residual": pairs.residual[side] for side in SIDES}
        for draw in self.draws:
            if draw == "other_pair":
                other = _others(len(pairs), generator)
                rows |= {f"{side}_other_pair": pairs.text[side][other] for side in SIDES}
            elif draw == "mate":
                templates = list(self.data.template_pairs.values())
                rows |= {f"{side}_mate": draw_mates(templates, pairs.text[side], generator) for side in SIDES}
            elif draw in ("partner", "negative"):
                pools = self.data.sentences if draw == "partner" else self.data.negatives
                for side in SIDES:
                    rows[f"{side}_{draw}"] = draw_texts(
                        pools, pairs.language[side], pairs.text[side], generator, what=draw, names=self.data.languages
                    )
        return rows

    def gather(self, rows: Rows) -> Batch:
        """The tensors of some rows, which are seeds x pairs."""
        roles = torch.stack([rows[role] for role in self.roles], dim=1)
        vectors = self.data.vectors.take(roles.flatten()).view(*roles.shape, self.data.dim)
        batch: Batch = {name: value for name, value in rows.items() if name.endswith("_language")}
        if "next_in_batch" in self.draws:
            batch |= {f"{side}_next_in_batch": next_of_its_language(rows[f"{side}_language"]) for side in SIDES}
        batch |= {"role_vectors": vectors, "role_texts": roles}
        for index, role in enumerate(self.roles):
            batch[f"{role}_vectors"] = vectors[:, index]
            batch |= self._states(f"{role}_", rows[role])
        if self.masked:
            for side in SIDES:
                batch |= self._targets(side, rows)
        return batch

    def text(self, rows: Int[Tensor, " texts"]) -> Batch:
        """`vectors` of some texts and, if asked for, their `grouped_states`."""
        states = {name: value.squeeze(0) for name, value in self._states("", rows.unsqueeze(0)).items()}
        return {"vectors": self.data.vectors.take(rows)} | states

    def _states(self, prefix: str, rows: Int[Tensor, "seeds texts"]) -> Batch:
        if not self.states or self.data.states is None or self.data.state_rows is None:
            return {}
        grouped = grouped_states(self.data.states, self.data.state_rows[rows])
        return {f"{prefix}{name}": value for name, value in grouped.items()}

    def _targets(self, side: str, rows: Rows) -> Batch:
        template, residual, take = rows[f"{side}_template"], rows[f"{side}_residual"], self.data.vectors.take
        shape = (*template.shape, self.data.dim)
        return {
            f"{side}_template_vectors": take(template.flatten()).view(shape),
            f"{side}_residual_vectors": take(residual.flatten().clamp_min(0)).view(shape),
            f"{side}_has_residual": (residual >= 0).float(),
        }


@dataclass(frozen=True)
class BatchPlan:
    """Training and validation pairs of one run, on its device."""

    sampler: PairSampler
    train: PairRows
    dev: PairRows
    split_seed: int
    device: str

    def training_batches(
        self, seeds: Sequence[int], epoch: int, batch_size: int, *, drop_last: bool = False
    ) -> Iterator[tuple[int, Batch]]:
        """Pairs and stacked tensors (seeds first) of each step of an epoch, shuffled for each seed by itself.

        `drop_last` leaves out a last batch that is smaller than the others.
        """
        drawn = []
        for seed in seeds:
            generator = _generator("epoch", seed, epoch)
            order = torch.randperm(len(self.train), generator=generator)
            drawn.append(self.sampler.rows(self.train.select(order), generator))
        rows = {name: torch.stack([own[name] for own in drawn]) for name in drawn[0]}
        yield from self._batches(rows, batch_size, drop_last=drop_last)

    def validation_batches(self, batch_size: int, epoch: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Pairs and tensors of the validation pairs, the same for every seed; what is drawn may depend on the epoch."""
        key = ("validation", self.split_seed) if epoch is None else ("validation", self.split_seed, epoch)
        order = torch.randperm(len(self.dev), generator=_generator("validation order", self.split_seed))
        drawn = self.sampler.rows(self.dev.select(order), _generator(*key))
        rows = {name: own.unsqueeze(0) for name, own in drawn.items()}
        for count, batch in self._batches(rows, batch_size, drop_last=False):
            yield count, {name: value.squeeze(0) for name, value in batch.items()}

    def validation_texts(self, side: str, batch_size: int = 1024) -> Iterator[Batch]:
        """`vectors` (and `grouped_states`) of one side of the validation pairs, in order."""
        for rows in self.dev.text[side].split(batch_size):
            yield self.sampler.text(rows.to(self.device))

    def _batches(self, rows: Rows, batch_size: int, *, drop_last: bool) -> Iterator[tuple[int, Batch]]:
        rows = {name: value.to(self.device) for name, value in rows.items()}
        total = rows["source"].shape[1]
        end = total - total % batch_size if drop_last and total > batch_size else total
        for start in range(0, end, batch_size):
            own = {name: value[:, start : start + batch_size] for name, value in rows.items()}
            if "second_half" in self.sampler.draws:
                own = _halved(own)
            if count := own["source"].shape[1]:
                yield count, self.sampler.gather(own)


def _halved(rows: Rows) -> Rows:
    """The first half of the pairs, which meet the second; of an odd number the last is left out."""
    half = rows["source"].shape[1] // 2
    second = {side: rows[side][:, half : 2 * half] for side in SIDES}
    languages = {side: rows[f"{side}_language"][:, half : 2 * half] for side in SIDES}
    return (
        {name: value[:, :half] for name, value in rows.items()}
        | {f"{side}_second_half": second[side] for side in SIDES}
        | {f"{side}_second_half_language": languages[side] for side in SIDES}
    )


def next_of_its_language(language: Int[Tensor, "seeds pairs"]) -> Int[Tensor, "seeds pairs"]:
    """Where in its row the next equal label is, in a circle."""
    order = language.argsort(dim=1, stable=True)
    sorted_ = language.gather(1, order)
    first, end = (torch.searchsorted(sorted_, sorted_, right=right) for right in (False, True))
    following = torch.arange(1, 1 + language.shape[1], device=language.device).expand_as(end)
    return torch.empty_like(order).scatter_(1, order, order.gather(1, torch.where(following == end, first, following)))


def _others(count: int, generator: torch.Generator) -> Int[Tensor, " count"]:
    """For each of some things a uniform other one."""
    if count == 1:
        raise TrainingError("there is just one pair, and another one is to be drawn for it. Add pairs to the corpus")
    return (torch.arange(count) + torch.randint(1, count, (count,), generator=generator)) % count


def draw_texts(
    pools: Sequence[Int[Tensor, " _"]],
    language: Int[Tensor, " rows"],
    anchors: Int[Tensor, " rows"],
    generator: torch.Generator,
    *,
    what: str,
    names: Sequence[str],
) -> Int[Tensor, " rows"]:
    """For each row a uniform text of its language's pool, other than the anchor itself.

    Args:
        pools: texts of each language.
        language: of each row, its number among the pools.
        anchors: a text for each row.
        generator: of the draws.
        what: what is drawn, for errors.
        names: of the languages, for errors.

    Raises:
        TrainingError: if a language has nothing else to draw.
    """
    sizes = torch.tensor([len(pool) for pool in pools])
    if (sizes[language] == 0).any():
        counts = ", ".join(f"{name} {size}" for name, size in zip(names, sizes.tolist(), strict=True))
        remedy = "For negatives, raise negatives.threshold or choose smoothing = 'none'"
        raise TrainingError(f"a language has no {what} to draw. Texts to draw from: {counts}. {remedy}")
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
    alone = ", ".join(names[int(label)] for label in torch.unique(language[drawn == anchors]))
    raise TrainingError(f"{alone} has just one {what}, the anchor itself. Add sentences to the corpus")


def draw_mates(
    templates: Sequence[PairRows], anchors: Int[Tensor, " rows"], generator: torch.Generator
) -> Int[Tensor, " rows"]:
    """For each row a uniform one of the template pairs that its text is the source of, or the text itself.

    Raises:
        TrainingError: if there are no template pairs.
    """
    if not sum(map(len, templates)):
        raise TrainingError("there are no template pairs to draw from. Slots need another value of their type")
    sources, order = torch.cat([pairs.text["source"] for pairs in templates]).sort(stable=True)
    targets = torch.cat([pairs.text["target"] for pairs in templates])[order]
    first = torch.searchsorted(sources, anchors)
    count = torch.searchsorted(sources, anchors, right=True) - first
    offset = (torch.rand(len(anchors), generator=generator, dtype=torch.float64) * count).long()
    drawn = targets[(first + offset).clamp_max(len(targets) - 1)]
    return torch.where(count > 0, drawn, anchors)


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
