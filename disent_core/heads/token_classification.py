"""Token classification: a tag for each word from its first sub-word, the baseline of `disent_core.heads.twosl`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.families.few_shot import FewShotConfig, Tagged
from disent_core.heads.families.tagger import Tagger, TaggingMethod, stage
from disent_core.optimisation.optimiser import OptimiserConfig
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, ExamplesTask, Loss, TrainingRun, train

_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig(FewShotConfig):
    """A linear layer on the state of each word's first sub-word; all weights of the encoder are fine-tuned.

    Attributes:
        epochs: passes over the training sentences.
        learning_rate: learning rate of Adam, constant.
        weight_decay: strength of the weight decay; 0 turns it off.
        decay: the paper says Adam with weight decay: `l2` adds it to the gradient (Adam), `decoupled` is AdamW.
        dropout: probability of dropout before the linear layer, in [0, 1).
    """

    epochs: int = 50
    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    decay: Literal["l2", "decoupled"] = "l2"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("epochs", "learning_rate")
        self.check_not_negative("weight_decay")
        self.check_range("dropout", at_least=0, below=1)

    @property
    def optimiser(self) -> OptimiserConfig:
        """Adam at a constant learning rate."""
        decay = "l2" if self.decay == "l2" else "decoupled_matrices"
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay, decay=decay)


@dataclass(frozen=True)
class Words:
    """A sentence as ids, with the position of the first sub-word of each word that has one, and those words."""

    ids: Int[np.ndarray, " length"]
    positions: Int[np.ndarray, " words"]
    words: Int[np.ndarray, " words"]


class TokenTagger(Tagger):
    """An encoder whose every weight is trained, dropout, and a linear layer to the tags; its pooling plays no part."""

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
        """BIO tags."""
        return tuple(sorted({tag for sentence in sentences for tag in sentence.tags} | {OUTSIDE}))

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Words]:
        """Sub-words of sentences; words beyond the encoder's longest input have none."""
        encoded = self.tokeniser.encode_batch([list(tokens) for tokens in sentences], is_pretokenized=True)
        return [_words(encoding.ids, encoding.word_ids) for encoding in encoded]

    def forward(self, sentences: Sequence[Words]) -> Float[Tensor, "words tags"]:
        """Logits of every word that has a sub-word, sentence by sentence."""
        width = max(len(one.ids) for one in sentences)
        ids = np.full((len(sentences), width), self.encoder.pad)
        visible = np.zeros((len(sentences), width), dtype=bool)
        for row, one in enumerate(sentences):
            ids[row, : len(one.ids)], visible[row, : len(one.ids)] = one.ids, True
        place = np.concatenate([row * width + one.positions for row, one in enumerate(sentences)])
        batch = (torch.from_numpy(array).to(self.device) for array in (ids, visible))
        states = self.encoder.states(*batch).flatten(0, 1)[torch.from_numpy(place).to(self.device)]
        return self.linear(self.dropout(states))

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
                labelled[row][word] = self.classes[tag]
        return labelled

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        """One stage, `tags`."""
        own, config = stage(run, "tags", self.config.epochs), self.config
        loss = self._loss(sentences)
        size = config.batch_size
        return train(ExamplesTask(self, loss, len(sentences), config.optimiser, batch_size=size, run=own), own)

    def _loss(self, sentences: Sequence[Tagged]) -> Loss:
        read = self.read([one.tokens for one in sentences])
        code = {tag: index for index, tag in enumerate(self.classes)}
        classes = [
            torch.tensor([code[one.tags[int(word)]] for word in words.words], dtype=torch.int64)
            for one, words in zip(sentences, read, strict=True)
        ]

        def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " words"]:
            logits = self([read[row] for row in rows.tolist()])
            wanted = torch.cat([classes[row] for row in rows.tolist()]).to(logits.device)
            return F.cross_entropy(logits, wanted, reduction="none")

        return loss


def _words(ids: Sequence[int], word_ids: Sequence[int | None]) -> Words:
    first = [
        (position, word)
        for position, word in enumerate(word_ids)
        if word is not None and (position == 0 or word_ids[position - 1] != word)
    ]
    positions, words = np.array(first, dtype=np.int64).reshape(-1, 2).T
    return Words(np.asarray(ids, dtype=np.int64), positions, words)


METHOD = TaggingMethod(name="token_classification", presets={"paper": TokenClassificationConfig()}, kind=TokenTagger)
