"""Define modules for heads that sentence-transformers' own can't compute. The file is in the folder of such a head.

It needs torch, numpy and sentence-transformers only, and is loaded by
SentenceTransformer(folder, trust_remote_code=True). Whatever it imports from disent is copied beside it.
"""

from collections.abc import MutableMapping, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.base.modules.input_module import InputModule
from sentence_transformers.base.modules.module import Module
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

from disent_core.export.side_by_side import side_by_side
from disent_core.methods.modules.word_rows import hashes_of_text, random_rows

Features = MutableMapping[str, Any]


def word_features(texts: Sequence[str], prompt: str | None) -> Features:
    """Return `word_rows`, the hashes of the words of all texts, and `word_starts`: where those of each text begin."""
    hashes = [hashes_of_text(f"{prompt or ''}{text}") for text in texts]
    starts = [0, *accumulate(map(len, hashes))][:-1]
    flat = torch.tensor([number for of_text in hashes for number in of_text], dtype=torch.int64)
    return {"word_rows": flat, "word_starts": torch.tensor(starts)}


class WordTransformer(Transformer):
    """A transformer that also passes on the words of its texts."""

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **kwargs: Any) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {**super().preprocess(inputs, prompt=prompt, **kwargs), **word_features(inputs, prompt)}

    def forward(self, features: Features, **kwargs: Any) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the transformer, which ignores the words."""
        words = {name: features.pop(name) for name in ("word_rows", "word_starts") if name in features}
        return {**super().forward(features, **kwargs), **words}  # pyright: ignore[reportArgumentType]


class WordInput(InputModule):
    """The words of texts alone, for a head that reads no encoder."""

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        return word_features(inputs, prompt)

    def forward(self, features: Features, **_: Any) -> Any:
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        self.save_config(output_path)


class LayerStates(Module):
    """Token states of several layers, side by side."""

    config_keys = ["layers", "dimension"]  # noqa: RUF012 - as in the base class

    def __init__(self, layers: list[int], dimension: int) -> None:
        super().__init__()
        self.layers, self.dimension = layers, dimension

    def forward(self, features: Features, **_: Any) -> Any:
        """Replace `token_embeddings`."""
        features["token_embeddings"] = torch.cat([features["all_layer_embeddings"][n] for n in self.layers], dim=-1)
        return features

    def get_embedding_dimension(self) -> int:
        return self.dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        self.save_config(output_path)


class Embedding(Module):
    """One embedding of a head; `widths` are those of its parts, which a truncation shortens together."""

    config_keys = ["name", "widths"]  # noqa: RUF012

    def __init__(self, name: str, widths: list[int]) -> None:
        super().__init__()
        self.name, self.widths = name, widths

    def forward(self, features: Features, **_: Any) -> Any:
        features["sentence_embedding"] = side_by_side(features["embeddings"][self.name], self.widths)
        return features

    def get_embedding_dimension(self) -> int:
        return sum(self.widths)

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        self.save_config(output_path)


class Head(Module):
    """A head of several embeddings, one of which an `Embedding` selects."""

    config_keys = ["settings"]  # noqa: RUF012

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = settings

    @property
    def widths(self) -> dict[str, list[int]]:
        """Widths of the parts of each embedding."""
        raise NotImplementedError

    def embed(self, features: Features) -> dict[str, Tensor]:
        """Return all embeddings by name, [texts, dim]."""
        raise NotImplementedError

    def forward(self, features: Features, **_: Any) -> Any:
        features["embeddings"] = self.embed(features)
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        self.save_config(output_path)
        self.save_torch_weights(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read what `save` wrote."""
        names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        source: dict[str, Any] = {name: kwargs[name] for name in names if name in kwargs} | {
            "model_name_or_path": model_name_or_path
        }
        return cls.load_torch_weights(model=cls(**cls.load_config(**source)), **source)


