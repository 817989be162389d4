"""Arrange utterances with intents for methods that train on labels: one row a text, over all languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.errors import TrainingError
from disent_core.training.data import TrainingData, Utterances


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

    Raises:
        TrainingError: if a language is unknown, no training utterance has an intent, or there is no dev.
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
