"""Train an aligned encoder to place a translation where the teacher has its source.

A form of Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813, with a softmax in place of their squared error.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import load_model, load_tokeniser, longest_input
from disent_core.encoders.contract import Device
from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.folders import publish
from disent_core.encoders.kinds.distilled.lessons import Lessons, by_length, held_out_texts, lessons_of, plan_pass
from disent_core.encoders.kinds.distilled.pairs import Material
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import EncoderError
from disent_core.losses.contrastive import in_batch_softmax, symmetric_softmax
from disent_core.matmul import arithmetic
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.steps import EpochReport, Terms, TrainingRun, TrainingTask, train
from disent_core.storage.files import remove_path
from disent_core.storage.text_columns import TextColumn

log = logging.getLogger(__name__)

CLIP, BETAS = 5.0, (0.9, 0.98)
HELD_OUT_PAIRS = 500
"""Of each language, at most."""


def train_student(
    material: Material,
    teacher_vectors: Callable[[TextColumn], Float[np.ndarray, "sentences dim"]],
    config: DistilledConfig,
    aligned: Path,
    folder: Path,
    record: Mapping[str, Any],
    device: Device = "auto",
) -> Iterator[EpochReport]:
    """Train a student and write it, completely or not at all; yield a report at every look at the held-out pairs.

    Without `config.train` it is the aligned encoder.

    An interrupted run resumes from its last checkpoint; on a CPU it ends in the weights of an uninterrupted run.

    Args:
        material: pairs to train on, and those held out.
        teacher_vectors: gives the vectors of pivots, in a matrix of its own.
        config: of the encoder.
        aligned: folder of the aligned encoder.
        folder: of the student.
        record: what it is made from, see `folders.publish`.
        device: `auto` is a GPU where there is one.
    """
    tokeniser, model = load_tokeniser(aligned), load_model(aligned, pooling="mean")
    if not config.train:
        publish(model, tokeniser, folder, record)
        return
    if not any(map(len, material.held_out)):
        remedy = "Give a corpus of sentence pairs in corpora a dev split, by its key splits"
        raise EncoderError(f"encoder {config.name!r}: no pair is held out to stop training by. {remedy}")
    tokenise = TextTokeniser(tokeniser.backend_tokenizer, None, longest_input(model, tokeniser))
    lessons = lessons_of(material, teacher_vectors, tokenise)
    task = StudentTask(model, lessons, _held_out(material, tokenise), config, resolve_device(device))
    work = folder.with_name(f".{folder.name}.work-{record['made_from'][:12]}")
    run = TrainingRun(
        stage=f"{config.name}, distillation",
        identity=record["made_from"],
        seed=config.seed,
        epochs=0,
        max_steps=config.max_steps or config.epochs * task.steps_per_pass,
        monitor="loss",
        patience=config.patience,
        checkpoint=work / "checkpoint.safetensors",
        checkpoint_seconds=config.checkpoint_seconds,
    )
    reports = []
    for report in train(task, run):
        reports.append(report)
        log.info("%s: step %d, held-out loss %.4f, accuracy@1 %.4f", run.stage, report.steps,
                 report.terms["dev"]["total"], report.terms["dev"]["accuracy_at_1"])  # fmt: skip
        yield report
    best = min(reports, key=lambda report: report.terms["dev"]["total"])
    held_out_record = {
        "steps": best.steps,
        "held_out": {name: round(value, 6) for name, value in best.terms["dev"].items()},
    }
    publish(task.model.float().cpu(), tokeniser, folder, {**record, **held_out_record})
    remove_path(work)


def _held_out(material: Material, tokenise: TextTokeniser) -> dict[str, tuple[TokenisedTexts, TokenisedTexts]]:
    """By language: pivots and translations of the held-out pairs."""
    texts = held_out_texts(material, HELD_OUT_PAIRS)
    return {language: (tokenise(pivots), tokenise(foreign)) for language, (pivots, foreign) in texts.items()}


class StudentTask(TrainingTask[Int[np.ndarray, " rows"]]):
    """A student in training. A batch is the rows of some lessons of one length.

    What `train` calls an epoch is the steps between two looks at the held-out pairs.
    """

    def __init__(
        self,
        model: Any,
        lessons: Lessons,
        held_out: Mapping[str, tuple[TokenisedTexts, TokenisedTexts]],
        config: DistilledConfig,
        device: str,
    ) -> None:
        super().__init__()
        model.set_attn_implementation("eager")  # its backward pass takes half the time of the fused kernel on a CPU
        self.model = model.requires_grad_(True).to(device)
        self.lessons, self.held_out, self.config, self.device = lessons, held_out, config, device
        self.teacher = torch.from_numpy(lessons.teacher).to(device)
        rows = model.get_input_embeddings().weight
        others = [parameter for parameter in model.parameters() if parameter is not rows]
        self.optimisers = {
            "main": Optimiser(others, _optimiser(config, config.learning_rate)),
            "rows": Optimiser([rows], _optimiser(config, config.row_learning_rate)),
        }
        self.steps_per_pass = len(plan_pass(lessons, config, 0))
        self._passes: dict[int, list[np.ndarray]] = {}

    def train(self, mode: bool = True) -> "StudentTask":
        """Set training mode; dropout stays off, so that the student is asked for what it will answer."""
        super().train(mode)
        self.model.eval()
        return self

    def batches(self, epoch: int) -> Sequence[Int[np.ndarray, " rows"]]:
        """Every foreign text once a pass, and some pivots, in batches of one length and corpus, shuffled."""
        first, count = epoch * self.config.validate_steps, self.config.validate_steps
        return [self._batch(step) for step in range(first, first + count)] if self.steps_per_pass else []

    def _batch(self, step: int) -> Int[np.ndarray, " rows"]:
        number, index = divmod(step, self.steps_per_pass)
        if number not in self._passes:
            self._passes = {number: plan_pass(self.lessons, self.config, number)}
        return self._passes[number][index]

    def loss(self, batch: Int[np.ndarray, " rows"]) -> tuple[Terms, int]:
        """Cross-entropy, in nats, of picking the teacher's vector of the sentence that a text means."""
        targets = torch.from_numpy(self.lessons.target[batch])
        low, high = self.lessons.bank_of(int(batch[0]))
        bank = torch.randint(low, high, (self.config.bank,))
        candidates = torch.cat([targets, bank])
        vectors = F.normalize(self.vectors(self.lessons.tokens, batch), dim=-1)
        cosines = vectors @ self.teacher[candidates.to(self.device)].T
        excluded = _equal_but_own(targets, candidates).to(self.device)
        values = in_batch_softmax(cosines, excluded, temperature=self.config.temperature)
        if self.config.loss == "symmetric":
            diagonal = slice(None, len(batch))
            back = in_batch_softmax(
                cosines[:, diagonal].T, excluded[:, diagonal].T, temperature=self.config.temperature
            )
            values = (values + back) / 2
        return {"total": values.mean()}, len(batch)

    def step(self, batch: Int[np.ndarray, " rows"]) -> tuple[Terms, int]:
        """Take a step of both optimisers, whose gradients are clipped together."""
        optimisers = self.optimisers.values()
        for optimiser in optimisers:
            optimiser.adam.zero_grad(set_to_none=True)
        terms, examples = self.loss(batch)
        terms["total"].backward()
        nn.utils.clip_grad_norm_([parameter for optimiser in optimisers for parameter in optimiser.parameters], CLIP)
        for optimiser in optimisers:
            optimiser.adam.step()
        return terms, examples

    def vectors(self, tokens: TokenisedTexts, rows: Int[np.ndarray, " rows"]) -> Float[Tensor, "rows dim"]:
        """Vectors of texts of one length: no position is padding, so none is masked."""
        positions = tokens.offsets[rows][:, None] + np.arange(int(tokens.lengths[rows[0]]))
        ids = torch.from_numpy(tokens.ids[positions]).to(self.device)
        with arithmetic(self.device, self.config.precision):
            states = self.model(input_ids=ids, attention_mask=None).last_hidden_state
        return states.float().mean(dim=1)

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Of the held-out pairs, means over languages and both directions: cross-entropy and retrieval accuracy."""
        losses, hits = [], []
        for pivots, foreign in self.held_out.values():
            left, right = (F.normalize(self._all_vectors(tokens), dim=-1) for tokens in (pivots, foreign))
            nothing = torch.zeros(len(left), len(left), dtype=torch.bool, device=left.device)
            losses.append(symmetric_softmax(left, right, nothing, temperature=self.config.temperature).mean())
            diagonal = torch.arange(len(left), device=left.device)
            cosines = left @ right.T
            hits += [(cosines.argmax(dim=side) == diagonal).float().mean() for side in (0, 1)]
        return {"total": float(torch.stack(losses).mean()), "accuracy_at_1": float(torch.stack(hits).mean())}

    def _all_vectors(self, tokens: TokenisedTexts) -> Float[Tensor, "texts dim"]:
        groups = list(by_length(tokens.lengths, self.config.batch_size))
        vectors = torch.cat([self.vectors(tokens, rows) for rows in groups])
        return vectors[torch.from_numpy(np.argsort(np.concatenate(groups))).to(vectors.device)]


def _equal_but_own(targets: Int[Tensor, " batch"], candidates: Int[Tensor, " candidates"]) -> Bool[Tensor, "batch _"]:
    """Which candidates are a text's sentence, but not at its own place."""
    equal = targets[:, None] == candidates
    return equal.fill_diagonal_(False)


def _optimiser(config: DistilledConfig, rate: float) -> OptimiserConfig:
    return OptimiserConfig(
        learning_rate=rate, betas=BETAS, warmup=float(max(config.warmup_steps, 1)), schedule="linear"
    )
