"""Methods that fine-tune on intents, EMU and its baselines: their utterances, batches, and dev evaluation.

A method of this family overrides `terms`, and `draws` if its loss compares utterances.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import Source, VectorMap, embed_all
from disent_core.errors import TrainingError
from disent_core.methods.emu import IntentConfig
from disent_core.methods.families.seed_by_seed import FineTuningTask, open_source
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData


@dataclass(frozen=True)
class IntentData:
    """Training utterances of all languages, one language after another, then those of dev."""

    texts: Sequence[str]  # text of every row
    bank: Int[Tensor, " texts"]  # row of every text in the vectors of the training data
    labels: Int[Tensor, " texts"]  # number of each row's intent; -1 for no intent, or one that is not trained
    classes: int  # number of trained intents
    labelled: Int[Tensor, " labelled"]  # training rows of the training languages that have an intent
    dev_labelled: Int[Tensor, " dev"]  # dev rows of the training languages that have a trained intent
    adversarial: Sequence[Int[Tensor, " _"]]  # training rows of each adversarial language
    # Row of each training row's translation into each adversarial language, -1 if there is none.
    translations: Int[Tensor, "adversaries train"]
    # Dev rows by language of the utterances that have an intent in every language, in one order.
    dev_parallel: Int[Tensor, "languages parallel"]

    @property
    def first_dev(self) -> int:
        return self.translations.shape[1]


def intent_data(data: TrainingData, training: Sequence[str] = (), adversarial: Sequence[str] = ()) -> IntentData:
    """Collect the utterances of the training data by their role.

    Intents are read of `training` languages; none is English if it is one of the languages, else the first. Utterances
    of `adversarial` languages are unlabelled; none is all that are not in `training`.
    """
    training = tuple(training) or (("en",) if "en" in data.languages else data.languages[:1])
    adversarial = tuple(adversarial) or tuple(name for name in data.languages if name not in training)
    if unknown := sorted({*training, *adversarial} - set(data.languages)):
        raise TrainingError(f"{unknown} are no languages of this head. Choose from {list(data.languages)}")
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
        """Return the row of each id; ids that two corpora share are left out, because they are ambiguous."""
        ids = parts[split, language].ids
        is_ambiguous = {utterance_id for utterance_id, count in Counter(ids).items() if count > 1}
        pairs = zip(ids, rows[split, language].tolist(), strict=True)
        return {utterance_id: row for utterance_id, row in pairs if utterance_id not in is_ambiguous}

    if not len(labelled("train")):
        remedy = "Give them a corpus with intents, or choose other training_languages"
        raise TrainingError(f"no training utterance of {list(training)} has an intent. {remedy}")
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
            f"{len(labelled('dev'))} dev utterances of {list(training)} have an intent. Add a dev split"
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
"""From rows of texts to their vectors: computed with gradient in training, read from a matrix on dev."""


class IntentTask(FineTuningTask):
    """Training of one seed on intents: the `source`, an encoder or map, and what else a loss needs.

    `inputs` are those of the source (tokens, or frozen vectors), by the rows of `data`.
    """

    def __init__(
        self, data: IntentData, source: Source, inputs: Any, config: IntentConfig, seed: int, device: str
    ) -> None:
        super().__init__()
        self.data, self.source, self.inputs, self.seed, self.device = data, source, inputs, seed, device
        self.config: Any = config
        self.build()
        self.to(device)
        self.optimisers = {"main": Optimiser(self.main_parameters(), config.optimiser)}

    def build(self) -> None:
        """Make further modules that training needs."""

    def main_parameters(self) -> list[nn.Parameter]:
        """Return parameters that a step on the loss trains."""
        return list(self.parameters())

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return the weighted loss terms of a batch: their sum is minimised."""
        raise NotImplementedError

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw further texts for each of these at random: tensors with one row for each."""
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
        """Return the loss on labelled dev utterances, batched as in training, and the nearest neighbour's accuracy."""
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
    """Share of utterances whose nearest utterance in another language, except its translation, has their intent.

    Nearest by cosine; mean over all ordered pairs of languages; with a single language, neighbours are in it.
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
) -> Callable[[int], IntentTask]:
    """Return a function that makes the task of each seed; texts are tokenised, or vectors gathered, once."""
    utterances = intent_data(data, config.training_languages, getattr(config, "adversarial_languages", ()))
    prepared: list[Any] = []

    def build(seed: int) -> IntentTask:
        source = open_source(config, data.dim, data.encoder, device)
        if not prepared:
            is_map = isinstance(source, VectorMap)
            prepared.append(
                data.vectors.take(utterances.bank).to(device) if is_map else source.prepare(utterances.texts)
            )
        return kind(utterances, source, prepared[0], config, seed, device)

    return build
