"""Methods that fine-tune on intents, EMU and its baselines: their utterances, batches, and dev evaluation.

A method of this family overrides `terms`, and `draws` if its loss compares utterances.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import Source, VectorMap, embed_all
from disent_core.errors import TrainingError
from disent_core.methods.families.seed_by_seed import FineTuningTask, open_source
from disent_core.methods.intent import IntentConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData, Utterances


@dataclass(frozen=True)
class IntentData:
    """Training utterances of all languages, one language after another, then those of dev.

    Attributes:
        texts: text of every row.
        bank: row of every text in the vectors of the training data.
        labels: number of each row's intent; -1 for no intent, or one that is not trained.
        classes: number of trained intents.
        labelled: training rows of the training languages that have an intent.
        dev_labelled: dev rows of the training languages that have a trained intent.
        adversarial: training rows of each adversarial language.
        translations: row of each training row's translation into each adversarial language, -1 if there is none.
        dev_parallel: dev rows by language of the utterances that have an intent in every language, in one order.
    """

    texts: Sequence[str]
    bank: Int[Tensor, " texts"]
    labels: Int[Tensor, " texts"]
    classes: int
    labelled: Int[Tensor, " labelled"]
    dev_labelled: Int[Tensor, " dev"]
    adversarial: Sequence[Int[Tensor, " _"]]
    translations: Int[Tensor, "adversaries train"]
    dev_parallel: Int[Tensor, "languages parallel"]

    @property
    def first_dev(self) -> int:
        """Row of the first dev utterance."""
        return self.translations.shape[1]


def intent_data(data: TrainingData, training: Sequence[str] = (), adversarial: Sequence[str] = ()) -> IntentData:
    """Collect the utterances of the training data by their role.

    Args:
        data: training data with utterances.
        training: languages whose intents are read; none is English if it is one of the languages, else the first.
        adversarial: languages of unlabelled utterances; none is all that are not in `training`.
    """
    training = tuple(training) or (("en",) if "en" in data.languages else data.languages[:1])
    adversarial = tuple(adversarial) or tuple(name for name in data.languages if name not in training)
    if unknown := sorted({*training, *adversarial} - set(data.languages)):
        raise TrainingError(f"{unknown} are no languages of this head. Choose from {list(data.languages)}")
    train, dev = _Split(data.utterances["train"], 0), _Split(data.utterances["dev"], _size(data.utterances["train"]))
    intents = sorted({intent for name in training for intent in train.by_language[name].intents if intent is not None})
    number = {intent: index for index, intent in enumerate(intents)}
    labels = torch.cat([train.labels(number), dev.labels(number)])
    labelled, dev_labelled = (_labelled(split.rows_of(training), labels) for split in (train, dev))
    if not len(labelled):
        remedy = "Give them a corpus with intents, or choose other training_languages"
        raise TrainingError(f"no training utterance of {list(training)} has an intent. {remedy}")
    parallel = dev.parallel(labels)
    if not len(dev_labelled) or parallel.shape[1] < 2:
        raise TrainingError(f"{len(dev_labelled)} dev utterances of {list(training)} have an intent. Add a dev split")
    return IntentData(
        texts=[*train.texts, *dev.texts],
        bank=torch.cat([train.bank, dev.bank]),
        labels=labels,
        classes=len(intents),
        labelled=labelled,
        dev_labelled=dev_labelled,
        adversarial=[train.rows_of([name]) for name in adversarial],
        translations=train.translations(adversarial),
        dev_parallel=parallel,
    )


class _Split:
    """Utterances of one split, whose rows begin at `first`."""

    def __init__(self, by_language: Mapping[str, Utterances], first: int) -> None:
        self.by_language, self.first = by_language, first
        self.texts = [text for utterances in by_language.values() for text in utterances.texts]
        self.bank = torch.cat([utterances.rows for utterances in by_language.values()])
        self.begin: dict[str, int] = {}
        for name, utterances in by_language.items():
            self.begin[name], first = first, first + len(utterances)

    def rows_of(self, languages: Sequence[str]) -> Tensor:
        """Return the rows of some languages."""
        rows = [torch.arange(len(self.by_language[name])) + self.begin[name] for name in languages]
        return torch.cat(rows) if rows else torch.zeros(0, dtype=torch.long)

    def labels(self, number: Mapping[str, int]) -> Tensor:
        """Return the numbers of intents, -1 for no intent."""
        numbers = [
            number.get(intent or "", -1) for utterances in self.by_language.values() for intent in utterances.intents
        ]
        return torch.tensor(numbers, dtype=torch.long)

    def translations(self, languages: Sequence[str]) -> Tensor:
        """Return the row of the utterance of the same id in each of the languages, -1 if there is none."""
        by_id = [self._by_id(name) for name in languages]
        ids = [utterance_id for utterances in self.by_language.values() for utterance_id in utterances.ids]
        rows = [[row_of_id.get(utterance_id, -1) for utterance_id in ids] for row_of_id in by_id]
        return torch.tensor(rows, dtype=torch.long).view(len(languages), len(ids))

    def parallel(self, labels: Tensor) -> Tensor:
        """Return the rows by language of the utterances that all languages have and whose intent is trained."""
        by_id = [self._by_id(name) for name in self.by_language]
        shared_ids = [
            utterance_id for utterance_id in by_id[0] if all(utterance_id in row_of_id for row_of_id in by_id)
        ]
        rows = torch.tensor(
            [[row_of_id[utterance_id] for utterance_id in shared_ids] for row_of_id in by_id], dtype=torch.long
        )
        rows = rows.view(len(by_id), len(shared_ids))
        return rows[:, (labels[rows] >= 0).all(dim=0)]

    def _by_id(self, language: str) -> dict[str, int]:
        """Return the row of each id; ids that two corpora share are left out, because they are ambiguous."""
        ids, rows = self.by_language[language].ids, {}
        for row, utterance_id in enumerate(ids, start=self.begin[language]):
            rows[utterance_id] = -1 if utterance_id in rows else row
        return {utterance_id: row for utterance_id, row in rows.items() if row >= 0}


def _size(by_language: Mapping[str, Utterances]) -> int:
    return sum(len(utterances) for utterances in by_language.values())


def _labelled(rows: Tensor, labels: Tensor) -> Tensor:
    return rows[labels[rows] >= 0]


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

    # --- training ---

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Return all labelled utterances, shuffled."""
        random = generator(self.seed, "epoch", epoch)
        rows = self.data.labelled[torch.randperm(len(self.data.labelled), generator=random)]
        return self._split({"rows": rows, **self.draws(rows, random)})

    def _split(self, rows: Batch) -> Sequence[Batch]:
        """Cut tensors with one row an utterance into batches."""
        columns = [value.split(self.config.batch_size) for value in rows.values()]
        return [dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True)]

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        """Return the terms and their sum."""
        terms = self.terms(batch, self.vectors)
        return {**terms, "total": torch.stack(list(terms.values())).sum()}, len(batch["rows"])

    def vectors(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return the vectors of texts from the current source."""
        return self.source(self.inputs, rows)

    def labels(self, rows: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """Return the intents of texts."""
        return self.data.labels[rows].to(self.device)

    # --- dev ---

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
    utterances = intent_data(data, config.training_languages, config.other_languages)
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
