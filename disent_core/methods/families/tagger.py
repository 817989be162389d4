"""Methods that tag slots: they fine-tune an encoder on tagged sentences and label every word of a sentence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder, check_origin
from disent_core.errors import EncoderError, TrainingError
from disent_core.heads.contract import TrainedLabeller
from disent_core.heads.families.few_shot import Tagged, training_phases
from disent_core.heads.families.seed_by_seed import SeedBySeedTrainer, SeedTraining
from disent_core.methods.families import FewShotConfig, TaggingMethod
from disent_core.optimisation.steps import EpochReport, TrainingRun
from disent_core.registry import imported
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import TrainingData


class Tagger(nn.Module):
    """One seed of a method that tags slots: an encoder without dropout, and modules on its vectors or states.

    Args:
        classes: slot types, or tags, that it predicts.
        config: settings.
        files: the encoder to fine-tune.
        seed: random seed of initial weights.
        device: `cpu` or `cuda`.
    """

    def __init__(self, classes: Sequence[str], config: Any, files: EncoderFiles, *, seed: int, device: str) -> None:
        super().__init__()
        self.classes, self.config, self.seed, self.device = tuple(classes), config, seed, device
        self.encoder = TunableEncoder(files, device, precision=config.precision, dropout=False)

    @classmethod
    def classes_of(cls, sentences: Sequence[Tagged]) -> tuple[str, ...]:
        """Return the classes that occur in sentences, sorted.

        Raises:
            TrainingError: if there is nothing to learn.
        """
        raise NotImplementedError

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        """Train in place on one set of sentences; `stage` of the run names it."""
        raise NotImplementedError

    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """Return a BIO tag for every word of every sentence; the language decides whether words have spaces between."""
        raise NotImplementedError

    @property
    def description(self) -> dict[str, Any]:
        """Data to save with the weights."""
        return {"classes": self.classes, "encoder_fingerprint": self.encoder.files.fingerprint}

    @classmethod
    def load(cls, path: Path, config: Any, files: EncoderFiles, device: str, *, seed: int | None = None) -> "Tagger":
        """Read saved weights with their description, or one seed of a file of several.

        Raises:
            TrainingError: if the file has no such seed, or its encoder is another one.
        """
        weights, description = read_weights(path, seed, device)
        check_origin(path, description, files)
        tagger = cls(description["classes"], config, files, seed=0, device=device)
        tagger.load_state_dict(weights)
        return tagger.eval()


def train_tagger(
    kind: type[Tagger],
    target: Sequence[Tagged],
    source: Sequence[Tagged],
    config: FewShotConfig,
    files: EncoderFiles,
    run: TrainingRun,
    *,
    device: str,
) -> tuple[Tagger, Iterator[EpochReport]]:
    """Return a tagger and the reports of its training; iterating over the reports trains it in place.

    Args:
        kind: class of the tagger.
        target: sentences of the target language, of which `config.examples` are drawn.
        source: all sentences of the source language, on which `transfer` sequential trains first.
        config: settings.
        files: the encoder to fine-tune.
        run: seed, identity and checkpoint; the checkpoint of each stage lies beside it, under the stage's name.
        device: `cpu` or `cuda`.

    Raises:
        TrainingError: if there is too little to train on, or a loss is not finite.
    """
    phases = training_phases(target, config, run.seed, source)
    classes = kind.classes_of([sentence for sentences in phases.values() for sentence in sentences])
    tagger = kind(classes, config, files, seed=run.seed, device=device)
    return tagger, _train(tagger, phases, replace(run, checkpoint_seconds=config.checkpoint_seconds))


def _train(tagger: Tagger, phases: Mapping[str, Sequence[Tagged]], run: TrainingRun) -> Iterator[EpochReport]:
    for name, sentences in phases.items():
        run = replace(run, stage=name, identity=fingerprint(run.identity, name, sentences))
        yield from tagger.train_on(sentences, run)


def stage(run: TrainingRun, name: str, epochs: int) -> TrainingRun:
    """Return the run of one stage in a phase of training, with its own checkpoint."""
    name = f"{run.stage}_{name}"
    return replace(run, stage=name, epochs=epochs, checkpoint=run.checkpoint.with_name(f"{name}.safetensors"))


class TaggingTrainer(SeedBySeedTrainer[TaggingMethod]):
    """The trainer of methods that tag slots."""

    @property
    def kind(self) -> type[Tagger]:
        """The class of the taggers."""
        return imported(self.method.kind)

    def prepare(self, data: TrainingData, config: FewShotConfig, device: str) -> Callable[[TrainingRun], SeedTraining]:
        """Read the sentences by language.

        Raises:
            TrainingError: if there is no sentence of a target language.
            EncoderError: if there is no encoder.
        """
        if data.encoder is None:
            raise EncoderError(
                f"{self.method.name} tunes an encoder and was given none. Choose one with a model on disk"
            )
        files = data.encoder
        source, target = tagged_sentences(data, config.split)
        is_transferred = config.transfer == "sequential" or len(data.languages) == 1
        languages = data.languages if is_transferred else data.languages[1:]

        def start(run: TrainingRun) -> SeedTraining:
            tagger, reports = train_tagger(self.kind, target, source, config, files, run, device=device)
            return SeedTraining(reports, tagger.state_dict, {**tagger.description, "languages": languages})

        return start

    def load(
        self, path: Path, config: FewShotConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedTaggers":
        """Open what `save` wrote; the weights of a seed are read when it first labels.

        Raises:
            EncoderError: if the encoder is not given.
        """
        if encoder is None:
            raise EncoderError(f"{self.method.name} labels with the encoder that it was tuned from, and was given none")
        return TrainedTaggers(path, lambda seed: self.kind.load(path, config, encoder, device, seed=seed))


class TrainedTaggers(TrainedLabeller):
    """The taggers of all seeds, with one at a time in memory."""

    def __init__(self, path: Path, load: Callable[[int], Tagger]) -> None:
        self._path, self._load = path, load
        self._loaded: tuple[int, Tagger] | None = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that it was trained on."""
        of_seed = describe_weights(self._path)[0]["of_seed"]
        return tuple(next(iter(of_seed.values()))["languages"])

    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """Return a BIO tag for every word of every sentence.

        Raises:
            ValueError: if no seed is named.
        """
        return self.tagger(seed).label(sentences, language)

    def tagger(self, seed: int | None) -> Tagger:
        """Return the tagger of a seed.

        Raises:
            ValueError: if no seed is named.
        """
        if seed is None:
            raise ValueError("a trained labeller labels with one of its seeds, not None")
        if self._loaded is None or self._loaded[0] != seed:
            self._loaded = (seed, self._load(seed))
        return self._loaded[1]


def tagged_sentences(data: TrainingData, split: str = "train") -> tuple[list[Tagged], list[Tagged]]:
    """Return the sentences of the source language and those of the others; a single language is the target.

    Raises:
        TrainingError: if there is no sentence of a target language.
    """
    by_language = [
        [Tagged(tokens, tags, language) for tokens, tags in zip(utterances.tokens, utterances.slot_tags, strict=True)]
        for language in data.languages
        for utterances in [data.utterances[split][language]]
    ]
    source, *target_languages = by_language if len(by_language) > 1 else ([], *by_language)
    target = [sentence for sentences in target_languages for sentence in sentences]
    if not target:
        remedy = "Set split to the one that the corpus has, or give them a corpus with slots"
        raise TrainingError(f"{'-'.join(data.languages)} has no {split} sentence of a target language. {remedy}")
    return source, target
