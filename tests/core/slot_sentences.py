"""Invented sentences with slots, and a tiny BERT with dropout that reads their words."""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from tiny_encoder import save_bert

from disent_core.encoders.contract import EncoderFiles
from disent_core.evaluation.metrics.statistics import f1
from disent_core.evaluation.tasks.slot_labelling import agreement, tagged_words
from disent_core.methods.families import FewShotConfig, TaggingMethod
from disent_core.methods.families.tagger import Tagged, Tagger, new_tagger
from disent_core.optimisation.steps import EpochReport, TrainingRun
from disent_core.registry import imported
from disent_core.training.data import PairRows, TrainingData, Utterances, VectorBank

SLOTS = {
    "time": ["nine", "ten", "half past nine", "quarter to ten"],
    "day": ["friday", "this sunday", "monday"],
    "music": ["jazz", "old blues", "rock"],
    "city": ["rome", "new york", "oslo"],
}
TEMPLATES = [
    "wake me up at {time}",
    "wake me up at {time} on {day}",
    "play some {music}",
    "play {music} on {day}",
    "what is the weather in {city}",
    "weather in {city} on {day} please",
    "thank you",
]


def tagged_sentences(count: int, seed: int = 0) -> list[Tagged]:
    draw = random.Random(seed)
    return [_fill(draw.choice(TEMPLATES), draw) for _ in range(count)]


def word_f1(sentences: Sequence[Tagged], tags: Sequence[Sequence[str]]) -> float:
    """F1 over the words that have a slot."""
    counts = agreement([sentence.tags for sentence in sentences], tags, tagged_words)
    return float(f1(counts[None])[0])


def _fill(template: str, draw: random.Random) -> Tagged:
    tokens, tags = [], []
    for word in template.split():
        if not word.startswith("{"):
            tokens, tags = [*tokens, word], [*tags, "O"]
            continue
        kind = word.strip("{}")
        value = draw.choice(SLOTS[kind]).split()
        tokens += value
        tags += [f"B-{kind}", *[f"I-{kind}"] * (len(value) - 1)]
    return Tagged(tokens, tags, "en")


def train(
    method: TaggingMethod,
    target: Sequence[Tagged],
    config: FewShotConfig,
    files: EncoderFiles,
    folder: Path,
    *,
    source: Sequence[Tagged] = (),
    seed: int = 0,
) -> tuple[Tagger, list[EpochReport]]:
    run = TrainingRun(identity="test", seed=seed, checkpoint=folder / "training.safetensors")
    tagger = new_tagger(imported(method.kind), target, source, config, files, seed=seed, device="cpu")
    return tagger, list(tagger.train_in_phases(run))


def tiny_bert(folder: Path) -> EncoderFiles:
    """A BERT of random weights; every word of four letters and more is two sub-words."""
    text = [*TEMPLATES, *(value for values in SLOTS.values() for value in values)]
    words = sorted({word for line in text for word in line.split() if not word.startswith("{")})
    pieces = {piece for word in words for piece in ([word[:3], f"##{word[3:]}"] if len(word) > 3 else [word])}
    save_bert(folder, sorted(pieces), dim=32, heads=2, longest=40, pooler=False, subwords=True, initializer_range=0.2)
    return EncoderFiles(folder, "mean", -1, 40, "tiny")


def tagged_data(files: EncoderFiles, languages: Sequence[str] = ("en", "de")) -> TrainingData:
    """Tagged training utterances of some languages, and nothing else."""
    nothing = torch.zeros(0, dtype=torch.int64)
    sides = {"source": nothing, "target": nothing}
    pairs = PairRows(sides, sides, sides, sides)
    by_language = {language: _utterances(seed) for seed, language in enumerate(languages)}
    return TrainingData(
        languages=languages,
        vectors=VectorBank([torch.zeros(1, 32)]),
        states=None,
        state_rows=None,
        splits={"train": pairs, "dev": pairs},
        negatives=[],
        sentences=[],
        utterances={"train": by_language},
        encoder=files,
    )


def _utterances(seed: int) -> Utterances:
    tagged = tagged_sentences(16, seed)
    ids = [str(index) for index in range(16)]
    tokens, tags = [list(sentence.tokens) for sentence in tagged], [list(sentence.tags) for sentence in tagged]
    return Utterances(
        ids, [" ".join(sentence) for sentence in tokens], tokens, tags, [None] * 16, torch.zeros(16, dtype=int)
    )
