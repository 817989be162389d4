"""Measure disent on a GPU beside plain PyTorch and sentence-transformers, as Markdown and JSON.

python -m bench.gpu [--device cuda] [--encoder FOLDER] [--only PART ...] [--tiny] [--out FOLDER]

It needs torch, transformers, sentence-transformers, pyarrow, jaxtyping, scipy and scikit-learn. Texts are invented, and
weights are random unless a folder is given. The exit status is 1 if a result is further from the CPU's than its
tolerance.
"""

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from bench import products
from bench.gpu import encoding, machine, retrieval, training
from bench.gpu.measuring import Row, table
from bench.gpu.texts import BASE, MINILM, TINY, Shape, random_encoder, texts
from disent_core.encoders.kinds.scratch import ScratchConfig

Part = Callable[[], Iterator[Row]]


def parts(device: str, encoder: Path | None, work: Path, *, tiny: bool) -> dict[str, Part]:
    """Return the parts of the benchmark by name; nothing is computed until one is called."""
    lines = texts(200 if tiny else 100_000, 300 if tiny else 20_000)
    pairs, dev, dim, repeats = (48, 16, 16, 1) if tiny else (11_514, 1_200, 384, 3)
    made: dict[str, Path] = {}

    def token_data() -> products.TrainingData:
        return products.data(dim, pairs, dev)

    def folder(shape: Shape) -> Path:
        if encoder is not None:
            return encoder
        if shape.name not in made:
            words = [line for part in token_data().utterances["dev"].values() for line in part.texts]
            made[shape.name] = random_encoder(work / str(len(made)), shape, [*words[:2_000], *lines])
        return made[shape.name]

    def encoded() -> Iterator[Row]:
        for shape in (TINY,) if tiny else (MINILM,) if encoder else (MINILM, BASE):
            yield from encoding.rows(folder(shape), encoder.name if encoder else shape.name, lines, device, repeats)

    def memory() -> Iterator[Row]:
        yield encoding.out_of_memory(folder(TINY if tiny else MINILM), lines[:20_000], device)

    def seeds() -> Iterator[Row]:
        yield from training.stacked_seeds(pairs, dev, dim, device, 2 if tiny else training.EPOCHS)

    def token_heads() -> Iterator[Row]:
        small = dict.fromkeys(("template_units", "residual_units", "template_words", "residual_words"), 4)
        yield from training.token_heads(token_data(), device, 16 if tiny else 512, 2 if tiny else training.EPOCHS,
                                        **small if tiny else {})  # fmt: skip

    def tuned() -> Iterator[Row]:
        yield from training.tuned_encoder(
            token_data(), folder(TINY if tiny else MINILM), device, 8 if tiny else 256, 2 if tiny else 3
        )

    def search() -> Iterator[Row]:
        yield retrieval.rows(300 if tiny else 100_000, dim, 5, device, repeats)

    def pretrained() -> Iterator[Row]:
        sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 32, "vocab_size": 200, "epochs": 2}
        large = {"hidden_size": 384, "layers": 6, "heads": 12, "intermediate_size": 1_536, "vocab_size": 8_000,
                 "epochs": 3, "batch_tokens": 16_384, "learning_rate": 1e-3}  # fmt: skip
        yield training.pretraining(lines, ScratchConfig(name="benchmark", **sizes if tiny else large), device)

    def device_alone() -> Iterator[Row]:
        yield from machine.rows(64 if tiny else 8_192, 1 << (10 if tiny else 28), device)

    return {"device": device_alone, "encoding": encoded, "memory": memory, "seeds": seeds, "heads": token_heads,
            "tuned": tuned, "search": search, "pretraining": pretrained}  # fmt: skip


def described(device: str) -> str:
    """Describe the device, the versions and the command."""
    import sentence_transformers
    import transformers

    name = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} thread(s)"
    )
    versions = {"torch": torch, "transformers": transformers, "sentence-transformers": sentence_transformers}
    listed = ", ".join(f"{library} {module.__version__}" for library, module in versions.items())
    command = " ".join(["python -m bench.gpu", *sys.argv[1:]])
    return f"{name}; Python {platform.python_version()}, {listed}; `{command}`"


def main() -> None:
    """Print the table; if asked, write it and the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--encoder", type=Path, help="folder of a transformers model in place of random weights")
    parser.add_argument(
        "--only", nargs="+", metavar="PART", help="device encoding memory seeds heads tuned search pretraining"
    )
    parser.add_argument("--tiny", action="store_true", help="sizes that show only that everything runs")
    parser.add_argument("--out", type=Path, help="folder for gpu.md and gpu.json")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no usable GPU. Give --device cpu")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="disent-gpu-") as work:
        chosen = parts(given.device, given.encoder, Path(work), tiny=given.tiny)
        if unknown := set(given.only or ()) - set(chosen):
            parser.error(f"no part is called {', '.join(sorted(unknown))}. There are {', '.join(chosen)}")
        for name in given.only or chosen:
            for row in chosen[name]():
                print(f"{name}: {json.dumps(row.described())}", file=sys.stderr, flush=True)
                rows.append(row)
                if given.out:  # keep the rows so far if the run is interrupted
                    write(given.out, rows, given.device)
    print(f"{table(rows)}\n\n{described(given.device)}.")
    if wrong := [row.what for row in rows if not row.passes]:
        sys.exit(f"further from the CPU than the tolerance: {', '.join(wrong)}")


def write(folder: Path, rows: list[Row], device: str) -> None:
    """Write gpu.md and gpu.json."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"device": described(device), "rows": [row.described() for row in rows]}
    (folder / "gpu.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "gpu.md").write_text(f"{table(rows)}\n\n{described(device)}.\n", encoding="utf-8")


if __name__ == "__main__":
    main()
