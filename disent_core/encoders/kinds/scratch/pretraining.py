"""Pretrain a small XLM-R on the texts at hand, for use without a published checkpoint.

Masked-language modelling as in Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (dynamic masking as in Liu
et al. 2019, https://arxiv.org/abs/1907.11692), with translation pairs if there are any as in TLM of Lample and
Conneau 2019, https://arxiv.org/abs/1901.07291. The result is a Hugging Face folder like any other.
"""

import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import quiet_transformers
from disent_core.encoders.contract import Device
from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.encoders.kinds.scratch.masked_language_model import (
    PAD,
    SPECIAL_TOKENS,
    Sequences,
    mask_tokens,
    plan_epoch,
    read_sequences,
    train_tokeniser,
)
from disent_core.encoders.transformer import resolve_device, to_device
from disent_core.matmul import arithmetic
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import seeded
from disent_core.optimisation.steps import EpochReport, Terms, TrainingRun, TrainingTask, train
from disent_core.storage.files import write_text
from disent_core.storage.results import open_result, write_folder
from disent_core.storage.text_columns import fingerprint_in_blocks

CODE_VERSION = "1"
"""Changes with every change of this code that changes weights."""

_MARKER, _CHECKPOINT, _TOKENISER = "pretraining.txt", "checkpoint.safetensors", "tokenizer.json"
_LOSS = "pretraining_loss.txt"


def pretrain(
    texts: Sequence[str],
    config: ScratchConfig,
    folder: Path,
    device: Device = "auto",
    *,
    pairs: Sequence[tuple[str, str]] = (),
) -> Iterator[EpochReport]:
    """Pretrain an encoder on the texts, epoch by epoch, and save it in `folder`, completely or not at all.

    A folder that was made from equal texts and configuration stays unchanged, without an epoch. An interrupted run
    resumes from its last checkpoint; on a CPU it ends in the weights of an uninterrupted run. The loss is in
    nats per masked token.

    Args:
        texts: texts of all languages, mixed or not.
        config: architecture and training.
        folder: folder of the finished model; a folder beside it holds the checkpoint.
        device: `auto` is a GPU where there is one.
        pairs: translations of one another, used only if `config.translation`.
    """
    if not texts:
        raise ValueError("there are 0 texts to pretrain on")
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
    """A model that predicts masked tokens. A batch is the number of its step, from 0, and rows of the sequences.

    Initial weights, batches and masks keep the seeds and the unfused Adam of version 1, so that encoders that were
    pretrained before are reproduced to the bit.
    """

    def __init__(self, config: ScratchConfig, sequences: Sequences, device: str) -> None:
        super().__init__()
        self.config, self.sequences, self.device = config, sequences, device
        with seeded(config.seed):
            self.model = _new_model(config, sequences.vocab_size).to(device)
        self.last_loss: Tensor
        self.register_buffer("last_loss", torch.tensor(float("nan"), device=device))
        self.optimisers = {"main": Optimiser(self.model.parameters(), _optimiser_config(config))}

    def batches(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """All sequences, shuffled, in batches of similar length."""
        rows = plan_epoch(self.sequences.lengths, self.config.batch_tokens, (self.config.seed, epoch))
        return list(enumerate(rows, start=epoch * len(rows)))

    def loss(self, batch: tuple[int, np.ndarray]) -> tuple[Terms, int]:
        """Cross-entropy of the masked tokens, in nats."""
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


def _optimiser_config(config: ScratchConfig) -> OptimiserConfig:
    return OptimiserConfig(
        learning_rate=config.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=config.weight_decay,
        warmup=config.warmup,
        schedule="linear_from_one",
        clip=1.0,
        fused=False,
    )


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
    model: Any,
    seen: Int[Tensor, "rows length"],
    positions: Int[Tensor, "predicted 2"],
    targets: Int[Tensor, " predicted"],
) -> Float[Tensor, ""]:
    """Cross-entropy of the tokens at some places, row and position: only their scores are computed."""
    visible = seen != PAD
    # Elsewhere than on the CPU a mask of pairs of positions, which transformers takes as it is: looking for padding in
    # the other form would make the CPU wait.
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
    with quiet_transformers(), write_folder(folder) as beside:
        task.model.save_pretrained(beside)
        tokeniser.save_pretrained(beside)
        (beside / _LOSS).write_text(f"{float(task.last_loss)!r}\n")
        (beside / _MARKER).write_text(made_from)
    shutil.rmtree(work)
