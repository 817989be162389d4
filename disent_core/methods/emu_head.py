"""Train EMU (intent classifier, intent centers and language discriminator) and its baselines.

All fine-tune on intents: `IntentTask` has the utterances, the batches and the evaluation on dev. A method overrides
`terms`, and also `draws` if its loss compares utterances.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, permutations
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import Source, embed_all
from disent_core.errors import TrainingError, commas
from disent_core.losses import contrastive, similarity
from disent_core.methods.emu import IntentConfig
from disent_core.methods.families.seed_by_seed import FineTuningTask, tuning_tasks
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData


@dataclass(frozen=True)
class IntentData:
    """Training utterances of all languages, one language after another, then those of dev."""

    texts: Sequence[str]  # text of every row
    bank: Int[Tensor, " texts"]  # row of each text in the training data's vectors
    labels: Int[Tensor, " texts"]  # index of each row's intent; -1 for none, or for an intent that is not trained
    classes: int  # number of trained intents
    labelled: Int[Tensor, " labelled"]  # training rows of the training languages that have an intent
    dev_labelled: Int[Tensor, " dev"]  # dev rows of the training languages that have a trained intent
    adversarial: Sequence[Int[Tensor, " _"]]  # training rows of each adversarial language
    # For each training row, the row of its translation into each adversarial language; -1 if there is none.
    translations: Int[Tensor, "adversaries train"]
    # Dev rows by language, in the same order, of utterances that have an intent in every language.
    dev_parallel: Int[Tensor, "languages parallel"]

    @property
    def first_dev(self) -> int:
        return self.translations.shape[1]


def intent_data(data: TrainingData, training: Sequence[str] = (), adversarial: Sequence[str] = ()) -> IntentData:
    """Collect the utterances of the training data by role.

    Intents are read in the `training` languages; if empty, in English or, without English, in the first language.
    Utterances of `adversarial` languages are unlabelled; if empty, these are all languages not in `training`.
    """
    training = tuple(training) or (("en",) if "en" in data.languages else data.languages[:1])
    adversarial = tuple(adversarial) or tuple(name for name in data.languages if name not in training)
    if unknown := sorted({*training, *adversarial} - set(data.languages)):
        raise TrainingError(f"not languages of this head: {commas(unknown)}. Choose from {commas(data.languages)}")
    parts = {(split, name): part for split in ("train", "dev") for name, part in data.utterances[split].items()}
    ends = accumulate(map(len, parts.values()))
    rows = {key: torch.arange(end - len(part), end) for (key, part), end in zip(parts.items(), ends, strict=True)}
    intents = sorted({intent for name in training for intent in parts["train", name].intents if intent is not None})
    number = {intent: index for index, intent in enumerate(intents)}
    numbers = [number.get(intent or "", -1) for part in parts.values() for intent in part.intents]
    labels = torch.tensor(numbers, dtype=torch.long)

    def labelled(split: str) -> Tensor:
        of_training = torch.cat([rows[split, name] for name in training])
        return of_training[labels[of_training] >= 0]

    def by_id(split: str, language: str) -> dict[str, int]:
        """Return the row of each id, without ids that two corpora share."""
        ids = parts[split, language].ids
        count = Counter(ids)
        return {name: row for name, row in zip(ids, rows[split, language].tolist(), strict=True) if count[name] == 1}

    if not len(labelled("train")):
        remedy = "Give these languages a corpus with intents, or choose other training_languages"
        raise TrainingError(f"no training utterance of {commas(training)} has an intent. {remedy}")
    train_ids = [utterance_id for (split, _), part in parts.items() if split == "train" for utterance_id in part.ids]
    translations = [[rows_by_id.get(utterance_id, -1) for utterance_id in train_ids]
                    for rows_by_id in (by_id("train", name) for name in adversarial)]  # fmt: skip
    dev_rows = [by_id("dev", name) for name in data.utterances["dev"]]
    shared = [utterance_id for utterance_id in dev_rows[0] if all(utterance_id in row_of for row_of in dev_rows)]
    parallel = torch.tensor([[row_of[utterance_id] for utterance_id in shared] for row_of in dev_rows]).long()
    parallel = parallel.view(len(dev_rows), len(shared))
    parallel = parallel[:, (labels[parallel] >= 0).all(dim=0)]
    if not len(labelled("dev")) or parallel.shape[1] < 2:
        raise TrainingError(
            f"{len(labelled('dev'))} dev utterances of {commas(training)} have an intent, {parallel.shape[1]} in every "
            "language; at least 2 are needed. Add a dev split"
        )
    return IntentData(
        texts=[text for part in parts.values() for text in part.texts],
        bank=torch.cat([part.rows for part in parts.values()]),
        labels=labels,
        classes=len(intents),
        labelled=labelled("train"),
        dev_labelled=labelled("dev"),
        adversarial=[rows["train", name] for name in adversarial],
        translations=torch.tensor(translations, dtype=torch.long).view(len(adversarial), len(train_ids)),
        dev_parallel=parallel,
    )


Lookup = Callable[[Tensor], Tensor]
"""Function from rows of texts to vectors: computed with gradient in training, read from a matrix on dev."""


class IntentTask(FineTuningTask):
    """Training of one seed on intents; `inputs` has tokens or frozen vectors for the rows of `data`."""

    def __init__(
        self, data: IntentData, source: Source, inputs: Any, config: IntentConfig, seed: int, device: str
    ) -> None:
        super().__init__()
        self.data, self.source, self.inputs, self.seed, self.device = data, source, inputs, seed, device
        self.config: Any = config
        self.build()
        self.to(device)
        self.optimisers = self.new_optimisers()

    def build(self) -> None:
        """Create additional modules that training needs."""

    def new_optimisers(self) -> dict[str, Optimiser]:
        return {"main": Optimiser(self.parameters(), self.config.optimiser)}

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return the weighted loss terms of a batch: their sum is minimised."""
        raise NotImplementedError

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw additional texts at random for each of these rows, as tensors with one row each."""
        return {}

    def batches(self, epoch: int) -> Sequence[Batch]:
        random = generator(self.seed, "epoch", epoch)
        rows = self.data.labelled[torch.randperm(len(self.data.labelled), generator=random)]
        return self._split({"rows": rows, **self.draws(rows, random)})

    def _split(self, rows: Batch) -> Sequence[Batch]:
        columns = [value.split(self.config.batch_size) for value in rows.values()]
        return [dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True)]

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        terms = self.terms(batch, self.vectors)
        return {**terms, "total": torch.stack(list(terms.values())).sum()}, len(batch["rows"])

    def vectors(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        return self.source(self.inputs, rows)

    def labels(self, rows: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        return self.data.labels[rows].to(self.device)

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the loss on labelled dev utterances, batched as in training, and the nearest-neighbour accuracy."""
        self.eval()
        first = self.data.first_dev
        matrix = embed_all(self.source, self.inputs, torch.arange(first, len(self.data.texts)))

        def lookup(rows: Tensor) -> Tensor:
            return matrix[(rows - first).to(matrix.device)]

        rows = self.data.dev_labelled
        sums: dict[str, float] = {}
        for batch in self._split({"rows": rows, **self.dev_draws(rows)}):
            for name, value in self.terms(batch, lookup).items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(batch["rows"]) / len(rows)
        by_language = [lookup(parallel_rows) for parallel_rows in self.data.dev_parallel]
        labels = [self.labels(parallel_rows) for parallel_rows in self.data.dev_parallel]
        return {**sums, "total": sum(sums.values()), "accuracy_at_1": intent_accuracy(by_language, labels)}

    def dev_draws(self, rows: Int[Tensor, " rows"]) -> Batch:
        """Return draws on dev that are the same in every epoch and seed."""
        return self.draws(rows, generator(0, "dev"))


