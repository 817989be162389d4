"""An encoder kind outside the library: letter frequencies, in an order that a step of the lineage learns from texts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from disent_core.encoders.contract import EncodedBatch, EncoderConfig, EncoderReport, EncoderStep, not_made_yet
from disent_core.storage.results import open_result, write_folder
from disent_core.storage.tables import fingerprint


@dataclass(frozen=True, kw_only=True)
class ToyConfig(EncoderConfig):
    """Letter frequencies.

    Attributes:
        letters: how many of the most frequent letters are counted.
    """

    letters: int = 8

    def fingerprint(self, folder: Path) -> str:
        if not folder.is_dir():
            raise not_made_yet(folder, self.name)
        return fingerprint("toy", self, (folder / "letters.txt").read_text(encoding="utf-8"))

    def load(self, folder: Path, language: str, device: str) -> "ToyEncoder":
        return ToyEncoder(self, folder)

    def steps(self, config) -> list[EncoderStep]:
        version, make = fingerprint("1", self), f"{__name__}:count_letters"
        step = EncoderStep(encoder=self.name, description="Letters", version=version, tables=("utterances",), make=make)
        return [step]


def count_letters(settings: ToyConfig, inputs) -> EncoderReport:
    """Write the most frequent letters of the English training utterances."""
    folder = inputs.folder(settings.name)
    if open_result(folder) is not None:
        return EncoderReport(settings.fingerprint(folder), True)
    texts = inputs.texts("utterances", "sample", "en", ["train"])["text"].to_pylist()
    letters = sorted(set("".join(texts)), key=lambda letter: (-"".join(texts).count(letter), letter))
    with write_folder(folder) as temporary:
        temporary.mkdir(exist_ok=True)
        (temporary / "letters.txt").write_text("".join(letters[: settings.letters]), encoding="utf-8")
    return EncoderReport(settings.fingerprint(folder), False, {"texts": len(texts)})


class ToyEncoder:
    states_dtype = vector_dtype = "float32"

    def __init__(self, settings: ToyConfig, folder: Path) -> None:
        self.name, self.dim, self.fingerprint = settings.name, settings.letters, settings.fingerprint(folder)
        self.letters = (folder / "letters.txt").read_text(encoding="utf-8")

    def encode(self, texts, *, states):
        for row, text in enumerate(texts):
            vector = np.array([[text.count(letter) for letter in self.letters]], np.float32) + 0.1
            yield EncodedBatch(np.array([row]), vector, None, np.zeros(1, np.int64))
