"""Work that the processes of tests import: functions of one number, or of a range."""

import os
import signal
from pathlib import Path

import numpy as np

from disent_core.errors import EncoderError


def square(number):
    return number * number


def process(number):
    return os.getpid()


def refused(number):
    raise EncoderError(f"text {number} can't be encoded")


def broken(number):
    raise ZeroDivisionError


def killed(number):
    os.kill(os.getpid(), signal.SIGKILL)


class KilledOnce:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, number):
        if number == 3 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number


class Counting:
    """Arrays of a range; leaves a line in a file for each range that is computed, and fails at one."""

    def __init__(self, log: Path, fails_at: int = -1) -> None:
        self.log, self.fails_at = log, fails_at

    def __call__(self, shard):
        if shard.start == self.fails_at:
            raise EncoderError("stopped")
        with self.log.open("a") as file:
            file.write(f"{shard.start}\n")
        return {"squares": np.arange(shard.start, shard.stop) ** 2}

    def computed(self):
        return sorted(int(line) for line in self.log.read_text().split()) if self.log.exists() else []
