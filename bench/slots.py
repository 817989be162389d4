"""Compare encoding each distinct text of span items once with the published protocol of two calls per item.

python -m bench.slots [MASSIVE_TARBALL]
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from bench.encoding import MODEL, compared, read_utterances
from bench.negatives import DEFAULT_MASSIVE
from disent_core.corpora.annotation import bracketed_slots, tag_tokens
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import model_folder
from disent_core.methods.families.tagger import Tagged
from disent_core.methods.twosl_head import SpanItems, encode_items, span_items

UTTERANCES, BATCH = 40, 32


def tagged(tarball: Path, locale: str) -> list[Tagged]:
    """Return the test utterances with their slots."""
    rows = read_utterances(tarball, locale, "test")[:UTTERANCES]
    return [Tagged(*tag_tokens(text, locale, bracketed_slots(annotated, text)), locale) for text, annotated in rows]


@torch.no_grad()
def naive(encoder: TunableEncoder, items: SpanItems) -> torch.Tensor:
    """Encode both texts of every item, in the order of the items, in batches of 32."""
    encoder.eval()
    parts = []
    for texts in (items.masked, items.texts):
        tokens = encoder.prepare(texts)
        parts.append(torch.cat([encoder(tokens, rows) for rows in torch.arange(len(texts)).split(BATCH)]))
    return torch.cat(parts, dim=1)


def run(massive_tarball: Path = DEFAULT_MASSIVE) -> list[dict[str, Any]]:
    """Run the comparison; include the largest difference between both sides' features."""
    files = EncoderFiles(model_folder(MODEL, None, None), "mean", -1, 64, "minilm")
    encoder = TunableEncoder(files, "cpu")
    items = span_items(tagged(massive_tarball, "en-US"), max_span=5, mask="word")
    ours = encode_items(encoder, items, concat_norm="none").take(torch.arange(len(items)))
    apart = float((ours - naive(encoder, items)).abs().max())
    distinct = len(set(items.masked)) + len(set(items.texts))
    note = f"{UTTERANCES} utterances, {2 * len(items)} texts, {distinct} distinct; largest difference {apart:.0e}"
    return [
        compared(
            "span items",
            lambda: encode_items(encoder, items, concat_norm="none"),
            lambda: naive(encoder, items),
            note,
        )
    ]


if __name__ == "__main__":
    for line in run(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MASSIVE):
        print(json.dumps(line))
