"""Measure what a training costs: seconds, processor seconds, and the machine."""

import json
import os
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from disent_core.storage.tables import NOTES, TableInfo

if TYPE_CHECKING:
    from disent_core.training.epoch import Epoch


@dataclass(frozen=True)
class TrainingCost:
    """What the training of all seeds of a head took.

    Attributes:
        seconds: of the clock.
        processor_seconds: of all threads; None if a kill lost them.
        machine: its processor and cores, or its GPU.
    """

    seconds: float
    processor_seconds: float | None
    machine: str

    def beside(self, curve: pa.Table) -> pa.Table:
        """Return the curve with the cost as a note in its manifest, which is no part of its fingerprint."""
        return curve.replace_schema_metadata({NOTES: json.dumps(asdict(self))})

    @classmethod
    def of(cls, curve: TableInfo) -> "TrainingCost | None":
        """Return the cost of a curve; None if an earlier version wrote it."""
        return cls(**json.loads(curve.notes)) if curve.notes else None


class Meter:
    """Measures the time since its creation."""

    def __init__(self) -> None:
        self.began = time.monotonic(), time.process_time()

    def cost(self, epochs: Sequence["Epoch"], device: str) -> TrainingCost:
        """Return the cost of a training with these epochs.

        The checkpoint of a killed run has the seconds of the epochs that are replayed here. Their processor seconds are
        in proportion to those of the epochs that were computed here.
        """
        seconds, processor = time.monotonic() - self.began[0], time.process_time() - self.began[1]
        replayed = sum(epoch.seconds for epoch in epochs if epoch.is_replayed)
        computed = sum(epoch.seconds for epoch in epochs if not epoch.is_replayed)
        if replayed:
            processor = processor * (1 + replayed / computed) if computed else None
        return TrainingCost(
            round(seconds + replayed, 3), None if processor is None else round(processor, 3), machine(device)
        )


def machine(device: str) -> str:
    """Return the name of the GPU, or of the processor with the cores that this process may use."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = model[1].strip() if model else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"
