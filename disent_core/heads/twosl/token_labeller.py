"""The baseline beside TWOSL: a tag for each word from the state of its first sub-word."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import arithmetic, check_length
from disent_core.encoders.huggingface import run_model
from disent_core.heads.twosl.config import TokenClassificationConfig, training_phases
from disent_core.heads.twosl.spans import Tagged
from disent_core.storage.tables import fingerprint
from disent_core.storage.tagger_weights import check_encoder, read_weights, write_weights
from disent_core.training.loop import Loss, Pass, Run, derived_seed, optimise

_BATCH = 64


@dataclass(frozen=True)
class Words:
    """A sentence as ids, with the position of the first sub-word of each word that has one, and those words."""

    ids: Int[np.ndarray, " length"]
    positions: Int[np.ndarray, " words"]
    words: Int[np.ndarray, " words"]


class TokenLabeller(nn.Module):
    """An encoder whose every weight is tuned, dropout, and a linear layer to the tags.

    Args:
        tags: BIO tags that it knows.
        config: settings.
        files: the encoder; its pooling plays no part.
        seed: of the linear layer's first weights.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self,
        tags: Sequence[str],
        config: TokenClassificationConfig,
        files: EncoderFiles,
        *,
        seed: int,
        device: str,
    ) -> None:
        super().__init__()
        tokeniser = load_tokeniser(files.folder)
        self.tags, self.config, self.files, self.device = tuple(tags), config, files, device
        self.model = load_model(files.folder, pooling="cls").requires_grad_(True)
        check_length(self.model, tokeniser, files.max_length, files.folder)
        self.pad = tokeniser.pad_token_id or 0
        self.tokeniser = type(tokeniser.backend_tokenizer).from_str(tokeniser.backend_tokenizer.to_str())
        self.tokeniser.no_padding()
        self.tokeniser.enable_truncation(files.max_length)
        self.dropout = nn.Dropout(config.dropout)
        with torch.random.fork_rng([]):
            torch.manual_seed(derived_seed(seed, "initial", "tags"))
            self.linear = nn.Linear(int(self.model.config.hidden_size), len(tags))
        self.to(device)

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Words]:
        """Sub-words of sentences; words beyond the encoder's longest input have none."""
        encoded = self.tokeniser.encode_batch([list(tokens) for tokens in sentences], is_pretokenized=True)
        return [_words(encoding.ids, encoding.word_ids) for encoding in encoded]

    def forward(self, sentences: Sequence[Words]) -> Float[Tensor, "words tags"]:
        """Logits of every word that has a sub-word, sentence by sentence."""
        width = max(len(one.ids) for one in sentences)
        ids = np.full((len(sentences), width), self.pad)
        visible = np.zeros((len(sentences), width), dtype=bool)
        for row, one in enumerate(sentences):
            ids[row, : len(one.ids)], visible[row, : len(one.ids)] = one.ids, True
        place = np.concatenate([row * width + one.positions for row, one in enumerate(sentences)])
        batch = (torch.from_numpy(array).to(self.device) for array in (ids, visible))
        with arithmetic(self.device, self.config.precision):
            hidden, _ = run_model(self.model, *batch, layer=self.files.layer)
        return self.linear(self.dropout(hidden.float().flatten(0, 1)[torch.from_numpy(place).to(self.device)]))

    @torch.no_grad()
    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """A BIO tag for every word of every sentence; O where the encoder does not see the word."""
        self.eval()
        read = self.read(sentences)
        labelled = [[OUTSIDE] * len(tokens) for tokens in sentences]
        order = [row for row in sorted(range(len(read)), key=lambda row: -len(read[row].ids)) if len(read[row].words)]
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            best = self([read[row] for row in rows]).argmax(dim=1).tolist()
            places = [(row, word) for row in rows for word in read[row].words.tolist()]
            for (row, word), tag in zip(places, best, strict=True):
                labelled[row][word] = self.tags[tag]
        return labelled

    def save(self, path: Path, description: dict[str, Any] | None = None) -> str:
        """Write weights and settings; returns the fingerprint of the weights."""
        own = {"tags": self.tags, "settings": asdict(self.config), "encoder_fingerprint": self.files.fingerprint}
        named = {**(description or {}), "method": "token_classification", **own}
        return write_weights(path, self.state_dict(), named)

    @classmethod
    def load(cls, path: Path, files: EncoderFiles, device: str, *, seed: int | None = None) -> "TokenLabeller":
        """What `save` wrote, or one seed of a merged file. Architecture and tokeniser come from `files`.

        Raises:
            TrainingError: if the file has no such seed, or its encoder is another one.
        """
        tensors, own = read_weights(path, seed, device)
        check_encoder(path, own, files)
        labeller = cls(own["tags"], TokenClassificationConfig(**own["settings"]), files, seed=0, device=device)
        labeller.load_state_dict(tensors)
        return labeller.eval()


