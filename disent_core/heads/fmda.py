"""FMDA: template, residual and language embeddings of task-oriented utterances, from token states.

The sentence vector asks, the token states answer: attention finds the template (the carrier phrase), its
complement the residual (the slot values); together they are the meaning. Targets are the frozen vectors of
the masked utterance.

With linear maps, sum_j a_j V(h_j) = V(sum_j a_j h_j) and (Q c).(K h_j) = (K^T Q c).h_j + const, so an
utterance of L tokens costs O(L D + D^2) and not O(L D^2), with the same result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from disent_core import losses
from disent_core.heads.contract import Need
from disent_core.heads.data import SIDES, Batch
from disent_core.heads.frozen import FrozenHeadMethod, sum_of_means
from disent_core.training import Head, TrainConfig

OTHER = {"source": "target", "target": "source"}
Embedded = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class FmdaConfig(TrainConfig):
    """Switches that the paper leaves open; the defaults are its letter.

    `contrast` softmax stands for in-batch InfoNCE over cosine / `temperature`, both ways, with the pool
    negative as one candidate more. `without` leaves out a group of losses, as in the paper's Table 4.
    """

    learning_rate: float = 1e-4
    ffn: Literal["linear", "mlp2"] = "linear"
    activation: Literal["gelu", "relu", "tanh"] = "gelu"
    attention_scale: Literal["none", "sqrt_d"] = "none"
    attention_special: Literal["keep", "drop"] = "keep"
    residual_attention: Literal["softmax", "renorm"] = "softmax"
    reconstruction_target: Literal["cls", "mean"] = "cls"
    reconstruction_mlp: Literal["utterance", "all", "none"] = "utterance"
    contrast: Literal["linear", "hinge", "softmax"] = "linear"
    temperature: float = 0.05
    without: tuple[
        Literal["utterance_reconstruction", "template_reconstruction", "residual_reconstruction", "contrast"], ...
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")


class FmdaHead(Head):
    """Every map is dim -> dim with bias, but `identity`: dim -> languages."""

    def __init__(self, dim: int, n_languages: int, config: FmdaConfig) -> None:
        super().__init__()
        self.config = config

        def ffn() -> nn.Module:
            return feed_forward(dim, config)

        self.language, self.query, self.key = ffn(), ffn(), ffn()
        self.template_value, self.residual_value = ffn(), ffn()
        self.meaning, self.utterance = ffn(), ffn()
        self.identity = nn.Linear(dim, n_languages)
        if config.reconstruction_mlp == "all":
            self.template_target, self.residual_target = ffn(), ffn()
        self.scale = dim**-0.5 if config.attention_scale == "sqrt_d" else 1.0

    def embed(self, batch: Batch) -> Embedded:
        """`meaning`, `template`, `residual` and `language`, each [texts, dim]."""
        return self._content(batch) | {"language": self.language(batch["vectors"])}

    def _content(self, batch: Batch) -> Embedded:
        template, residual = self._attend(batch)
        return {"meaning": self.meaning(template + residual), "template": template, "residual": residual}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The paper's 14 terms, added up over both languages under eight names."""
        own = {side: self.embed(_of(batch, side)) for side in SIDES}
        terms = {
            "language_identification": sum_of_means(
                losses.identification(self.identity(own[side]["language"]), batch[f"{side}_language"]) for side in SIDES
            )
        }
        if "utterance_reconstruction" not in self.config.without:
            terms["utterance_reconstruction"] = sum_of_means(
                self._utterance_reconstruction(batch, own[side], side) for side in SIDES
            )
        for part in ("template", "residual"):
            if f"{part}_reconstruction" not in self.config.without:
                terms |= self._target_reconstruction(batch, own, part)
        if "contrast" not in self.config.without:
            negative = {side: self._content(_of(batch, f"{side}_negative")) for side in SIDES}
            for part in ("template", "meaning"):
                terms[f"{part}_contrast"] = self._contrast(own, negative, part)
        return terms

    # --- attention ---

    def _attend(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]:
        """Template and residual: values under the attention of the sentence vector, and under its complement."""
        groups = list(state_groups(batch))
        asked = self.query(batch["vectors"])[batch["order"]].split([len(mask) for _, mask in groups])
        found = [self._attend_group(query, *group) for query, group in zip(asked, groups, strict=True)]
        template, residual = (torch.cat(parts)[batch["place"]] for parts in zip(*found, strict=True))
        return template, residual

    def _attend_group(
        self,
        asked: Float[Tensor, "group dim"],
        states: Float[Tensor, "group length dim"],
        mask: Bool[Tensor, "group length"],
    ) -> tuple[Float[Tensor, "group dim"], Float[Tensor, "group dim"]]:
        if self.config.attention_special == "drop":
            mask = without_special_tokens(mask)
        scores = (self._scores(asked, states) * self.scale).masked_fill(~mask, float("-inf"))
        attention = scores.softmax(dim=-1)
        rest = residual_attention(attention, mask, self.config.residual_attention)
        return (
            self._values(self.template_value, attention, states),
            self._values(self.residual_value, rest, states),
        )

    def _scores(self, asked: Tensor, states: Tensor) -> Tensor:
        if isinstance(self.key, nn.Linear):
            # K^T Q c, once per utterance; the bias of K adds the same to every token of an utterance.
            return torch.einsum("bld,bd->bl", states, asked @ self.key.weight)
        return torch.einsum("bld,bd->bl", self.key(states), asked)

    def _values(self, value: nn.Module, weights: Tensor, states: Tensor) -> Tensor:
        if isinstance(value, nn.Linear):
            return value(torch.einsum("bl,bld->bd", weights, states))
        return torch.einsum("bl,bld->bd", weights, value(states))

    # --- losses ---

    def _utterance_reconstruction(self, batch: Batch, own: Embedded, side: str) -> Tensor:
        total = own["language"] + own["template"] + own["residual"]
        if self.config.reconstruction_mlp != "none":
            total = self.utterance(total)
        return losses.squared_error(total, self._utterance_target(batch, side))

    def _utterance_target(self, batch: Batch, side: str) -> Tensor:
        if self.config.reconstruction_target == "cls":
            return batch[f"{side}_vectors"]
        own = _of(batch, side)
        means = [
            torch.einsum("bl,bld->bd", mask.to(states.dtype) / mask.sum(dim=1, keepdim=True), states)
            for states, mask in state_groups(own)
        ]
        return torch.cat(means)[own["place"]]

    def _target_reconstruction(self, batch: Batch, own: dict[str, Embedded], part: str) -> dict[str, Tensor]:
        """Same language, and crossed: the own template with the other language gives the other's target."""
        same, crossed = [], []
        for side in SIDES:
            same.append(self._to_target(batch, own[side][part] + own[side]["language"], part, side))
            across = own[side][part] + own[OTHER[side]]["language"]
            crossed.append(self._to_target(batch, across, part, OTHER[side]))
        return {
            f"{part}_reconstruction": sum_of_means(same),
            f"{part}_cross_reconstruction": sum_of_means(crossed),
        }

    def _to_target(self, batch: Batch, total: Tensor, part: str, side: str) -> Tensor:
        if self.config.reconstruction_mlp == "all":
            total = self.template_target(total) if part == "template" else self.residual_target(total)
        error = losses.squared_error(total, batch[f"{side}_{part}_vectors"])
        # An utterance without slots has no residual target: weight 0.
        return error * batch[f"{side}_has_residual"] if part == "residual" else error

    def _contrast(self, own: dict[str, Embedded], negative: dict[str, Embedded], part: str) -> Tensor:
        left, right = own["source"][part], own["target"][part]
        left_negative, right_negative = negative["source"][part], negative["target"][part]
        if self.config.contrast == "linear":
            return losses.linear_contrast(left, right, left_negative, right_negative).mean()
        if self.config.contrast == "hinge":
            return losses.hinged_contrast(left, right, left_negative, right_negative).mean()
        temperature = self.config.temperature
        return sum_of_means(
            (
                losses.info_nce(left, right, left_negative, temperature=temperature),
                losses.info_nce(right, left, right_negative, temperature=temperature),
            )
        )