def intent_accuracy(
    vectors: Sequence[Float[Tensor, "parallel dim"]], labels: Sequence[Int[Tensor, " parallel"]]
) -> float:
    """Return the share of utterances whose nearest one in another language, except translations, has the same intent.

    Nearest by cosine; mean over all ordered pairs of languages. A single language is compared with itself.
    """
    unit = [F.normalize(rows, dim=-1) for rows in vectors]
    accuracies = []
    for query, pool in list(permutations(range(len(unit)), 2)) or [(0, 0)]:
        similarity = unit[query] @ unit[pool].T  # row i of every language is a translation of row i of the others
        similarity.fill_diagonal_(float("-inf"))
        accuracies.append((labels[pool][similarity.argmax(dim=1)] == labels[query]).double().mean())
    return float(torch.stack(accuracies).mean())


def intent_tasks(
    kind: type[IntentTask], data: TrainingData, config: IntentConfig, device: str
) -> Callable[[int], FineTuningTask]:
    utterances = intent_data(data, config.training_languages, getattr(config, "adversarial_languages", ()))

    def make(source: Source, inputs: Any, seed: int) -> IntentTask:
        return kind(utterances, source, inputs, config, seed, device)

    return tuning_tasks(make, data, utterances.texts, utterances.bank, config, device)


