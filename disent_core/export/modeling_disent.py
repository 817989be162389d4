"""Modules for heads that sentence-transformers' own modules do not compute. The file lies in the folder of such a head.

It needs torch, numpy and sentence-transformers only, and is loaded by
SentenceTransformer(folder, trust_remote_code=True). What it imports of disent is copied beside it.
"""

from collections.abc import MutableMapping, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.base.modules.module import Module
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

from disent_core.methods.modules.word_rows import random_rows, rows_of_text

Features = MutableMapping[str, Any]


class WordTransformer(Transformer):
    """A transformer that also passes on the words of its texts, as rows of a hash table."""

    def preprocess(self, inputs: Sequence[str], *args: Any, **kwargs: Any) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Add `word_rows`, and `word_starts`: where the rows of each text begin."""
        features = super().preprocess(inputs, *args, **kwargs)
        rows = [rows_of_text(text) for text in inputs]
        starts = [0, *accumulate(map(len, rows))][:-1]
        flat = torch.tensor([row for of_text in rows for row in of_text], dtype=torch.int64)
        return {**features, "word_rows": flat, "word_starts": torch.tensor(starts)}

    def forward(self, features: Features, **kwargs: Any) -> Features:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the transformer, which does not know the words."""
        words = {name: features.pop(name) for name in ("word_rows", "word_starts") if name in features}
        return {**super().forward(features, **kwargs), **words}  # pyright: ignore[reportArgumentType]


class LayerStates(Module):
    """Token states of several layers, side by side."""

    config_keys = ["layers", "dimension"]  # noqa: RUF012 - as in the class above it

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


class Head(Module):
    """A head of several embeddings, of which `task` chooses one."""

    config_keys = ["settings", "default"]  # noqa: RUF012
    forward_kwargs = {"task"}  # noqa: RUF012

    def __init__(self, settings: dict[str, Any], default: str) -> None:
        super().__init__()
        self.settings, self.default = settings, default

    def embed(self, features: Features) -> dict[str, Tensor]:
        """Return all embeddings by name, [texts, dim]."""
        raise NotImplementedError

    def forward(self, features: Features, task: str | None = None, **_: Any) -> Any:
        embedded = self.embed(features)
        features["sentence_embedding"] = embedded[task if task in embedded else self.default]
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
    """Template and residual off token states (`units`), off words, or off both; each of unit norm, then unlanguaged.

    `settings`: `dim` of the states, widths of the parts (`units`, `words`: two each, or none), `languages` (0: no
    language embedding), `known` trained rows of the table of words, `seed` of its other rows, `sentence_weight` of
    the sentence vector in the meaning (0: not in it).
    """

    def __init__(self, settings: dict[str, Any], default: str) -> None:
        super().__init__(settings, default)
        dim, units, words, languages = (settings[name] for name in ("dim", "units", "words", "languages"))
        self.units = nn.Linear(dim, sum(units)) if units else None
        self.language = nn.Linear(dim, languages) if languages else None
        self.sentence_weight = settings.get("sentence_weight", 0.0)
        for part, width in enumerate(units + words + ([dim] if self.sentence_weight else [])):
            self.register_buffer(f"centre_{part}", torch.zeros(width))
            self.register_buffer(f"basis_{part}", torch.zeros(width, width))
        if words:
            self.register_buffer("known", torch.zeros(settings["known"], dtype=torch.int64))
            self.register_buffer("table", torch.zeros(settings["known"], sum(words), dtype=torch.float16))

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
        """Sum of the rows of each text's words: trained ones, and others as they are at random."""
        table: Tensor = self.table  # pyright: ignore[reportAssignmentType]
        known: Tensor = self.known  # pyright: ignore[reportAssignmentType]
        rows, numbers = features["word_rows"].unique(return_inverse=True)
        vectors = torch.from_numpy(random_rows(rows.cpu().numpy(), table.shape[1], self.settings["seed"]))
        vectors = vectors.to(table.device)
        is_known = torch.isin(rows, known)
        vectors[is_known] = table[torch.searchsorted(known, rows[is_known])].float()
        return F.embedding_bag(numbers, vectors, features["word_starts"].to(numbers.device), mode="sum")


NAMES = ("language", "meaning", "query", "key", "template_value", "residual_value")


class AttentionHead(Head):
    """FMDA: the sentence vector attends to the tokens (template), and to what that leaves (residual).

    `settings`: `dim`, and the switches of disent's `AttentionConfig`.
    """

    def __init__(self, settings: dict[str, Any], default: str) -> None:
        super().__init__(settings, default)
        self.is_linear = settings["ffn"] == "linear"
        self.maps = nn.ModuleDict({name: self._map() for name in NAMES})

    def _map(self) -> nn.Module:
        dim, activations = self.settings["dim"], {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}
        if self.is_linear:
            return nn.Linear(dim, dim)
        return nn.Sequential(nn.Linear(dim, dim), activations[self.settings["activation"]](), nn.Linear(dim, dim))

    def embed(self, features: Features) -> dict[str, Tensor]:
        """Return `meaning`, `template`, `residual` and `language`."""
        maps, vectors, states = self.maps, features["sentence_embedding"], features["token_embeddings"]
        mask = self._attended(features["attention_mask"] > 0)
        scale = self.settings["dim"] ** -0.5 if self.settings["attention_scale"] == "sqrt_d" else 1.0
        parts: list[Any] = [maps[name] for name in NAMES[2:]]
        query, key, of_template, of_residual = parts
        if self.is_linear:  # maps of sums, as disent has it: fewer products, and the same rounding
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
        """The mask without the first and the last token, if there are others."""
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


class ResidualMap(Head):
    """x + W2 gelu(W1 x + b1) + b2 of the sentence vector x; `settings` has its `dim`."""

    def __init__(self, settings: dict[str, Any], default: str) -> None:
        super().__init__(settings, default)
        dim = settings["dim"]
        self.map = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def embed(self, features: Features) -> dict[str, Tensor]:
        vectors = features["sentence_embedding"]
        return {self.default: vectors + self.map(vectors)}
