"""Pretrain a small XLM-R on the texts at hand, for use without a published checkpoint.

Masked-language modelling as in Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (dynamic masking as in Liu
et al. 2019, https://arxiv.org/abs/1907.11692), with translation pairs if there are any as in TLM of Lample and
Conneau 2019, https://arxiv.org/abs/1901.07291. The result is a Hugging Face folder like any other.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int32, Int64
from torch import Tensor, nn

from disent_core.encoders.checkpoint import save_model
from disent_core.encoders.contract import Device
from disent_core.encoders.kinds.scratch import Algorithm, ScratchConfig
from disent_core.encoders.tokens import ids_of
from disent_core.encoders.transformer import resolve_device, to_device
from disent_core.matmul import arithmetic
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import seeded
from disent_core.optimisation.steps import EpochReport, Terms, TrainingRun, TrainingTask, train
from disent_core.storage.files import write_text
from disent_core.storage.results import open_result, write_result
from disent_core.storage.text_columns import blocks, fingerprint_in_blocks

CODE_VERSION = "1"  # changes with every change of this code that changes weights
Ids = Int[Tensor, "rows length"]

_MARKER, _CHECKPOINT, _TOKENISER = "pretraining.txt", "checkpoint.safetensors", "tokenizer.json"
_LOSS = "pretraining_loss.txt"

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Ids 0 to 4; XLM-R has the mask token last, which would move with the size of the vocabulary."""
PAD, MASK_ID, ORDINARY = 1, 4, 5  # ids of padding and of the mask, and the first id that is no special token


def pretrain(
    texts: Sequence[str],
    config: ScratchConfig,
    folder: Path,
    device: Device = "auto",
    *,
    pairs: Sequence[tuple[str, str]] = (),
) -> Iterator[EpochReport]:
    """Pretrain an encoder on the texts, epoch by epoch, and save it in `folder`, completely or not at all.

    A folder made from equal texts and configuration stays unchanged, without an epoch. An interrupted run
    resumes from its last checkpoint; on a CPU it ends in the weights of an uninterrupted run. The loss is in
    nats per masked token.

    A folder beside `folder` holds the checkpoint. `pairs` are translations, used only if `config.translation`.
    """
    if not texts:
        raise ValueError("there are no texts to pretrain on")
    pairs = pairs if config.translation else ()
    made_from = fingerprint_in_blocks(CODE_VERSION, config.identity(), texts, pairs)
    if _read_marker(folder) == made_from:
        return
    work = folder.with_name(f".{folder.name}.pretraining")
    if _read_marker(work) != made_from or open_result(work / _TOKENISER) is None:
        shutil.rmtree(work, ignore_errors=True)
        every_text = chain(texts, chain.from_iterable(pairs))
        train_tokeniser(every_text, config.tokeniser, config.vocab_size, work / _TOKENISER)
        write_text(work / _MARKER, made_from)
    sequences = read_sequences(texts, pairs, config.max_length, work / _TOKENISER)
    task = PretrainingTask(config, sequences, resolve_device(device))
    run = TrainingRun(
        stage="pretraining",
        identity=made_from,
        seed=config.seed,
        epochs=config.epochs,
        max_steps=config.max_steps,
        checkpoint=work / _CHECKPOINT,
        checkpoint_seconds=config.checkpoint_seconds,
    )
    yield from train(task, run)
    _publish(task, config, work, folder, made_from)


def final_loss(folder: Path) -> float:
    """Return the loss of the last step of a finished model, in nats per masked token."""
    return float((folder / _LOSS).read_text())


def _read_marker(folder: Path) -> str | None:
    marker = folder / _MARKER
    return marker.read_text() if marker.is_file() else None


# --- training ---------------------------------------------------------------------------------------------


class PretrainingTask(TrainingTask[tuple[int, np.ndarray]]):
    """A model that predicts masked tokens. A batch is its step number, from 0, and rows of the sequences.

    Initial weights, batches and masks keep the seeds and the unfused Adam of version 1, so that earlier encoders are
    reproduced to the bit.
    """

    def __init__(self, config: ScratchConfig, sequences: "Sequences", device: str) -> None:
        super().__init__()
        self.config, self.sequences, self.device = config, sequences, device
        with seeded(config.seed):
            self.model = _new_model(config, sequences.vocab_size).to(device)
        self.last_loss: Tensor
        self.register_buffer("last_loss", torch.tensor(float("nan"), device=device))
        optimiser = OptimiserConfig(
            learning_rate=config.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=config.weight_decay,
            warmup=config.warmup,
            schedule="linear_from_one",
            clip=1.0,
            fused=False,
        )
        self.optimisers = {"main": Optimiser(self.model.parameters(), optimiser)}

    def batches(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """Return all sequences, shuffled, in batches of similar length."""
        rows = plan_epoch(self.sequences.lengths, self.config.batch_tokens, (self.config.seed, epoch))
        return list(enumerate(rows, start=epoch * len(rows)))

    def loss(self, batch: tuple[int, np.ndarray]) -> tuple[Terms, int]:
        step, rows = batch
        sequences = [torch.from_numpy(self.sequences.of(int(row))) for row in rows]
        ids = nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=PAD)
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + step)
        vocab_size, probability = self.sequences.vocab_size, self.config.mask_probability
        seen, chosen = mask_tokens(ids, vocab_size=vocab_size, probability=probability, generator=generator)
        positions, targets = chosen.nonzero(), ids[chosen]
        moved = (to_device(tensor.numpy(), self.device) for tensor in (seen, positions, targets))
        with arithmetic(self.device, "bfloat16" if self.device == "cuda" else "float32"):
            loss = _masked_loss(self.model, *moved)
        self.last_loss.copy_(loss.detach())
        return {"total": loss}, len(targets)


