"""The tagger of `token_classification`: a linear layer on the state of each word's first sub-word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.methods.families.tagger import Tagged, Tagger, stage
from disent_core.methods.twosl import TokenClassificationConfig
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, ExamplesTask, TrainingRun, train

_BATCH = 64


@dataclass(frozen=True)
class Words:
    """A sentence as token ids, with the words that have a sub-word and the position of each word's first one."""

    ids: Int[np.ndarray, " length"]
    positions: Int[np.ndarray, " words"]
    words: Int[np.ndarray, " words"]


class TokenTagger(Tagger):
    """An encoder whose weights are all trained, dropout, and a linear layer to the tags; pooling is not used."""

    def __init__(
        self,
        classes: Sequence[str],
        config: TokenClassificationConfig,
        files: EncoderFiles,
        *,
        seed: int,
        device: str,
    ) -> None:
        super().__init__(classes, config, replace(files, pooling="cls"), seed=seed, device=device)
        tokeniser = self.encoder.tokeniser
        self.tokeniser = type(tokeniser).from_str(tokeniser.to_str())
        self.tokeniser.no_padding()
        self.tokeniser.enable_truncation(files.max_length)
        self.dropout = nn.Dropout(config.dropout)
        with seeded(derived_seed(seed, "initial", "tags")):
            self.linear = nn.Linear(self.encoder.dim, len(classes))
        self.to(device)

    @classmethod
    def classes_of(cls, sentences: Sequence[Tagged]) -> tuple[str, ...]:
        return tuple(sorted({tag for sentence in sentences for tag in sentence.tags} | {OUTSIDE}))

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Words]:
        """Tokenise sentences; words beyond the encoder's longest input have no sub-word."""
        encoded = self.tokeniser.encode_batch([list(tokens) for tokens in sentences], is_pretokenized=True)
        return [_words(encoding.ids, encoding.word_ids) for encoding in encoded]

    def forward(self, sentences: Sequence[Words]) -> Float[Tensor, "words tags"]:
        """Return the logits of every word that has a sub-word, sentence by sentence."""
        width = max(len(sentence.ids) for sentence in sentences)
        ids = np.full((len(sentences), width), self.encoder.pad)
        visible = np.zeros((len(sentences), width), dtype=bool)
        for row, sentence in enumerate(sentences):
            ids[row, : len(sentence.ids)], visible[row, : len(sentence.ids)] = sentence.ids, True
        # Positions in the flattened [sentences, width] states.
        positions = np.concatenate([row * width + sentence.positions for row, sentence in enumerate(sentences)])
        batch = (torch.from_numpy(array).to(self.device) for array in (ids, visible))
        states = self.encoder.states(*batch).flatten(0, 1)[torch.from_numpy(positions).to(self.device)]
        return self.linear(self.dropout(states))

    @torch.no_grad()
    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """Return a BIO tag for every word of every sentence; O for words that the encoder does not read."""
        self.eval()
        read = self.read(sentences)
        labelled = [[OUTSIDE] * len(tokens) for tokens in sentences]
        order = [row for row in sorted(range(len(read)), key=lambda row: -len(read[row].ids)) if len(read[row].words)]
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            best = self([read[row] for row in rows]).argmax(dim=1).tolist()
            words = [(row, word) for row in rows for word in read[row].words.tolist()]
            for (row, word), tag in zip(words, best, strict=True):
                labelled[row][word] = self.classes[tag]
        return labelled

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        config, run = self.config, stage(run, "tags", self.config.epochs)
        read = self.read([sentence.tokens for sentence in sentences])
        code = {tag: index for index, tag in enumerate(self.classes)}
        classes = [
            torch.tensor([code[sentence.tags[int(word)]] for word in words.words], dtype=torch.int64)
            for sentence, words in zip(sentences, read, strict=True)
        ]

        def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " words"]:
            logits = self([read[row] for row in rows.tolist()])
            targets = torch.cat([classes[row] for row in rows.tolist()]).to(logits.device)
            return F.cross_entropy(logits, targets, reduction="none")

        size = config.batch_size
        return train(ExamplesTask(self, loss, len(sentences), config.optimiser, batch_size=size, run=run), run)


def _words(ids: Sequence[int], word_ids: Sequence[int | None]) -> Words:
    first = [
        (position, word)
        for position, word in enumerate(word_ids)
        if word is not None and (position == 0 or word_ids[position - 1] != word)
    ]
    positions, words = np.array(first, dtype=np.int64).reshape(-1, 2).T
    return Words(np.asarray(ids, dtype=np.int64), positions, words)