def feed_forward(dim: int, config: FmdaConfig) -> nn.Module:
    """One linear layer as in the paper, or two with an activation between (switch F1)."""
    if config.ffn == "linear":
        return nn.Linear(dim, dim)
    activation = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}[config.activation]
    return nn.Sequential(nn.Linear(dim, dim), activation(), nn.Linear(dim, dim))


def residual_attention(
    attention: Float[Tensor, "batch length"],
    mask: Bool[Tensor, "batch length"],
    form: Literal["softmax", "renorm"],
) -> Float[Tensor, "batch length"]:
    """Attention to what the template leaves: softmax(1 - a), as published, or (1 - a) / (L - 1).

    In the published form no token gets more than e times another's weight: it is close to a plain mean.
    """
    rest = 1 - attention
    if form == "softmax":
        return rest.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    rest = rest * mask
    return rest / rest.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(rest.dtype).tiny)


def without_special_tokens(mask: Bool[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """The mask without the first and the last token of each text; a text of special tokens only keeps them."""
    following = torch.nn.functional.pad(mask[:, 1:], (0, 1), value=False)
    inner = mask & following
    inner = torch.cat([torch.zeros_like(inner[:, :1]), inner[:, 1:]], dim=1)
    return torch.where(inner.any(dim=1, keepdim=True), inner, mask)


def state_groups(batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """States and mask of each group of similar length, in the batch's `order`."""
    group = 0
    while f"states_{group}" in batch:
        yield batch[f"states_{group}"], batch[f"mask_{group}"]
        group += 1


def _of(batch: Batch, role: str) -> Batch:
    prefix = f"{role}_"
    return {name.removeprefix(prefix): value for name, value in batch.items() if name.startswith(prefix)}


METHOD = FrozenHeadMethod(
    name="fmda",
    presets={
        "paper": FmdaConfig(monitor="dev_retrieval"),
        "softmax": FmdaConfig(
            contrast="softmax", learning_rate=1e-3, max_epochs=40, patience=5, monitor="dev_retrieval"
        ),
    },
    head=FmdaHead,
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.MASKED_TARGETS, Need.NEGATIVE_POOL}),
    draws=("negative",),
)
