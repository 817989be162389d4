"""Train an aligned encoder to place a translation where the teacher has its source.

A form of Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813, with a softmax in place of their squared error.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import load_model, load_tokeniser, longest_input, save_model
from disent_core.encoders.contract import Device
from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.pairs import Material, record_file
from disent_core.encoders.tokens import TextTokeniser, TokenisedTexts, equal_runs, joined_tokens
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import EncoderError
from disent_core.losses.contrastive import in_batch_softmax, symmetric_softmax
from disent_core.matmul import arithmetic
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import derived_seed
from disent_core.optimisation.steps import EpochReport, Terms, TrainingRun, TrainingTask, train
from disent_core.storage.files import remove_path
from disent_core.storage.text_columns import BLOCK, TextColumn, blocks, joined, numbered

log = logging.getLogger(__name__)

CLIP, BETAS = 5.0, (0.9, 0.98)
HELD_OUT_PAIRS = 500  # of each language, at most
_FINAL = ".?!。？！"


def train_student(
    material: Material,
    teacher_vectors: Callable[[TextColumn], Float[np.ndarray, "sentences dim"]],
    config: DistilledConfig,
    aligned: Path,
    folder: Path,
    record: Mapping[str, Any],
    device: Device = "auto",
) -> Iterator[EpochReport]:
    """Train a student and write it, completely or not at all; yield a report at each check on the held-out pairs.

    Without `config.train` the student is the aligned encoder. `teacher_vectors` returns the vectors of pivots in a new
    matrix; `record` describes what the student is made from, and its `made_from` is a fingerprint of that. An
    interrupted run resumes from its last checkpoint; on a CPU it ends in the weights of an uninterrupted run.
    """
    tokeniser, model = load_tokeniser(aligned), load_model(aligned, pooling="mean")
    if not config.train:
        save_model(model, tokeniser, folder, record_file(record))
        return
    if not any(map(len, material.held_out)):
        remedy = "Give one of its corpora of sentence pairs a dev split, with the key splits"
        raise EncoderError(f"encoder {config.name!r}: no pair is held out to decide when training stops. {remedy}")
    tokenise = TextTokeniser(tokeniser.backend_tokenizer, None, longest_input(model, tokeniser))
    lessons = lessons_of(material, teacher_vectors, tokenise)
    held_out = {
        language: (tokenise(pivots), tokenise(foreign))
        for language, (pivots, foreign) in held_out_texts(material, HELD_OUT_PAIRS).items()
    }
    task = StudentTask(model, lessons, held_out, config, resolve_device(device))
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
    figures = {"steps": best.steps, "held_out": {name: round(value, 6) for name, value in best.terms["dev"].items()}}
    save_model(task.model.float().cpu(), tokeniser, folder, record_file({**record, **figures}))
    remove_path(work)


class StudentTask(TrainingTask[Int[np.ndarray, " rows"]]):
    """A student in training. A batch is the rows of some lessons of one length.

    An epoch of `train` here is the steps between two checks on the held-out pairs.
    """

    def __init__(
        self,
        model: Any,
        lessons: "Lessons",
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
        """Set training mode; dropout stays off, so that training sees the vectors that the student will return."""
        super().train(mode)
        self.model.eval()
        return self

    def batches(self, epoch: int) -> Sequence[Int[np.ndarray, " rows"]]:
        """Return some batches of a pass: every foreign text and some pivots, by length and corpus, shuffled."""
        batches, first = [], epoch * self.config.validate_steps
        for step in range(first, first + self.config.validate_steps) if self.steps_per_pass else ():
            number, index = divmod(step, self.steps_per_pass)
            if number not in self._passes:
                self._passes = {number: plan_pass(self.lessons, self.config, number)}
            batches.append(self._passes[number][index])
        return batches

    def loss(self, batch: Int[np.ndarray, " rows"]) -> tuple[Terms, int]:
        """Return the cross-entropy, in nats, of picking the teacher's vector of the sentence that a text means."""
        targets = torch.from_numpy(self.lessons.target[batch])
        corpus = int(self.lessons.corpus[batch[0]])
        low, high = self.lessons.starts[corpus : corpus + 2]
        bank = torch.randint(low, high, (self.config.bank,))
        candidates = torch.cat([targets, bank])
        vectors = F.normalize(self.vectors(self.lessons.tokens, batch), dim=-1)
        cosines = vectors @ self.teacher[candidates.to(self.device)].T
        # Other occurrences of a text's sentence among the candidates, besides the diagonal.
        excluded = (targets[:, None] == candidates).fill_diagonal_(False).to(self.device)
        values = in_batch_softmax(cosines, excluded, temperature=self.config.temperature)
        if self.config.loss == "symmetric":
            of_texts, excluded_texts = cosines[:, : len(batch)].T, excluded[:, : len(batch)].T
            values = (values + in_batch_softmax(of_texts, excluded_texts, temperature=self.config.temperature)) / 2
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
        """Return the vectors of texts of one length; there is no padding, so nothing is masked."""
        positions = tokens.offsets[rows][:, None] + np.arange(int(tokens.lengths[rows[0]]))
        ids = torch.from_numpy(tokens.ids[positions]).to(self.device)
        with arithmetic(self.device, self.config.precision):
            states = self.model(input_ids=ids, attention_mask=None).last_hidden_state
        return states.float().mean(dim=1)

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return cross-entropy and retrieval accuracy of held-out pairs, means over languages and both directions."""
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


def _optimiser(config: DistilledConfig, rate: float) -> OptimiserConfig:
    return OptimiserConfig(
        learning_rate=rate, betas=BETAS, warmup=float(max(config.warmup_steps, 1)), schedule="linear"
    )


# --- lessons ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lessons:
    tokens: TokenisedTexts  # of every text, without final punctuation in half of them
    target: Int[np.ndarray, " texts"]  # row of `teacher` with a text's meaning
    is_pivot: Bool[np.ndarray, " texts"]  # whether a text is in the teacher's language, so that its target is itself
    corpus: Int[np.ndarray, " texts"]  # index of each text's corpus; candidate sentences are from one corpus
    teacher: Float[np.ndarray, "sentences dim"]  # the teacher's vectors, of norm 1, grouped by corpus
    starts: Sequence[int]  # row of `teacher` at which each corpus begins, and the end


def lessons_of(
    material: Material,
    teacher_vectors: Callable[[TextColumn], Float[np.ndarray, "sentences dim"]],
    tokenise: Callable[[Sequence[str]], TokenisedTexts],
) -> Lessons:
    """Return the distinct pairs of text and sentence of every corpus, and each sentence as a text of its own."""
    texts: list[TextColumn] = []
    sentences: list[TextColumn] = []
    targets, starts = [np.zeros(0, np.int64)], [0]
    corpora = list(dict.fromkeys(part.corpus for part in material.training))
    for name in corpora:
        parts = [part for part in material.training if part.corpus == name]
        pivots, target = numbered(joined(part.pivots for part in parts))
        foreign, text = numbered(joined(part.foreign for part in parts))
        _, first = np.unique(text * len(pivots) + target, return_index=True)
        first.sort()
        texts += [foreign.take(text[first]), pivots]
        targets += [starts[-1] + target[first], starts[-1] + np.arange(len(pivots))]
        sentences.append(pivots)
        starts.append(starts[-1] + len(pivots))
    sizes = np.array([len(column) for column in texts], dtype=np.int64)
    return Lessons(
        tokens=joined_tokens([tokenise([_seen(text) for text in block]) for block in blocks(joined(texts))]),
        target=np.concatenate(targets),
        is_pivot=np.repeat(np.tile([False, True], len(corpora)), sizes),
        corpus=np.repeat(np.arange(len(corpora)).repeat(2), sizes),
        teacher=_unit(teacher_vectors(joined(sentences))),
        starts=starts,
    )


def _unit(vectors: Float[np.ndarray, "texts dim"]) -> Float[np.ndarray, "texts dim"]:
    """Return the vectors in float32, divided by their norms in place."""
    unit = vectors.astype(np.float32, copy=False)
    for start in range(0, len(unit), BLOCK):
        block = unit[start : start + BLOCK]
        block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-12)
    return unit


def held_out_texts(material: Material, most: int) -> dict[str, tuple[list[str], list[str]]]:
    """Return, by language, at most `most` distinct pivots and a translation of each."""
    chosen: dict[str, dict[str, str]] = {}
    for part in material.held_out:
        of_language = chosen.setdefault(part.language, {})
        for pivot, foreign in part.pairs:
            if len(of_language) == most:
                break
            of_language.setdefault(pivot, foreign)
    return {language: (list(kept), list(kept.values())) for language, kept in chosen.items() if kept}


def _seen(text: str) -> str:
    """Return the text as the student sees it: half of the texts, always the same, lack their final punctuation."""
    bare = text.rstrip(f"{_FINAL} ")
    return bare if bare and hashlib.sha256(text.encode()).digest()[0] % 2 else text


def plan_pass(lessons: Lessons, config: DistilledConfig, number: int) -> list[Int[np.ndarray, " rows"]]:
    """Return batches of one length and corpus, the same number in each pass: all foreign texts and some pivots."""
    random = np.random.default_rng(derived_seed(config.seed, "distillation", number))
    lengths, batches = lessons.tokens.lengths, []
    for group in equal_runs(np.lexsort((lengths, lessons.corpus)), lessons.corpus, lengths):
        pivots_of_group = group[lessons.is_pivot[group]]
        taken = random.permutation(pivots_of_group)[: int(config.pivot_share * len(pivots_of_group))]
        rows = random.permutation(np.concatenate([group[~lessons.is_pivot[group]], taken]))
        batches += [rows[start : start + config.batch_size] for start in range(0, len(rows), config.batch_size)]
    return [batches[index] for index in random.permutation(len(batches))]


def by_length(lengths: Int[np.ndarray, " texts"], size: int) -> Iterator[Int[np.ndarray, " rows"]]:
    """Yield batches of texts of one length, at most `size` each."""
    for group in equal_runs(np.argsort(lengths, kind="stable"), lengths):
        for start in range(0, len(group), size):
            yield group[start : start + size]