def _words(ids: Sequence[int], word_ids: Sequence[int | None]) -> Words:
    first = [
        (position, word)
        for position, word in enumerate(word_ids)
        if word is not None and (position == 0 or word_ids[position - 1] != word)
    ]
    positions, words = np.array(first, dtype=np.int64).reshape(-1, 2).T
    return Words(np.asarray(ids, dtype=np.int64), positions, words)


# --- training ---------------------------------------------------------------------------------------------


def fit(
    train: Sequence[Tagged],
    config: TokenClassificationConfig,
    files: EncoderFiles,
    *,
    seed: int,
    checkpoints: Path,
    device: str,
    source: Sequence[Tagged] = (),
) -> TokenLabeller:
    """Train from beginning to end; see `start`."""
    labeller, passes = start(train, config, files, seed=seed, checkpoints=checkpoints, device=device, source=source)
    for _ in passes:
        pass
    return labeller


def start(
    train: Sequence[Tagged],
    config: TokenClassificationConfig,
    files: EncoderFiles,
    *,
    seed: int,
    checkpoints: Path,
    device: str,
    source: Sequence[Tagged] = (),
    run: str = "",
) -> tuple[TokenLabeller, Iterator[Pass]]:
    """A labeller, and the passes that train it in place: as `disent_core.heads.twosl.labeller.start`."""
    phases = training_phases(train, config, seed, source)
    tags = sorted({tag for sentences in phases.values() for one in sentences for tag in one.tags} | {OUTSIDE})
    labeller = TokenLabeller(tags, config, files, seed=seed, device=device)
    settings = asdict(replace(config, checkpoint_seconds=0.0))
    identity = fingerprint(run, "token_classification", settings, files.fingerprint)
    seconds = config.checkpoint_seconds
    whole = Run(stage="", identity=identity, seed=seed, checkpoint=checkpoints, checkpoint_seconds=seconds)
    return labeller, _train(labeller, phases, whole)


def _train(labeller: TokenLabeller, phases: dict[str, Sequence[Tagged]], run: Run) -> Iterator[Pass]:
    for name, sentences in phases.items():
        run = replace(run, identity=fingerprint(run.identity, name, sentences))
        stage = replace(run, stage=f"{name}_tags", checkpoint=run.checkpoint / f"{name}_tags.safetensors")
        yield from optimise(labeller, _loss(labeller, sentences), len(sentences), labeller.config.recipe, stage)


def _loss(labeller: TokenLabeller, sentences: Sequence[Tagged]) -> Loss:
    read = labeller.read([one.tokens for one in sentences])
    code = {tag: index for index, tag in enumerate(labeller.tags)}
    classes = [
        torch.tensor([code[one.tags[int(word)]] for word in words.words], dtype=torch.int64)
        for one, words in zip(sentences, read, strict=True)
    ]

    def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " words"]:
        logits = labeller([read[row] for row in rows.tolist()])
        wanted = torch.cat([classes[row] for row in rows.tolist()]).to(logits.device)
        return F.cross_entropy(logits, wanted, reduction="none")

    return loss
