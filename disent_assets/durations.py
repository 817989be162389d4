"""Expect how long steps take: as long as the last time, or, before there was one, as in the demo."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from disent_assets.plan import Step
from disent_core.config.model import Config
from disent_core.encoders.config import DistilledConfig, HuggingFaceConfig, ScratchConfig, VectorsConfig
from disent_core.experiment.keys import HEAD, METRICS
from disent_core.storage.atomic import write_text
from disent_core.training.needs import Need

MEASURED = {
    # `disent materialize` on disent.toml, and on configs/sample_all.toml for what only that has: the mean of the
    # partitions of a method in DISENT_HOME/dagster/step_seconds.json, head and metrics together. Only ratios matter.
    "raw": 0.6, "bertscore": 4.3, "centered": 1.4, "projection": 1.6,
    "dream": 12.0, "dream_oracle": 12.0, "meat_oracle": 6.0, "meat": 6.0, "oracle": 10.0,
    "fmda": 15.0, "fmda_two_stage": 27.0, "facet": 22.0, "facet_first": 22.0,
    "emu": 30.0, "softmax": 20.0, "contrastive": 20.0, "npair": 25.0,
    "token_classification": 8.0, "twosl": 12.0, "fine_tuned": 15.0,
}  # fmt: skip
ANOTHER_METHOD = 15.0
ENCODING = {ScratchConfig: 3.0, HuggingFaceConfig: 20.0, VectorsConfig: 2.0, DistilledConfig: 20.0}
"""Encoding of one language, by the kind of the encoder."""
FINE_TUNING = 10.0
"""How many times longer a method takes that runs an encoder which is not pretrained here, but large."""
PRETRAINING, DISTILLING, TEXTS, GATHERING = 16.0, 400.0, 0.7, 3.0
STARTING_WORKERS = 6.0
"""Processor time of starting two workers, which one process does not need."""
LOOK = 0.05
"""A look at the files of a step that is fresh."""


def expected_seconds(
    steps: Iterable[Step], config: Config, recorded: Mapping[str, float], fresh: Iterable[Step] = ()
) -> dict[str, float]:
    """Name of each step -> its expected duration."""
    looks = {step.name for step in fresh}
    return {
        step.name: LOOK if step.name in looks else recorded.get(step.name) or _as_in_the_demo(step, config)
        for step in steps
    }


def _as_in_the_demo(step: Step, config: Config) -> float:
    stage, *middle, name = step.path
    if stage in ("heads", "evaluation") and name.endswith((HEAD, METRICS)):
        method = config.methods.get(name.removesuffix(HEAD).removesuffix(METRICS))
        seconds = MEASURED.get(method.method.name if method else "", ANOTHER_METHOD)
        runs_encoder = method is not None and Need.ENCODER in method.needs
        is_large = isinstance(config.encoders.get(middle[0]), HuggingFaceConfig | DistilledConfig)
        return seconds * (FINE_TUNING if runs_encoder and is_large else 1.0)
    if stage == "embeddings":
        kind = type(config.encoders[middle[0]])
        if step.partition is None:
            return DISTILLING if kind is DistilledConfig else PRETRAINING
        return ENCODING.get(kind, ANOTHER_METHOD)
    return GATHERING if step.partition is None else TEXTS


def read_seconds(home: Path) -> dict[str, float]:
    """The durations that earlier commands have recorded."""
    try:
        recorded = json.loads(_file(home).read_text(encoding="utf-8"))
        return {str(name): float(seconds) for name, seconds in recorded.items()}
    except (OSError, ValueError, AttributeError, TypeError):  # it only serves the display
        return {}


def write_seconds(home: Path, measured: Mapping[str, float]) -> None:
    """Record durations beside those of other steps."""
    if measured:
        merged = {**read_seconds(home), **{name: round(seconds, 2) for name, seconds in measured.items()}}
        write_text(_file(home), json.dumps(merged, indent=0, sort_keys=True) + "\n")


def _file(home: Path) -> Path:
    return home / "dagster" / "step_seconds.json"
