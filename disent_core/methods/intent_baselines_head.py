"""Train the baselines of EMU."""

from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor, nn

from disent_core.errors import TrainingError
from disent_core.losses import contrastive, similarity
from disent_core.methods.families.intent import IntentTask, Lookup, intent_tasks
from disent_core.training.data import Batch


class SoftmaxTask(IntentTask):
    """Cross-entropy of the intent."""

    def build(self) -> None:
        self.classifier = nn.Linear(self.source.dim, self.data.classes)

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return `classification`, in nats."""
        logits = self.classifier(lookup(batch["rows"]))
        return {"classification": similarity.cross_entropy(logits, self.labels(batch["rows"])).mean()}


class ContrastiveTask(IntentTask):
    """Each utterance with one of the same intent or of another, with probability 1/2 each."""

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw `partners`: one utterance for each."""
        pool = LabelPool(rows, self.data.labels)
        same, different = pool.same(rows, random), pool.different(rows, random)
        is_same = (torch.rand(len(rows), generator=random) < 0.5) & (same != rows)
        return {"partners": torch.where(is_same, same, different)}

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return `contrast`, squared distances."""
        left, right = lookup(torch.cat([batch["rows"], batch["partners"]])).chunk(2)
        is_same = self.labels(batch["rows"]) == self.labels(batch["partners"])
        return {"contrast": contrastive.siamese(left, right, is_same, margin=self.config.margin).mean()}


class NPairTask(IntentTask):
    """Each utterance with one of the same intent and some of others; the only one of an intent is its own positive."""

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw `positives`, one for each utterance, and `negatives`."""
        pool = LabelPool(rows, self.data.labels)
        repeated = rows.repeat_interleave(self.config.npair_n - 1)
        return {
            "positives": pool.same(rows, random),
            "negatives": pool.different(repeated, random).view(len(rows), -1),
        }

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return `contrast`, in nats."""
        texts = torch.cat([batch["rows"], batch["positives"], batch["negatives"].flatten()])
        count = len(batch["rows"])
        anchors, positives, negatives = lookup(texts).split([count, count, len(texts) - 2 * count])
        negatives = negatives.view(*batch["negatives"].shape, -1)
        return {"contrast": contrastive.n_pair(anchors, positives, negatives).mean()}


class LabelPool:
    """Draws of these `rows` utterances of the same or of different labels, uniformly."""

    def __init__(self, rows: Int[Tensor, " pool"], labels: Int[Tensor, " texts"]) -> None:
        self.labels, self.sorted = labels, rows[labels[rows].argsort(stable=True)]
        # Utterances sorted by label: those of label y begin at starts[y] and are counts[y].
        self.counts = torch.bincount(labels[rows])
        self.starts = self.counts.cumsum(0) - self.counts
        if int((self.counts > 0).sum()) < 2:
            raise TrainingError(f"all {len(rows)} utterances have the same intent, and the loss needs two")
        self.position = torch.zeros_like(labels)  # of each utterance in `sorted`
        self.position[self.sorted] = torch.arange(len(rows))

    def same(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
        """Draw another utterance of each row's label; the row itself if it is the only one."""
        label = self.labels[rows]
        drawn = self.starts[label] + _below((self.counts[label] - 1).clamp_min(1), random)
        drawn += (drawn >= self.position[rows]).long()  # skip the row itself
        return torch.where(self.counts[label] > 1, self.sorted[drawn.clamp_max(len(self.sorted) - 1)], rows)

    def different(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
        """Draw an utterance of another label for each row."""
        label = self.labels[rows]
        drawn = _below(len(self.sorted) - self.counts[label], random)
        return self.sorted[drawn + torch.where(drawn < self.starts[label], 0, self.counts[label])]


def _below(limits: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
    """Draw an integer from 0 to below each limit."""
    return (torch.rand(len(limits), generator=random, dtype=torch.float64) * limits).long()


softmax_tasks = partial(intent_tasks, SoftmaxTask)
contrastive_tasks = partial(intent_tasks, ContrastiveTask)
npair_tasks = partial(intent_tasks, NPairTask)
