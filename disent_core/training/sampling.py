"""Build training batches: shuffled pairs, random partners and negatives.

Every draw depends only on a seed and an epoch. The rows of a whole epoch are drawn at once; a step only gathers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.optimisation.seeds import generator
from disent_core.training.data import Batch, PairRows, TrainingData, group_widths, grouped_states
from disent_core.training.needs import SIDES, Draw

Pool = Int[Tensor, " _"]
Row = Int[Tensor, " rows"]
"""One number per text: its row in the bank, or its language."""
Rows = dict[str, Tensor]
"""Bank rows of the texts in pairs, by role (`source`, `target_partner`, ...), and the languages of both sides.

Each is [pairs], or [seeds, pairs].
"""

Widths = Mapping[str, Sequence[int]]
"""`group_widths` by role; empty if lengths are read from the states."""

_REDRAWS = 64
"""Attempts to draw a text other than the anchor before concluding that the language has none."""


@dataclass(frozen=True)
class PairSampler:
    """Gathers the batches that a head trains on.

    A batch has `source_vectors`, `source_language` and the same for the target, and optionally the `grouped_states` of
    both (`states`); `source_template_vectors`, `source_residual_vectors` and `source_has_residual` (`masked`); and for
    each of `draws`, with states likewise:

    - `source_partner_vectors`: a random training sentence of the same language, never the anchor's own text;
    - `source_negative_vectors`: the same, from the negative pool;
    - `source_slot_swap_vectors`: the same utterance with other slot values, from the training template pairs; if there
      is none, for instance without slots, the anchor itself;
    - `source_other_pair_vectors`, `target_...`: both sides of another training pair, of any languages;
    - `source_second_half_vectors`, `target_...`, with `..._language`: the pairs of the batch's second half; the batch's
      pairs are then those of its first half only;
    - `source_next_in_batch`, `target_...`: no vectors, but the position in the batch of the next pair with the same
      language on that side (cyclic). Batches are shuffled, so it is a random other pair; a single pair is its own.

    `role_vectors` has them all, [roles, pairs, dim], in the order of `roles`; the others are views of it. `role_texts`
    [roles, pairs] identifies the texts: equal numbers mean equal texts.
    """

    data: TrainingData
    states: bool = False
    masked: bool = False
    draws: tuple[Draw, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of a pair's texts: both sides, then those of each draw."""
        return (*SIDES, *(f"{side}_{draw}" for draw in self.draws if draw != "next_in_batch" for side in SIDES))

    def plan(
        self, validation: Literal["dev", "train_fraction"], fraction: float, split_seed: int, device: str
    ) -> "BatchPlan":
        """Split the pairs into training and validation, with everything on the device."""
        train, dev = self.data.splits["train"], self.data.splits["dev"]
        if validation == "train_fraction":
            # The split has a seed of its own, so that all seeds of a head validate on the same pairs.
            order = torch.randperm(len(train), generator=generator("split", split_seed))
            held_out = max(1, round(fraction * len(train)))
            train, dev = train.select(order[held_out:]), train.select(order[:held_out])
        if not len(train) or not len(dev):
            raise TrainingError(
                f"{len(train)} training and {len(dev)} validation pairs: both are needed. "
                "Give the corpus a dev split, or set validation = 'train_fraction'"
            )
        states, rows = self.data.states if self.states else None, self.data.state_rows
        data = replace(
            self.data,
            vectors=self.data.vectors.to(device),
            states=None if states is None else states.to(device),
            state_rows=None if rows is None else rows.to(device),
        )
        # The length of a text without states is meaningless.
        lengths = states.length[rows] if device != "cpu" and states is not None and rows is not None else None
        return BatchPlan(replace(self, data=data), train, dev, split_seed, device, lengths)

    def rows(self, pairs: PairRows, random: torch.Generator) -> Rows:
        """Return the rows to gather for some pairs, in order, including rows drawn for them."""
        rows: Rows = dict(pairs.text) | {f"{side}_language": pairs.language[side] for side in SIDES}
        if self.masked:
            rows |= {f"{side}_template": pairs.template[side] for side in SIDES}
            rows |= {f"{side}_residual": pairs.residual[side] for side in SIDES}
        for draw in self.draws:  # "second_half" and "next_in_batch" come from the batch, so nothing is drawn
            if draw == "other_pair":
                other_pairs = _draw_others(len(pairs), random)
                rows |= {f"{side}_other_pair": pairs.text[side][other_pairs] for side in SIDES}
            elif draw == "slot_swap":
                templates = list(self.data.template_pairs.values())
                rows |= {f"{side}_slot_swap": draw_slot_swaps(templates, pairs.text[side], random) for side in SIDES}
            elif draw in ("partner", "negative"):
                pools = self.data.sentences if draw == "partner" else self.data.negatives
                for side in SIDES:
                    rows[f"{side}_{draw}"] = draw_texts(
                        pools, pairs.language[side], pairs.text[side], random, draw=draw, names=self.data.languages
                    )
        return rows

    def gather(self, rows: Rows, widths: Widths) -> Batch:
        # One gather for all roles: [seeds, roles, pairs], then [seeds, roles, pairs, dim].
        roles = torch.stack([rows[role] for role in self.roles], dim=1)
        vectors = self.data.vectors.take(roles.flatten()).view(*roles.shape, self.data.dim)
        batch: Batch = {name: value for name, value in rows.items() if name.endswith("_language")}
        if "next_in_batch" in self.draws:
            batch |= {f"{side}_next_in_batch": next_of_its_language(rows[f"{side}_language"]) for side in SIDES}
        batch |= {"role_vectors": vectors, "role_texts": roles}
        for index, role in enumerate(self.roles):
            batch[f"{role}_vectors"] = vectors[:, index]
            batch |= self._states(f"{role}_", rows[role], widths.get(role))
        if self.masked:
            for side in SIDES:
                batch |= self._targets(side, rows)
        return batch

    def text(self, rows: Int[Tensor, " texts"], widths: Sequence[int] | None = None) -> Batch:
        """Gather the `vectors` of some texts and, if states are read, their `grouped_states`."""
        states = {name: value.squeeze(0) for name, value in self._states("", rows.unsqueeze(0), widths).items()}
        return {"vectors": self.data.vectors.take(rows)} | states

    def _states(self, prefix: str, rows: Int[Tensor, "seeds texts"], widths: Sequence[int] | None) -> Batch:
        if not self.states or self.data.states is None or self.data.state_rows is None:
            return {}
        grouped = grouped_states(self.data.states, self.data.state_rows[rows], widths)
        return {f"{prefix}{name}": value for name, value in grouped.items()}

    def _targets(self, side: str, rows: Rows) -> Batch:
        template, residual, take = rows[f"{side}_template"], rows[f"{side}_residual"], self.data.vectors.take
        shape = (*template.shape, self.data.dim)
        return {
            f"{side}_template_vectors": take(template.flatten()).view(shape),
            # -1 means no residual: the target is then arbitrary, and `has_residual` [seeds, pairs] gives it weight 0.
            f"{side}_residual_vectors": take(residual.flatten().clamp_min(0)).view(shape),
            f"{side}_has_residual": (residual >= 0).float(),
        }


