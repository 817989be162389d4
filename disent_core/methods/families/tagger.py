"""Methods that tag slots: choose training sentences, fine-tune an encoder on them, and label each word of a text."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor, nn

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder, check_origin
from disent_core.errors import EncoderError, TrainingError
from disent_core.methods.families import FewShotConfig, TaggingMethod
from disent_core.methods.families.seed_by_seed import SeedBySeedTrainer
from disent_core.methods.trainer import TrainedLabeller
from disent_core.optimisation.steps import EpochReport, TrainingRun
from disent_core.registry import imported
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights, read_weights, require_shapes
from disent_core.training.data import TrainingData


class Tagged(NamedTuple):
    """A sentence with its slots; the language determines whether words are separated by spaces."""

    tokens: Sequence[str]
    tags: Sequence[str]
    language: str = ""


def sample_sentences(
    sentences: Sequence[Tagged], count: int, seed: int, how: Literal["random", "cover_types"]
) -> list[Tagged]:
    """Draw `count` different sentences; `cover_types` includes every slot type, as far as `count` allows."""
    if count > len(sentences):
        raise TrainingError(f"examples is {count}, but there are {len(sentences)} training sentences. Lower examples")
    order = np.random.default_rng((seed, 4)).permutation(len(sentences)).tolist()
    if how == "cover_types":
        order = [*(cover := _cover(sentences, order)), *(row for row in order if row not in set(cover))]
    return [sentences[row] for row in order[:count]]


def slot_types(sentences: Sequence[Tagged]) -> tuple[str, ...]:
    return tuple(sorted({slot.type for sentence in sentences for slot in slots_of(sentence)}))


def slots_of(sentence: Tagged) -> list[Slot]:
    if len(sentence.tokens) != len(sentence.tags):
        counts = f"{len(sentence.tokens)} words and {len(sentence.tags)} tags"
        raise ValueError(f"the sentence {' '.join(sentence.tokens)!r} has {counts}")
    return tagged_slots(sentence.tags)


def _cover(sentences: Sequence[Tagged], order: Sequence[int]) -> list[int]:
    """Return sentences that cover all types: for each type, rarest first, the first sentence in `order`."""
    types = {row: {slot.type for slot in slots_of(sentences[row])} for row in order}
    counts = Counter(slot_type for row in order for slot_type in types[row])
    cover: list[int] = []
    covered: set[str] = set()
    for slot_type in sorted(counts, key=lambda slot_type: (counts[slot_type], slot_type)):
        if slot_type not in covered:
            cover.append(next(row for row in order if slot_type in types[row]))
            covered |= types[cover[-1]]
    return cover


class Tagger(nn.Module):
    """One seed of a method that tags slots: an encoder without dropout, and modules on its vectors or states.

    `classes` are the slot types, or tags, that it predicts; initial weights depend on the `seed`. `phases` has the
    sentences to train on, by the phase's name.
    """

    phases: Mapping[str, Sequence[Tagged]]

    def __init__(self, classes: Sequence[str], config: Any, files: EncoderFiles, *, seed: int, device: str) -> None:
        super().__init__()
        self.classes, self.config, self.seed, self.device = tuple(classes), config, seed, device
        self.encoder = TunableEncoder(files, device, precision=config.precision, dropout=False)

    @classmethod
    def classes_of(cls, sentences: Sequence[Tagged]) -> tuple[str, ...]:
        """Return the classes that occur in sentences, sorted."""
        raise NotImplementedError

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        """Train in place on one set of sentences; `stage` of the run names it."""
        raise NotImplementedError

    def train_in_phases(self, run: TrainingRun) -> Iterator[EpochReport]:
        """Train in place on each phase; each stage has a checkpoint of its name, beside that of `run`."""
        run = replace(run, checkpoint_seconds=self.config.checkpoint_seconds)
        for name, sentences in self.phases.items():
            run = replace(run, stage=name, identity=fingerprint(run.identity, name, sentences))
            yield from self.train_on(sentences, run)

    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """Return a BIO tag for every word of every sentence; the language determines whether spaces separate words."""
        raise NotImplementedError

    @property
    def description(self) -> dict[str, Any]:
        return {"classes": self.classes, "encoder_fingerprint": self.encoder.files.fingerprint}

    @classmethod
    def load(cls, path: Path, config: Any, files: EncoderFiles, device: str, *, seed: int | None = None) -> "Tagger":
        """Read saved weights with their description, or the weights of one seed from a file with several."""
        weights, description = read_weights(path, seed, device)
        check_origin(path, description, files)
        tagger = cls(description["classes"], config, files, seed=0, device=device)
        require_shapes(path, weights, {name: value.shape for name, value in tagger.state_dict().items()})
        tagger.load_state_dict(weights)
        return tagger.eval()


def new_tagger(
    kind: type[Tagger],
    target: Sequence[Tagged],
    source: Sequence[Tagged],
    config: FewShotConfig,
    files: EncoderFiles,
    *,
    seed: int,
    device: str,
) -> Tagger:
    """Return an untrained tagger with its training phases.

    Draw `config.examples` of the `target` sentences; use all of `source` if transfer is sequential.
    """
    sample = sample_sentences(target, config.examples, seed, config.sample) if config.examples else list(target)
    phases = {"source": source, "target": sample} if config.transfer == "sequential" else {"target": sample}
    if not phases.get("source", sample):
        raise TrainingError("transfer is 'sequential', but there is no sentence in a source language. Set it to 'none'")
    classes = kind.classes_of([sentence for sentences in phases.values() for sentence in sentences])
    tagger = kind(classes, config, files, seed=seed, device=device)
    tagger.phases = phases
    return tagger


def stage(run: TrainingRun, name: str, epochs: int) -> TrainingRun:
    """Return the run of one stage of a training phase, with its own checkpoint."""
    name = f"{run.stage}_{name}"
    return replace(run, stage=name, epochs=epochs, checkpoint=run.checkpoint.with_name(f"{name}.safetensors"))


class TaggingTrainer(SeedBySeedTrainer[TaggingMethod]):
    def tasks(self, data: TrainingData, config: FewShotConfig, device: str) -> Callable[[int], Tagger]:
        if (files := data.encoder) is None:
            raise EncoderError(
                f"{self.method.name} tunes an encoder, but was given none. Choose one with a model on disk"
            )
        kind, (source, target) = imported(self.method.kind), tagged_sentences(data, config.split)
        return lambda seed: new_tagger(kind, target, source, config, files, seed=seed, device=device)

    def reports(self, task: Tagger, config: FewShotConfig, run: TrainingRun) -> Iterator[EpochReport]:
        return task.train_in_phases(run)

    def weights(self, task: Tagger) -> dict[str, Tensor]:
        return task.state_dict()

    def description(self, task: Tagger, data: TrainingData) -> dict[str, Any]:
        is_whole = "source" in task.phases or len(data.languages) == 1
        return {**task.description, "languages": data.languages if is_whole else data.languages[1:]}

    def load(
        self, path: Path, config: FewShotConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedTaggers":
        if encoder is None:
            raise EncoderError(f"{self.method.name} labels with the encoder that it was tuned from, but was given none")
        kind = imported(self.method.kind)
        return TrainedTaggers(path, lambda seed: kind.load(path, config, encoder, device, seed=seed))


class TrainedTaggers(TrainedLabeller):
    """The taggers of all seeds, with one at a time in memory."""

    def __init__(self, path: Path, load: Callable[[int], Tagger]) -> None:
        self._path, self._load = path, lru_cache(maxsize=1)(load)

    @property
    def languages(self) -> tuple[str, ...]:
        of_seed = describe_weights(self._path)[0]["of_seed"]
        return tuple(next(iter(of_seed.values()))["languages"])

    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        return self.tagger(seed).label(sentences, language)

    def tagger(self, seed: int | None) -> Tagger:
        if seed is None:
            raise ValueError("a trained labeller labels with one of its seeds, not None")
        return self._load(seed)


def tagged_sentences(data: TrainingData, split: str = "train") -> tuple[list[Tagged], list[Tagged]]:
    """Return the sentences of the source language and of the others; a single language is the target."""
    by_language = []
    for language in data.languages:
        words = zip(data.utterances[split][language].tokens, data.utterances[split][language].slot_tags, strict=True)
        by_language.append([Tagged(tokens, tags, language) for tokens, tags in words])
    source, *target_languages = by_language if len(by_language) > 1 else ([], *by_language)
    target = [sentence for sentences in target_languages for sentence in sentences]
    if not target:
        remedy = "Set split to one that the corpus has, or give these languages a corpus with slots"
        raise TrainingError(f"{'-'.join(data.languages)} has no {split} sentence in a target language. {remedy}")
    return source, target
