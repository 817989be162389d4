"""Methods that tag slots: what TWOSL and token classification share as seen from outside."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import EncoderError, TrainingError
from disent_core.heads.contract import Method, TrainedLabeller
from disent_core.heads.twosl.config import FewShotConfig
from disent_core.heads.twosl.spans import Tagged
from disent_core.storage.tables import fingerprint
from disent_core.storage.tagger_weights import describe_weights, merge_weights
from disent_core.training.data import TrainingData
from disent_core.training.epoch import Epoch
from disent_core.training.loop import Pass
from disent_core.training.needs import Need


class Labeller(Protocol):
    """One seed of a method that tags slots."""

    def label(self, sentences: Sequence[Sequence[str]], language: str) -> list[list[str]]:
        """A BIO tag for every word of every sentence."""
        ...

    def save(self, path: Path, description: dict[str, Any] | None = None) -> str:
        """Write the weights with what they are."""
        ...


@dataclass(frozen=True, kw_only=True)
class LabellingMethod(Method[FewShotConfig]):
    """A `Method` that tunes an encoder to tag slots; it has no embeddings.

    Of an entry `en-de` the first language is the source, which `transfer` sequential trains on first, and the
    others are the target, from which the examples are drawn; an entry of one language has a target only. `start`
    makes a labeller and the passes that train it, `open` one from its file. Seeds are trained one after the other.
    """

    start: Callable[..., tuple[Labeller, Iterator[Pass]]]
    open: Callable[..., Labeller]
    needs: frozenset[Need] = frozenset({Need.UTTERANCES, Need.ENCODER})
    labels: bool = True

    def fit(
        self,
        data: TrainingData,
        config: FewShotConfig,
        seeds: Sequence[int],
        *,
        checkpoint: Path,
        device: str,
        run: str,
        initial: Path | None = None,
    ) -> Iterator[Epoch]:
        """Train every seed; an epoch is a pass of one stage of one seed, its loss is named after the stage.

        Raises:
            TrainingError: if there is too little to train on, or the loss is not finite.
            EncoderError: if the encoder can't be tuned.
        """
        if data.encoder is None:
            raise EncoderError(f"{self.name} tunes an encoder and was given none. Choose one with a model on disk")
        source, target = tagged_sentences(data, config.split)
        is_transferred = config.transfer == "sequential" or len(data.languages) == 1
        languages = data.languages if is_transferred else data.languages[1:]
        own, steps = fingerprint(run, self.name, self.code_version), 0
        for seed in seeds:
            labeller, passes = self.start(
                target,
                config,
                data.encoder,
                seed=seed,
                checkpoints=_folder(checkpoint) / str(seed),
                device=device,
                source=source,
                run=own,
            )
            for epoch in _epochs(passes, seed, steps):
                steps = epoch.steps
                yield epoch
            labeller.save(_folder(checkpoint) / f"{seed}.safetensors", {"languages": languages})

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the weights of every seed, drop the checkpoints, return the fingerprint of the weights."""
        parts = {seed: _folder(checkpoint) / f"{seed}.safetensors" for seed in description["seeds"]}
        content = merge_weights(parts, path, {**description, "method": self.name})
        shutil.rmtree(_folder(checkpoint))
        return content

    def load(
        self, path: Path, config: FewShotConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedLabellers":
        """What `save` wrote; the weights of a seed are read when it is asked to label.

        Raises:
            EncoderError: if the encoder is not given.
        """
        if encoder is None:
            raise EncoderError(f"{self.name} labels with the encoder that it was tuned from, and was given none")
        return TrainedLabellers(self, path, encoder, device)


class TrainedLabellers(TrainedLabeller):
    """The labellers of all seeds, of which one is in memory."""

    def __init__(self, method: LabellingMethod, path: Path, encoder: EncoderFiles, device: str) -> None:
        self._open = lambda seed: method.open(path, encoder, device, seed=seed)
        self._path = path
        self._held: tuple[int, Labeller] | None = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that it was trained on."""
        return tuple(next(iter(describe_weights(self._path)["of_seed"].values()))["languages"])

    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """A BIO tag for every word of every sentence.

        Raises:
            ValueError: if no seed is named.
        """
        if seed is None:
            raise ValueError("a trained labeller labels with one of its seeds, not None")
        if self._held is None or self._held[0] != seed:
            self._held = (seed, self._open(seed))
        return self._held[1].label(sentences, language)


def tagged_sentences(data: TrainingData, split: str = "train") -> tuple[list[Tagged], list[Tagged]]:
    """Sentences of the source language, and of the others; a single language is the target.

    Raises:
        TrainingError: if there is none of a target language.
    """
    by_language = [
        [Tagged(tokens, tags, language) for tokens, tags in zip(utterances.tokens, utterances.slot_tags, strict=True)]
        for language in data.languages
        for utterances in [data.utterances[split][language]]
    ]
    source, *others = by_language if len(by_language) > 1 else ([], *by_language)
    target = [sentence for sentences in others for sentence in sentences]
    if not target:
        remedy = "Set split to the one that the corpus has, or give them a corpus with slots"
        raise TrainingError(f"{'-'.join(data.languages)} has no {split} sentence of a target language. {remedy}")
    return source, target


def _epochs(passes: Iterator[Pass], seed: int, steps: int) -> Iterator[Epoch]:
    """Passes of all stages of a seed, numbered through; `steps` were taken before."""
    stage, before = "", 0
    for number, one in enumerate(passes, start=1):
        if one.stage != stage:
            steps, stage, before = steps + before, one.stage, 0
        before = one.steps
        terms = {"train": {one.stage: (one.loss,), "total": (one.loss,)}}
        yield Epoch(number, (seed,), terms, (False,), steps + before, one.seconds, is_replayed=one.is_replayed)


def _folder(checkpoint: Path) -> Path:
    """Where the checkpoints of stages and the weights of finished seeds lie."""
    return checkpoint.with_suffix("")