@dataclass(frozen=True)
class BatchPlan:
    """Training and validation pairs of one run, on its device.

    `lengths` has the lengths of the texts' token states, on the CPU, if states are read and the device is another: the
    longest length is then known without waiting for the device.
    """

    sampler: PairSampler
    train: PairRows
    dev: PairRows
    split_seed: int
    device: str
    lengths: Int[Tensor, " texts"] | None = None

    def training_batches(
        self, seeds: Sequence[int], epoch: int, batch_size: int, *, drop_last: bool = False
    ) -> Iterator[tuple[int, Batch]]:
        """Yield the number of pairs and the tensors (seeds first) of each step of an epoch, shuffled per seed."""
        drawn = []
        for seed in seeds:
            # Drawn from seed and epoch only: a resumed run draws the same, and no seed shifts another's draws.
            random = generator("epoch", seed, epoch)
            order = torch.randperm(len(self.train), generator=random)
            drawn.append(self.sampler.rows(self.train.select(order), random))
        # [seeds, pairs] for each role: one gather per step serves all seeds.
        rows = {name: torch.stack([rows_of_seed[name] for rows_of_seed in drawn]) for name in drawn[0]}
        yield from self._batches(rows, batch_size, drop_last=drop_last)

    def validation_batches(self, batch_size: int, epoch: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Yield the same for the validation pairs, equal for every seed; draws may depend on the epoch."""
        key = ("validation", self.split_seed) if epoch is None else ("validation", self.split_seed, epoch)
        order = torch.randperm(len(self.dev), generator=generator("validation order", self.split_seed))
        drawn = self.sampler.rows(self.dev.select(order), generator(*key))
        rows = {name: row.unsqueeze(0) for name, row in drawn.items()}
        for count, batch in self._batches(rows, batch_size, drop_last=False):
            yield count, {name: value.squeeze(0) for name, value in batch.items()}

    def validation_texts(self, side: str, batch_size: int = 1024) -> Iterator[Batch]:
        """Yield `vectors` (and `grouped_states`) of one side of the validation pairs, in order."""
        for rows in self.dev.text[side].split(batch_size):
            yield self.sampler.text(rows.to(self.device), self._widths({"": rows.unsqueeze(0)}).get(""))

    def _batches(self, rows: Rows, batch_size: int, *, drop_last: bool) -> Iterator[tuple[int, Batch]]:
        on_cpu, rows = rows, {name: value.to(self.device) for name, value in rows.items()}
        total = rows["source"].shape[1]
        end = total - total % batch_size if drop_last and total > batch_size else total
        for start in range(0, end, batch_size):
            step_rows = self._step(rows, start, batch_size)
            if count := step_rows["source"].shape[1]:
                yield count, self.sampler.gather(step_rows, self._widths(self._step(on_cpu, start, batch_size)))

    def _step(self, rows: Rows, start: int, batch_size: int) -> Rows:
        step_rows = {name: value[:, start : start + batch_size] for name, value in rows.items()}
        return _halved(step_rows) if "second_half" in self.sampler.draws else step_rows

    def _widths(self, rows: Rows) -> Widths:
        if self.lengths is None:
            return {}
        return {role: group_widths(self.lengths[rows[role]]) for role in rows if role in ("", *self.sampler.roles)}


def _halved(rows: Rows) -> Rows:
    """Return the pairs' first half [seeds, pairs // 2] with the second half as partners, without an odd last pair."""
    half = rows["source"].shape[1] // 2
    halved = {name: value[:, :half] for name, value in rows.items()}
    for side in SIDES:
        halved[f"{side}_second_half"] = rows[side][:, half : 2 * half]
        halved[f"{side}_second_half_language"] = rows[f"{side}_language"][:, half : 2 * half]
    return halved


def next_of_its_language(language: Int[Tensor, "seeds pairs"]) -> Int[Tensor, "seeds pairs"]:
    """Return for each position the next position in its row with the same label, wrapping around: 0 1 0 gives 2 1 0."""
    # Sorted by label, each label is a run from `first` to `end`: take the next position, or after the last the first.
    order = language.argsort(dim=1, stable=True)
    sorted_ = language.gather(1, order)
    first, end = (torch.searchsorted(sorted_, sorted_, right=right) for right in (False, True))
    following = torch.arange(1, 1 + language.shape[1], device=language.device).expand_as(end)
    return torch.empty_like(order).scatter_(1, order, order.gather(1, torch.where(following == end, first, following)))


def _draw_others(count: int, random: torch.Generator) -> Int[Tensor, " count"]:
    if count == 1:
        raise TrainingError("there is just one pair, but another one must be drawn for it. Add pairs to the corpus")
    # A cyclic shift by 1 to count - 1 never hits the pair itself.
    return (torch.arange(count) + torch.randint(1, count, (count,), generator=random)) % count


def draw_texts(
    pools: Sequence[Pool], language: Row, anchors: Row, random: torch.Generator, *, draw: str, names: Sequence[str]
) -> Row:
    """Draw for each row a text of its language's pool, uniformly, other than the anchor itself."""
    sizes = torch.tensor([len(pool) for pool in pools])
    if (sizes[language] == 0).any():
        counts = ", ".join(f"{name} {size}" for name, size in zip(names, sizes.tolist(), strict=True))
        remedy = "For negatives, raise negatives.threshold or choose smoothing = 'none'"
        raise TrainingError(f"a language has no {draw} to draw. Texts to draw from: {counts}. {remedy}")
    all_texts = torch.cat(list(pools))
    starts = torch.cumsum(sizes, dim=0) - sizes  # the pool of language l is all_texts[starts[l]:starts[l] + sizes[l]]
    # Rejection sampling: redraw where the anchor itself was drawn. float64 can reach every row of a large pool.
    drawn = anchors.clone()
    for _ in range(_REDRAWS):
        again = (drawn == anchors).nonzero().squeeze(1)
        if not len(again):
            return drawn
        row_language = language[again]
        offset = (torch.rand(len(again), generator=random, dtype=torch.float64) * sizes[row_language]).long()
        drawn[again] = all_texts[starts[row_language] + offset]
    if not (drawn == anchors).any():
        return drawn
    alone = ", ".join(names[int(label)] for label in torch.unique(language[drawn == anchors]))
    raise TrainingError(f"{alone} has just one {draw}, the anchor itself. Add sentences to the corpus")


def draw_slot_swaps(templates: Sequence[PairRows], anchors: Row, random: torch.Generator) -> Row:
    """Draw for each row one of its slot swaps, the targets of template pairs whose source is the row's text.

    A text without template pairs is its own swap.
    """
    if not sum(map(len, templates)):
        raise TrainingError("there are no template pairs to draw from. Slots need another value of their type")
    sources, order = torch.cat([pairs.text["source"] for pairs in templates]).sort(stable=True)
    targets = torch.cat([pairs.text["target"] for pairs in templates])[order]
    # Sources are sorted, so an anchor's pairs are the `count` pairs from `first` on.
    first = torch.searchsorted(sources, anchors)
    count = torch.searchsorted(sources, anchors, right=True) - first
    offset = (torch.rand(len(anchors), generator=random, dtype=torch.float64) * count).long()
    drawn = targets[(first + offset).clamp_max(len(targets) - 1)]
    return torch.where(count > 0, drawn, anchors)
