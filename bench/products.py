"""Compare epochs of heads with the matrix products alone that they compute, of the same shapes and number formats.

python -m bench.products [--quick] [--only "DREAM, fast"] [--epochs 60]
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench import training
from bench.gpu.measuring import random_matrix
from bench.measuring import row
from disent_core.methods import dream, facet, fmda, lexicon
from disent_core.methods.contract import Method
from disent_core.training.data import PairRows, ParallelMates, StateBank, TrainingData, Utterances, VectorBank
from disent_core.training.needs import SIDES

LANGUAGES, WORDS, EPOCHS = ("en", "de"), 8_000, 3
PRODUCTS = ("mm", "bmm", "addmm", "addmm_", "baddbmm", "linear", "matmul", "_linear_pointwise")
RUNS: dict[str, tuple[Method[Any], dict[str, Any]]] = {
    "DREAM, fast": (dream.METHOD, {"partner": "next_in_batch"}),
    "DREAM, converged": (dream.METHOD, {}),
    "FMDA, hinge": (fmda.METHOD, {"contrast": "hinge", "monitor": "dev_retrieval"}),
    "FMDA, softmax": (fmda.METHOD, {"contrast": "softmax", "monitor": "dev_retrieval"}),
    "facet": (facet.METHOD, {}),
    "lexicon": (lexicon.METHOD, {}),
}
"""Methods by name, with the settings that matter for speed; all train in bfloat16."""


def data(dim: int, pairs: int = training.PAIRS, dev: int = training.DEV) -> TrainingData:
    """Return random pairs of two languages with token states as long as MASSIVE's, masked texts, negatives, mates."""
    random = torch.Generator().manual_seed(0)
    each = 2 * pairs  # texts of a language: those of the pairs, and their mates, which also serve as masked texts
    with torch.random.fork_rng(devices=[]):  # the distribution draws from the state of torch
        torch.manual_seed(0)
        length = 4 + torch.distributions.Gamma(4.0, 0.45).sample((2 * each,)).long().clamp_max(40)
    states = torch.randn(int(length.sum()), dim, generator=random).half()
    bank = StateBank(VectorBank([states]), length.cumsum(0) - length, length)
    plain_rows = {side: torch.arange(pairs) + each * place for place, side in enumerate(SIDES)}
    mates = {side: rows + pairs for side, rows in plain_rows.items()}
    language = {side: torch.full((pairs,), place) for place, side in enumerate(SIDES)}
    rows = PairRows(plain_rows, language, mates, mates)
    splits = {"train": rows.select(torch.arange(dev, pairs)), "dev": rows.select(torch.arange(dev))}
    texts = [" ".join(f"w{word}" for word in line) for line in _words(2 * each, random).tolist()]
    utterances = {
        split: {
            name: Utterances([], [texts[row] for row in part.text[side].tolist()], [], [], [], part.text[side])
            for name, side in zip(LANGUAGES, SIDES, strict=True)
        }
        for split, part in splits.items()
    }
    mated = {side: mates[side][dev:] for side in SIDES}
    return TrainingData(
        LANGUAGES,
        VectorBank([torch.randn(2 * each, dim, generator=random)]),
        bank,
        torch.arange(2 * each),
        splits,
        [plain_rows[side][dev:] for side in SIDES],
        [plain_rows[side][dev:] for side in SIDES],
        mates={
            "train": ParallelMates(
                torch.arange(pairs - dev),
                torch.zeros(pairs - dev, dtype=torch.int64),
                {side: [texts[row] for row in mated[side].tolist()] for side in SIDES},
                mated,
            )
        },
        utterances=utterances,
    )


def _words(count: int, random: torch.Generator) -> Tensor:
    """Return word ids, seven per text, some of them frequent."""
    return (WORDS * torch.rand(count, 7, generator=random) ** 3).long()


class Recorded(TorchDispatchMode):
    """Counts the matrix products that run inside it; keeps one call per operation, shape and number format."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.calls: dict[str, tuple[Any, list[Any]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it is a product."""
        if func._schema.name.split("::")[1] in PRODUCTS:
            described = [(arg.shape, arg.stride(), arg.dtype) if isinstance(arg, Tensor) else arg for arg in args]
            key = f"{func} {described}"
            self.counts[key] += 1
            self.calls.setdefault(key, (func, described))
        return func(*args, **(kwargs or {}))

    def seconds_alone(self) -> float:
        """Return the processor seconds of the counted products, each repeated on its own matrices."""
        return sum(count * _seconds_of(*self.calls[key]) for key, count in self.counts.items())


def _seconds_of(func: Any, described: list[Any]) -> float:
    """Return the seconds of one product of random matrices."""
    args = [random_matrix(*arg, "cpu") if isinstance(arg, tuple) else arg for arg in described]
    return _least(lambda: func(*args))


def _least(run: Callable[[], object], times: int = 5) -> float:
    run()
    measured = []
    for _ in range(times):
        started = time.process_time()
        run()
        measured.append(time.process_time() - started)
    return min(measured)


def epochs(
    texts: TrainingData, method: Method[Any], settings: dict[str, Any], recorded: Recorded | None, times: int = EPOCHS
) -> float:
    """Return the fewest processor seconds of an epoch after the first; or run one epoch and count its products."""
    precise = {"precision": "bfloat16"} if hasattr(method.presets["paper"], "precision") else {}
    config = training.settings_of(method, 1 if recorded else times, **precise, **settings)
    fit = training.fitted(texts, method, config, seeds=1)
    if recorded:
        with recorded:
            next(fit)
        return 0.0
    measured = []
    started = time.process_time()
    for _ in fit:
        measured.append(time.process_time() - started)
        started = time.process_time()
    return min(measured[1:])


def run(*, quick: bool = False, only: str | None = None, times: int = EPOCHS) -> Iterator[dict[str, Any]]:
    """Run every method or `only` one, on one thread; with `quick`, DREAM on a tenth of the pairs."""
    from disent_assets.run.step import freed_memory_kept  # bench.gpu imports this module where there is no Dagster

    torch.set_num_threads(1)
    texts = data(384, *((training.PAIRS // 10, training.DEV // 10) if quick else ()))
    for name in [only] if only else [*RUNS][: 1 if quick else None]:
        method, settings = RUNS[name]
        with freed_memory_kept():  # as in a step
            ours, recorded = epochs(texts, method, settings, None, times), Recorded()
        epochs(texts, method, settings, recorded)
        alone = recorded.seconds_alone()
        note = f"seconds of the processor, 1 thread; {recorded.counts.total():,} products"
        yield row(f"epoch of {name}, 384 dimensions, bfloat16, beside its products alone", ours, alone, note)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=RUNS, help="one method")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of which the quickest counts")
    arguments = parser.parse_args()
    for line in run(quick=arguments.quick, only=arguments.only, times=arguments.epochs):
        print(json.dumps(line), flush=True)