class FacetHead(Head):
    """Template and residual from token states (`units`), words, or both, each scaled to unit norm, then unlanguaged.

    `settings`: `dim` of the states, widths of the parts (`units`, `words`: two each, or none), `languages` (0: no
    language embedding), `known` trained rows of the word table, which has `table_rows`, with `seed` and norm (`unseen`)
    of its other rows, `sentence_weight` of the sentence vector in the meaning (0: not in it).
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        dim, units, words, languages = (settings[name] for name in ("dim", "units", "words", "languages"))
        self.units = nn.Linear(dim, sum(units)) if units else None
        self.language = nn.Linear(dim, languages) if languages else None
        self.sentence_weight = settings["sentence_weight"]
        for part, width in enumerate(units + words + ([dim] if self.sentence_weight else [])):
            self.register_buffer(f"centre_{part}", torch.zeros(width))
            self.register_buffer(f"basis_{part}", torch.zeros(width, width))
        if words:
            self.register_buffer("known", torch.zeros(settings["known"], dtype=torch.int64))
            self.register_buffer("table", torch.zeros(settings["known"], sum(words), dtype=torch.float16))

    @property
    def widths(self) -> dict[str, list[int]]:
        parts = self.settings["units"] + self.settings["words"]
        of_language = {"language": [self.settings["languages"]]} if self.language is not None else {}
        sentence = [self.settings["dim"]] if self.sentence_weight else []
        return {"meaning": parts + sentence, "template": parts[0::2], "residual": parts[1::2], **of_language}

    def embed(self, features: Features) -> dict[str, Tensor]:
        """Return `meaning`, `template`, `residual` and, if it was trained, `language`, one-hot of the likeliest one."""
        parts: list[Tensor] = []
        if self.units is not None:
            hidden = features["attention_mask"].unsqueeze(-1) == 0
            maxima = self.units(features["token_embeddings"]).masked_fill(hidden, float("-inf")).amax(dim=1)
            parts += maxima.split(self.settings["units"], dim=-1)
        if self.settings["words"]:
            sums = features["word_sums"] if "word_sums" in features else self._words(features)
            parts += sums.split(self.settings["words"], dim=-1)
        parts = [self._erased(number, F.normalize(part, dim=-1)) for number, part in enumerate(parts)]
        embedded = {
            "meaning": torch.cat(parts, dim=-1) * len(parts) ** -0.5,
            "template": torch.cat(parts[0::2], dim=-1) * (len(parts) / 2) ** -0.5,
            "residual": torch.cat(parts[1::2], dim=-1) * (len(parts) / 2) ** -0.5,
        }
        if weight := self.sentence_weight:
            sentence = self._erased(len(parts), F.normalize(features["sentence_embedding"], dim=-1))
            sides = (1 - weight) ** 0.5 * embedded["meaning"], weight**0.5 * sentence
            embedded["meaning"] = torch.cat(sides, dim=-1)
        if self.language is not None:
            logits = self.language(features["sentence_embedding"])
            embedded["language"] = F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
        return embedded

    def _erased(self, number: int, part: Tensor) -> Tensor:
        centre, basis = getattr(self, f"centre_{number}"), getattr(self, f"basis_{number}")
        return part - (part - centre) @ basis @ basis.T

    def _words(self, features: Features) -> Tensor:
        """Return the sum of the rows of each text's words: trained rows, and random ones for the others."""
        table: Tensor = self.table  # pyright: ignore[reportAssignmentType]
        known: Tensor = self.known  # pyright: ignore[reportAssignmentType]
        rows, numbers = (features["word_rows"] % self.settings["table_rows"]).unique(return_inverse=True)
        vectors = torch.from_numpy(random_rows(rows.cpu().numpy(), table.shape[1], self.settings["seed"]))
        vectors = vectors.to(table.device) * self.settings["unseen"]
        is_known = torch.isin(rows, known)
        vectors[is_known] = table[torch.searchsorted(known, rows[is_known])].float()
        return F.embedding_bag(numbers, vectors, features["word_starts"].to(numbers.device), mode="sum")


NAMES = ("language", "meaning", "query", "key", "template_value", "residual_value")


class AttentionHead(Head):
    """FMDA: the sentence vector attends to the tokens (template), and to the rest of them (residual).

    `settings`: `dim`, and the switches of disent's `AttentionConfig`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.is_linear = settings["ffn"] == "linear"
        self.maps = nn.ModuleDict({name: self._map() for name in NAMES})

    def _map(self) -> nn.Module:
        dim, activations = self.settings["dim"], {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}
        if self.is_linear:
            return nn.Linear(dim, dim)
        return nn.Sequential(nn.Linear(dim, dim), activations[self.settings["activation"]](), nn.Linear(dim, dim))

    @property
    def widths(self) -> dict[str, list[int]]:
        return {name: [self.settings["dim"]] for name in ("meaning", "template", "residual", "language")}

    def embed(self, features: Features) -> dict[str, Tensor]:
        """Return `meaning`, `template`, `residual` and `language`."""
        maps, vectors, states = self.maps, features["sentence_embedding"], features["token_embeddings"]
        mask = self._attended(features["attention_mask"] > 0)
        scale = self.settings["dim"] ** -0.5 if self.settings["attention_scale"] == "sqrt_d" else 1.0
        parts: list[Any] = [maps[name] for name in NAMES[2:]]
        query, key, of_template, of_residual = parts
        if self.is_linear:  # maps of sums, as in disent: fewer products, and the same rounding
            to_key = key.weight.T @ query.weight
            queries, keys = F.linear(vectors, to_key, key.weight.T @ query.bias), states
        else:
            queries, keys = query(vectors), key(states)
        scores = torch.einsum("td,tld->tl", queries, keys) * scale
        attention = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        complement = self._complement(attention, mask)
        if self.is_linear:
            template = of_template(torch.einsum("tl,tld->td", attention, states))
            residual = of_residual(torch.einsum("tl,tld->td", complement, states))
        else:
            template = torch.einsum("tl,tld->td", attention, of_template(states))
            residual = torch.einsum("tl,tld->td", complement, of_residual(states))
        meaning = maps["meaning"](template + residual)
        return {"meaning": meaning, "template": template, "residual": residual, "language": maps["language"](vectors)}

    def _attended(self, mask: Tensor) -> Tensor:
        """Return the mask without the first and the last token, if there are others."""
        if self.settings["attention_special"] != "drop":
            return mask
        inner = mask & F.pad(mask[:, 1:], (0, 1), value=False)
        inner = torch.cat([torch.zeros_like(inner[:, :1]), inner[:, 1:]], dim=1)
        return inner | (mask & ~inner.any(dim=1, keepdim=True))

    def _complement(self, attention: Tensor, mask: Tensor) -> Tensor:
        if self.settings["residual_attention"] == "softmax":
            return (1 - attention).masked_fill(~mask, float("-inf")).softmax(dim=-1)
        others = mask.sum(dim=-1, keepdim=True) - 1
        return torch.where(others > 0, (1 - attention) / others.clamp_min(1), 1.0) * mask
