"""Whatever the step loop trains goes on from its checkpoint to the same bits, wherever it was cut off."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from slot_sentences import tagged_data, tiny_bert
from synthetic import world
from tiny_encoder import tiny_encoder

from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.encoders.kinds.scratch.pretraining import PretrainingTask, pretrain
from disent_core.methods import emu_head, method
from disent_core.methods.emu_head import ContrastiveTask, EmuTask, NPairTask
from disent_core.methods.facet_head import FacetTask
from disent_core.methods.infonce_head import TranslationTask
from disent_core.methods.lexicon_head import LexiconTask
from disent_core.methods.trainer import trainer
from disent_core.optimisation import steps
from disent_core.optimisation.steps import ExamplesTask, TrainingTask
from disent_core.training.epoch import Fit

Weights = dict[str, torch.Tensor]
OFTEN = {"batch_size": 5, "epochs": 2, "checkpoint_seconds": 0.0}
FINE_TUNED = OFTEN | {"learning_rate": 1e-3}
HEAD = FINE_TUNED | {"tune": "head"}
BEST = {"monitor": "dev_accuracy", "epochs": 3, "patience": 3}
FEW_SHOT = {"examples": 12, "transfer": "sequential", "batch_size": 5, "checkpoint_seconds": 0.0}
TWOSL = FEW_SHOT | {
    "examples": 6, "max_span": 2, "max_positive_pairs": 3, "contrastive_epochs": 1, "filter_hidden": (8,),
    "filter_epochs": 1, "type_hidden": (8,), "type_epochs": 1, "classifier_learning_rate": 1e-3,
}  # fmt: skip
FACET = {"template_units": 4, "residual_units": 3, "template_words": 5, "residual_words": 2, "at_least": 1}
TEXTS = [f"{verb} at {time}" for verb in ("wake me up", "weck mich", "call mum") for time in ("nine", "noon", "ten")]
SCRATCH = {"vocab_size": 120, "hidden_size": 16, "heads": 2, "intermediate_size": 32, "max_length": 32,
           "dropout": 0.1, "max_steps": 7}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Something that the loop trains: its task, and how it is trained in a folder, to weights and epochs."""

    task: type[TrainingTask]
    train: Callable[[Path], tuple[Weights, list[object]]]


def of_method(name: str, task: type[TrainingTask], seeds: tuple[int, ...] = (0, 1), **settings: object) -> Case:
    def train(folder: Path) -> tuple[Weights, list[object]]:
        chosen = method(name)
        data = tagged_data(tiny_bert(folder / "encoder")) if chosen.labels else tuned_world(folder / "encoder")
        config, checkpoint = replace(chosen.presets["paper"], **settings), folder / "checkpoint"
        epochs = list(trainer(chosen).fit(data, config, Fit(seeds, checkpoint, "run")))
        trainer(chosen).save(checkpoint, folder / "weights.safetensors", {"seeds": seeds})
        return load_file(folder / "weights.safetensors"), epochs

    return Case(task, train)


def tuned_world(folder: Path):
    folder.mkdir(parents=True, exist_ok=True)
    return replace(world("en-de", dim=16).data, encoder=tiny_encoder(folder))


def of_pretraining() -> Case:
    def train(folder: Path) -> tuple[Weights, list[object]]:
        config = ScratchConfig(name="scratch", batch_tokens=24, epochs=3, checkpoint_seconds=0.0, **SCRATCH)
        epochs = list(pretrain(TEXTS, config, folder / "model", "cpu"))
        return load_file(folder / "model" / "model.safetensors"), epochs

    return Case(PretrainingTask, train)


CASES = {
    "emu": of_method("emu", EmuTask, **FINE_TUNED),
    "emu, the best epoch": of_method("emu", EmuTask, **HEAD | BEST),
    "contrastive": of_method("contrastive", ContrastiveTask, **HEAD),
    "npair": of_method("npair", NPairTask, **HEAD),
    "fine_tuned": of_method("fine_tuned", TranslationTask, **FINE_TUNED),
    "lexicon": of_method("lexicon", LexiconTask, **OFTEN, template_units=3, residual_units=3),
    "facet": of_method("facet", FacetTask, **OFTEN, **FACET),
    "twosl": of_method("twosl", ExamplesTask, (0,), **TWOSL),
    "token_classification": of_method("token_classification", ExamplesTask, **FEW_SHOT, epochs=2),
    "pretraining, with dropout": of_pretraining(),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_was_cut_off_ends_in_the_same_bits_and_computes_no_step_twice(case, tmp_path, monkeypatch):
    monkeypatch.setattr(emu_head, "_HIDDEN", 12)
    monkeypatch.setattr(steps, "SAVE_SHARE", float("inf"))  # a checkpoint after every step
    taken, step = count(), case.task.step
    cuts: set[int] = set()

    def counted(self, batch):
        if next(taken) in cuts:
            raise KeyboardInterrupt
        return step(self, batch)

    monkeypatch.setattr(case.task, "step", counted)
    weights, epochs = case.train(tmp_path / "whole")
    total = next(taken)
    wanted = sorted({1, epochs[0].steps, total - 1})  # in the first epoch, at its end, and in the last one
    taken = count()
    cuts |= {cut + died for died, cut in enumerate(wanted)}  # a step that died is taken again
    for _ in wanted:
        torch.manual_seed(99)  # the state of the global generator plays no part
        with pytest.raises(KeyboardInterrupt):
            case.train(tmp_path / "cut")
    resumed, again = case.train(tmp_path / "cut")
    assert next(taken) == total + len(wanted)
    assert resumed.keys() == weights.keys()
    assert all(torch.equal(resumed[name], value) for name, value in weights.items())
    assert [replace(epoch, seconds=0.0) for epoch in again] == [replace(epoch, seconds=0.0) for epoch in epochs]