def _new_model(config: ScratchConfig, vocab_size: int) -> Any:
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    architecture = XLMRobertaConfig(
        vocab_size=vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.intermediate_size,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        max_position_embeddings=config.max_length + PAD + 1,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=PAD,
        eos_token_id=2,
    )
    return XLMRobertaForMaskedLM(architecture)


def _masked_loss(
    model: Any, seen: Ids, positions: Int[Tensor, "predicted 2"], targets: Int[Tensor, " predicted"]
) -> Float[Tensor, ""]:
    """Return the cross-entropy of the tokens at some rows and positions, computing only their scores."""
    visible = seen != PAD
    # Off the CPU, pass a mask of position pairs, which transformers uses as is: searching the other form for padding
    # would make the CPU wait.
    mask = visible.long() if seen.is_cpu else visible[:, None, None].expand(-1, 1, seen.shape[1], -1)
    hidden = model.roberta(input_ids=seen, attention_mask=mask).last_hidden_state
    return F.cross_entropy(model.lm_head(hidden[positions.unbind(1)]).float(), targets)


def _publish(task: PretrainingTask, config: ScratchConfig, work: Path, folder: Path, made_from: str) -> None:
    from transformers import PreTrainedTokenizerFast

    bos, pad, eos, unk, mask = SPECIAL_TOKENS
    token_roles = {"bos_token": bos, "cls_token": bos, "pad_token": pad, "eos_token": eos, "sep_token": eos}
    tokeniser = PreTrainedTokenizerFast(
        tokenizer_file=str(work / _TOKENISER),
        unk_token=unk,
        mask_token=mask,
        model_max_length=config.max_length,
        **token_roles,
    )
    save_model(task.model, tokeniser, folder, {_LOSS: f"{float(task.last_loss)!r}\n", _MARKER: made_from})
    shutil.rmtree(work)


# --- texts ------------------------------------------------------------------------------------------------


def train_tokeniser(texts: Iterable[str], algorithm: Algorithm, vocab_size: int, path: Path) -> None:
    """Train a tokeniser with XLM-R's special tokens and write it to `path`."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = [AddedToken(token, special=True, lstrip=token == "<mask>") for token in SPECIAL_TOKENS]
    shared = {"vocab_size": vocab_size, "special_tokens": special, "show_progress": False}
    if algorithm == "bpe":
        tokeniser = Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(min_frequency=2, **shared)
    else:
        tokeniser = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **shared)
    tokeniser.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokeniser.pre_tokenizer = pre_tokenizers.Metaspace()
    tokeniser.train_from_iterator(texts, trainer)
    tokeniser.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    with write_result(path) as beside:
        tokeniser.save(str(beside))


@dataclass(frozen=True)
class Sequences:
    """Concatenated token ids of texts, special tokens included, and the size of the vocabulary."""

    ids: Int32[np.ndarray, " tokens"]
    lengths: Int[np.ndarray, " texts"]
    vocab_size: int

    @cached_property
    def _ends(self) -> Int[np.ndarray, " texts"]:
        return np.cumsum(self.lengths)

    def of(self, text: int) -> Int64[np.ndarray, " length"]:
        end = self._ends[text]
        return self.ids[end - self.lengths[text] : end].astype(np.int64)


def read_sequences(
    texts: Sequence[str], pairs: Sequence[tuple[str, str]], max_length: int, tokeniser: Path
) -> Sequences:
    """Return the ids of the texts and, as one sequence each, of the translation pairs."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokeniser))
    loaded.enable_truncation(max_length)
    ids, lengths = ids_of(loaded, chain(blocks(texts), blocks(pairs)))
    return Sequences(ids, lengths, loaded.get_vocab_size())


def plan_epoch(
    lengths: Int[np.ndarray, " texts"], batch_tokens: int, seed: tuple[int, int]
) -> list[Int[np.ndarray, " rows"]]:
    """Return batches of texts of similar length within the token budget, as many in every epoch, shuffled."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(lengths))
    order = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    batches, start = [], 0
    while start < len(order):
        # A batch ends with its longest text: the largest n with n * length <= budget.
        ahead = lengths[order[start : start + batch_tokens]]
        size = max(int(np.searchsorted(ahead * np.arange(1, len(ahead) + 1), batch_tokens, side="right")), 1)
        batches.append(order[start : start + size])
        start += size
    return [batches[index] for index in random.permutation(len(batches))]


def mask_tokens(
    ids: Ids, *, vocab_size: int, probability: float, generator: torch.Generator
) -> tuple[Ids, Bool[Tensor, "rows length"]]:
    """Return ids as the model sees them, and the positions that it predicts (at least one in each batch).

    Of the predicted tokens, 80 % are masked, 10 % replaced by a token of the vocabulary, and 10 % unchanged.
    """
    draw = torch.rand(ids.shape, generator=generator).masked_fill(ids < ORDINARY, 2.0)
    chosen = (draw < probability) | ((draw == draw.min()) & (draw < 1))
    kind = torch.rand(ids.shape, generator=generator)
    random_ids = torch.randint(ORDINARY, vocab_size, ids.shape, generator=generator)
    seen = torch.where(chosen & (kind < 0.8), MASK_ID, ids)
    return torch.where(chosen & (kind >= 0.9), random_ids, seen), chosen
