"""Write an exported folder's encoder and routes as one ONNX graph, and run it: token ids in, one output per route.

The inputs are `input_ids` and `attention_mask`, int64 [texts, tokens], and for heads that read words `word_rows`, int64
[texts, rows], computed by the function and file of that name in the folder. Needs the extra `onnx`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.checkpoint import load_tokeniser
from disent_core.methods.modules.word_rows import random_bits, word_rows

GRAPH = "disent.onnx"
"""File of the graph. No library looks for this name: the outputs are not those of a plain encoder."""
MOST_BYTES = 2_000_000_000  # most bytes of a graph in one file, which is one protobuf message
_OPSET = 18
_TOKENS = ("input_ids", "attention_mask")
_WORDS = "word_rows"


class WordSums(nn.Module):
    """Sums of rows from the word table of a `modeling_disent.FacetHead`.

    The random rows are stored, with a bit for each value (8 MB for 512 columns), because graphs lack the products of
    unsigned integers that compute them there.
    """

    bits: Tensor  # random rows, a bit for each value
    signs: Tensor  # signs of the eight bits of each byte
    place: Tensor  # number of each row in `table`, -1 if it is random
    table: Tensor  # trained rows

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.dim, self.table_rows = head.table.shape[1], head.settings["table_rows"]
        bits = random_bits(np.arange(self.table_rows), self.dim, head.settings["seed"])
        place = torch.full((self.table_rows,), -1, dtype=torch.int32)
        place[head.known] = torch.arange(len(head.known), dtype=torch.int32)
        signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32)
        self.register_buffer("bits", torch.from_numpy(np.packbits(bits, axis=1, bitorder="little")))
        self.register_buffer(
            "signs", torch.from_numpy((signs * 2 - 1) * np.float32(self.dim**-0.5 * head.settings["unseen"]))
        )
        self.register_buffer("place", place)
        self.register_buffer("table", torch.cat([head.table, torch.zeros(1, self.dim, dtype=head.table.dtype)]))

    def forward(self, rows: Int[Tensor, "texts rows"]) -> Float[Tensor, "texts dim"]:
        numbers = rows.clamp_min(0) % self.table_rows
        places = self.place[numbers].long().unsqueeze(-1)
        random = self.signs[self.bits[numbers].long()].flatten(2)[..., : self.dim]
        trained = self.table[places.squeeze(-1).clamp_min(0)].float()
        return torch.where(places >= 0, trained, random).masked_fill(rows.unsqueeze(-1) < 0, 0.0).sum(dim=1)


class Graph(nn.Module):
    """A model of sentence-transformers (a transformer or words alone, then a router) as a function of tensors.

    Its outputs are the routes named in `names`.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        first, router = model
        self.encoder, self.router = getattr(first, "model", None), router
        self._routes: dict[str, list[Any]] = {name: list(route) for name, route in router.sub_modules.items()}
        self.names = list(self._routes)
        heads = [module for route in self._routes.values() for module in route if hasattr(module, "table")]
        self.words = WordSums(heads[0]) if heads else None
        self.inputs = (*(() if self.encoder is None else _TOKENS), *((_WORDS,) if heads else ()))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        features: dict[str, Any] = dict(zip(self.inputs, inputs, strict=True))
        if self.encoder is not None:
            output = self.encoder(**{name: features[name] for name in _TOKENS})
            features["token_embeddings"] = output.last_hidden_state
            features["all_layer_embeddings"] = output.hidden_states
        if self.words is not None:
            features["word_sums"] = self.words(features[_WORDS])
        vectors = []
        for route in self._routes.values():
            of_route = dict(features)
            for module in route:
                of_route = module(of_route)
            vectors.append(of_route["sentence_embedding"])
        return tuple(vectors)


class TaggerGraph(nn.Module):
    """A model for token classification as a function of tensors; its only output is `logits`, [texts, tokens, tags]."""

    names, inputs = ("logits",), _TOKENS

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Int[Tensor, "texts tokens"], mask: Int[Tensor, "texts tokens"]) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask).logits


@torch.no_grad()
def write_graph(graph: Graph | TaggerGraph, path: Path, outside: str) -> None:
    """Write the graph of a model; its metadata `preprocessing` names the steps that are `outside` of it.

    It uses the tracing exporter: the one based on torch.export needs two more packages, takes eight times as long, and
    its graphs round twice as much.
    """
    for name in ("onnx", "onnxruntime"):
        import_module(name)
    graph.eval()
    size = sum(value.nbytes for value in (*graph.parameters(), *graph.buffers()))
    if size > MOST_BYTES:
        raise ValueError(f"its graph would have {size / 1e9:.1f} GB, but an ONNX file can have at most 2 GB")
    example = {name: torch.ones(2, 5, dtype=torch.int64) for name in graph.inputs}
    if "attention_mask" in example:
        example["attention_mask"][1, 3:] = 0
    axes = {name: {0: "texts", 1: "rows" if name == _WORDS else "tokens"} for name in graph.inputs}
    outer = {0: "texts", 1: "tokens"} if isinstance(graph, TaggerGraph) else {0: "texts"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's age, and the example's shapes: other shapes are checked
        torch.onnx.export(
            graph,
            tuple(example.values()),
            str(path),
            dynamo=False,
            opset_version=_OPSET,
            input_names=list(graph.inputs),
            output_names=list(graph.names),
            dynamic_axes=axes | dict.fromkeys(graph.names, outer),
        )
    onnx = import_module("onnx")
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"preprocessing": outside})
    onnx.save(model, path)


def open_graph(folder: Path) -> Any:
    """Open the graph of a folder with onnxruntime, on the CPU."""
    onnxruntime: Any = import_module("onnxruntime")
    return onnxruntime.InferenceSession(str(folder / GRAPH), providers=["CPUExecutionProvider"])


def graph_vectors(
    folder: Path, texts: Sequence[str], max_length: int | None
) -> Iterator[tuple[slice, Mapping[str, Float[np.ndarray, "texts _"]]]]:
    """Yield the vectors by route that the graph of a folder computes for some texts, in batches of three shapes.

    The batches are all texts, padded to the longest; the first two; and the third alone.
    """
    session = open_graph(folder)
    sources = [source.name for source in session.get_inputs()]
    tokeniser = load_tokeniser(folder) if set(_TOKENS) <= set(sources) else None
    outputs = [output.name for output in session.get_outputs()]
    options = {"padding": True, "truncation": True, "max_length": max_length, "return_tensors": "np"}
    for rows in (slice(0, len(texts)), slice(0, 2), slice(2, 3)):
        arrays: dict[str, Any] = {_WORDS: word_rows(list(texts[rows]))}
        if tokeniser is not None:
            arrays |= tokeniser(list(texts[rows]), **options)
        inputs = {name: arrays[name].astype(np.int64) for name in sources}
        yield rows, dict(zip(outputs, session.run(outputs, inputs), strict=True))