_HIDDEN = 900
_LEAK, _DROPOUT = 0.2, 0.2


class Discriminator(nn.Sequential):
    """Logit that an utterance is of a training language: two hidden layers of 900 units with dropout 0.2."""

    def __init__(self, dim: int, activation: Literal["leaky_relu", "relu", "tanh"]) -> None:
        def between() -> nn.Module:
            return {"leaky_relu": nn.LeakyReLU(_LEAK), "relu": nn.ReLU(), "tanh": nn.Tanh()}[activation]

        super().__init__(
            nn.Linear(dim, _HIDDEN), between(), nn.Dropout(_DROPOUT),
            nn.Linear(_HIDDEN, _HIDDEN), between(), nn.Dropout(_DROPOUT),
            nn.Linear(_HIDDEN, 1),
        )  # fmt: skip

    @torch.no_grad()
    def clip_(self, bound: float) -> None:
        torch._foreach_clamp_min_(list(self.parameters()), -bound)
        torch._foreach_clamp_max_(list(self.parameters()), bound)


class EmuTask(IntentTask):
    """One seed of EMU or of one of its ablations."""

    def build(self) -> None:
        dim, config = self.source.dim, self.config
        self.classifier = nn.Linear(dim, self.data.classes)
        centers = torch.zeros(self.data.classes, dim)
        self.centers: Tensor
        if config.centers == "learned":
            self.centers = nn.Parameter(centers)
        else:
            self.register_buffer("centers", centers)
        self.discriminator = Discriminator(dim, config.disc_activation) if config.discriminator else None
        if config.discriminator and not self.data.adversarial:
            problem = "every language is a training language, so the discriminator has no other class"
            raise TrainingError(f"{problem}. Train on several languages, or choose fewer training_languages")

    def new_optimisers(self) -> dict[str, Optimiser]:
        if self.discriminator is None:
            return super().new_optimisers()
        others = [value for name, value in self.named_parameters() if not name.startswith("discriminator.")]
        adam = OptimiserConfig(learning_rate=self.config.discriminator_learning_rate)
        of_discriminator = Optimiser(self.discriminator.parameters(), adam)
        return {"main": Optimiser(others, self.config.optimiser), "discriminator": of_discriminator}

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw `labelled` and `adversarial` utterances for k discriminator updates and the step that follows.

        Both are [rows, k + 1]. The last `labelled` utterance is the row itself. All `adversarial` utterances of an
        update are in one random adversarial language; -1 if an utterance has no translation.
        """
        if self.discriminator is None:
            return {}
        updates, data = self.config.discriminator_updates + 1, self.data
        drawn = torch.randint(len(data.labelled), (len(rows), updates - 1), generator=random)
        labelled = torch.cat([data.labelled[drawn], rows.unsqueeze(1)], dim=1)
        size = min(self.config.batch_size, len(rows) or 1)
        language = torch.randint(len(data.adversarial), (-(-len(rows) // size), updates), generator=random)
        language = language.repeat_interleave(size, dim=0)[: len(rows)]
        if self.config.adversary == "translation":
            return {"labelled": labelled, "adversarial": data.translations[language, labelled]}
        sizes = torch.tensor([len(pool) for pool in data.adversarial])
        offset = (torch.rand(labelled.shape, generator=random, dtype=torch.float64) * sizes[language]).long()
        return {
            "labelled": labelled,
            "adversarial": torch.cat(list(data.adversarial))[(sizes.cumsum(0) - sizes)[language] + offset],
        }

    def dev_draws(self, rows: Int[Tensor, " rows"]) -> Batch:
        """Draw nothing: the dev loss excludes the discriminator, which changes during training."""
        return {}

    def step(self, batch: Batch) -> tuple[Terms, int]:
        of_discriminator = self.update_discriminator(batch)
        terms, examples = super().step(batch)
        return {**terms, **of_discriminator}, examples

    def update_discriminator(self, batch: Batch) -> dict[str, Tensor]:
        """Train the discriminator on fixed vectors; returns the mean of its losses."""
        if self.discriminator is None:
            return {}
        labelled, adversarial = batch["labelled"][:, :-1], batch["adversarial"][:, :-1]
        with torch.no_grad():  # the encoder does not change between these updates, so one pass serves them all
            inputs = self.vectors(torch.cat([labelled.T.flatten(), adversarial.T.flatten().clamp_min(0)]))
            inputs = self._discriminated(inputs).view(2, labelled.shape[1], len(labelled), -1)
        present = (adversarial >= 0).T.to(self.device)
        losses = []
        for update in range(labelled.shape[1]):
            loss = self.discriminator_loss(inputs[0, update], inputs[1, update], present[update])
            self.optimisers["discriminator"].minimise(loss)
            self.discriminator.clip_(self.config.clip)
            losses.append(loss.detach())
        return {"discriminator": torch.stack(losses).mean()}

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return `classification` in nats, `center` and `adversary`, each with its weight.

        Running centers are updated after the loss is computed, in training only.
        """
        config, labels, count = self.config, self.labels(batch["rows"]), len(batch["rows"])
        adversarial = batch["adversarial"][:, -1] if "adversarial" in batch else batch["rows"][:0]
        vectors, adversarial_vectors = lookup(torch.cat([batch["rows"], adversarial.clamp_min(0)])).split(
            [count, len(adversarial)]
        )
        logits = self.classifier(contrastive.scaled_to(vectors, norm=config.alpha))
        terms = {"classification": similarity.cross_entropy(logits, labels).mean()}
        if config.center_weight:
            terms["center"] = config.center_weight * self.center_loss(vectors, labels)
        if len(adversarial):
            labelled_inputs, adversarial_inputs = self._discriminated(vectors), self._discriminated(adversarial_vectors)
            present = (adversarial >= 0).to(self.device)
            terms["adversary"] = -config.gamma * self.discriminator_loss(labelled_inputs, adversarial_inputs, present)
        return terms

    def center_loss(self, vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
        """Return the center loss of the batch, from each vector's distance to the center of its intent."""
        config, centers = self.config, self.centers
        if config.centers == "batch":
            centers, _ = contrastive.class_means(vectors, labels, self.data.classes)
        distance = contrastive.center_distance(vectors, centers[labels])
        if config.centers == "running" and self.training:
            self.centers = contrastive.updated_centers(centers, vectors.detach(), labels, rate=config.center_rate)
        return distance.sum() if config.center_reduction == "sum" else distance.mean()

    def discriminator_loss(
        self,
        labelled: Float[Tensor, "batch dim"],
        adversarial: Float[Tensor, "batch dim"],
        present: Bool[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """Return the mean over the rows that are `present`; the discriminator lowers it, the encoder raises it."""
        assert self.discriminator is not None
        logits = self.discriminator(torch.cat([labelled, adversarial])).squeeze(1).chunk(2)
        form = {"ce_clip": contrastive.binary_cross_entropy, "wgan": contrastive.critic_difference}
        values = form[self.config.disc_loss](*logits) * present
        return values.sum() / present.sum().clamp_min(1)

    def _discriminated(self, vectors: Tensor) -> Tensor:
        is_raw = self.config.disc_input == "raw"
        return vectors if is_raw else contrastive.scaled_to(vectors, norm=self.config.alpha)


tasks = partial(intent_tasks, EmuTask)


# --- baselines --------------------------------------------------------------------------------------------


class SoftmaxTask(IntentTask):
    """Cross-entropy of the intent, in nats."""

    def build(self) -> None:
        self.classifier = nn.Linear(self.source.dim, self.data.classes)

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        logits = self.classifier(lookup(batch["rows"]))
        return {"classification": similarity.cross_entropy(logits, self.labels(batch["rows"])).mean()}


class ContrastiveTask(IntentTask):
    """Pair each utterance with one of the same or of another intent, with probability 1/2 each: squared distances."""

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        pool = LabelPool(rows, self.data.labels)
        same, different = pool.same(rows, random), pool.different(rows, random)
        is_same = (torch.rand(len(rows), generator=random) < 0.5) & (same != rows)
        return {"partners": torch.where(is_same, same, different)}

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        left, right = lookup(torch.cat([batch["rows"], batch["partners"]])).chunk(2)
        is_same = self.labels(batch["rows"]) == self.labels(batch["partners"])
        return {"contrast": contrastive.siamese(left, right, is_same, margin=self.config.margin).mean()}


class NPairTask(IntentTask):
    """Compare, in nats, each utterance with one of its intent (or itself) and several of other intents."""

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        pool = LabelPool(rows, self.data.labels)
        repeated = rows.repeat_interleave(self.config.npair_n - 1)
        return {
            "positives": pool.same(rows, random),
            "negatives": pool.different(repeated, random).view(len(rows), -1),
        }

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        texts = torch.cat([batch["rows"], batch["positives"], batch["negatives"].flatten()])
        count = len(batch["rows"])
        anchors, positives, negatives = lookup(texts).split([count, count, len(texts) - 2 * count])
        negatives = negatives.view(*batch["negatives"].shape, -1)
        return {"contrast": contrastive.n_pair(anchors, positives, negatives).mean()}


class LabelPool:
    """Draw utterances of the same or of other labels from `rows`, uniformly."""

    def __init__(self, rows: Int[Tensor, " pool"], labels: Int[Tensor, " texts"]) -> None:
        self.labels, self.sorted = labels, rows[labels[rows].argsort(stable=True)]
        # Utterances sorted by label: label y has counts[y] of them, beginning at starts[y].
        self.counts = torch.bincount(labels[rows])
        self.starts = self.counts.cumsum(0) - self.counts
        if int((self.counts > 0).sum()) < 2:
            raise TrainingError(f"all {len(rows)} utterances have the same intent, but the loss needs two")
        self.position = torch.zeros_like(labels)  # of each utterance in `sorted`
        self.position[self.sorted] = torch.arange(len(rows))

    def same(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
        """Draw another utterance with each row's label; the row itself if there is no other."""
        label = self.labels[rows]
        drawn = self.starts[label] + _below((self.counts[label] - 1).clamp_min(1), random)
        drawn += (drawn >= self.position[rows]).long()  # skip the row itself
        return torch.where(self.counts[label] > 1, self.sorted[drawn.clamp_max(len(self.sorted) - 1)], rows)

    def different(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
        label = self.labels[rows]
        drawn = _below(len(self.sorted) - self.counts[label], random)
        return self.sorted[drawn + torch.where(drawn < self.starts[label], 0, self.counts[label])]


def _below(limits: Int[Tensor, " rows"], random: torch.Generator) -> Int[Tensor, " rows"]:
    return (torch.rand(len(limits), generator=random, dtype=torch.float64) * limits).long()


softmax_tasks = partial(intent_tasks, SoftmaxTask)
contrastive_tasks = partial(intent_tasks, ContrastiveTask)
npair_tasks = partial(intent_tasks, NPairTask)
