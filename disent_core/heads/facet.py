"""The head of Facet: its two readings of a text, their templates and residuals, and what embeds with them."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.heads.contract import TrainedMethod
from disent_core.heads.modules.attention import permuted, state_groups
from disent_core.heads.modules.hashed_words import HashedWords, WordBags, word_bags
from disent_core.heads.modules.language_eraser import LanguageEraser
from disent_core.heads.modules.max_pooling import MaxLinear
from disent_core.methods.facet import FacetConfig
from disent_core.optimisation.seeds import derived_seed
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.blocks import embedded
from disent_core.training.data import Batch, TextFeatures


class FacetHead(nn.Module):
    """Four parts of a text's meaning, each of unit norm: template and residual, off token states and off words.

    `units`: token states -> template and residual units; `words`: the same of hashed words; `language`: sentence vector
    -> logits of the languages; `erasers`: one for each part, which change nothing until `erase_language`.

    Args:
        dim: width of the encoder.
        n_languages: number of languages.
        config: the settings.
        words: the table of words; None where words are not read.
    """

    def __init__(self, dim: int, n_languages: int, config: FacetConfig, words: HashedWords | None) -> None:
        super().__init__()
        self.config, self.words = config, words
        widths: list[int] = []
        self.units = None
        if config.reads_states:
            widths += [config.template_units, config.residual_units]
            self.units = MaxLinear(dim, sum(widths))
        if words is not None:
            widths += [config.template_words, config.residual_words]
        self.language = nn.Linear(dim, n_languages)
        erasers = nn.ModuleList(LanguageEraser(width) for width in widths)
        self.erasers = cast("Sequence[LanguageEraser]", erasers)

    def parts(self, text: Batch, bags: WordBags | None) -> list[Float[Tensor, "texts _"]]:
        """Return template and residual of each reading, in turn: unit norm, then without their language.

        Args:
            text: `grouped_states` of the texts.
            bags: the texts as words.
        """
        config, readings = self.config, []
        if self.units is not None:
            maxima = torch.cat([self.units(states, mask) for states, mask in state_groups(text)])
            maxima = permuted(maxima, text["place"], text["order"])
            readings += maxima.split([config.template_units, config.residual_units], dim=-1)
        if self.words is not None and bags is not None:
            readings += self.words(bags).split([config.template_words, config.residual_words], dim=-1)
        return [eraser(F.normalize(part, dim=-1)) for eraser, part in zip(self.erasers, readings, strict=True)]

    def embed(self, text: Batch, bags: WordBags | None) -> Batch:
        """Return `meaning`, `template`, `residual` and `language`, one-hot of the likeliest language.

        The one-hot vector carries at most log2(languages) bits, so nothing else can leak into it.
        """
        logits = self.language(text["vectors"])
        language = F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
        return embeddings(self.parts(text, bags)) | {"language": language}

    @torch.no_grad()
    def erase_language(self, parts: Sequence[Float[Tensor, "texts _"]], languages: Int[Tensor, " texts"]) -> None:
        """Fit the erasers to the parts of training texts."""
        for eraser, part in zip(self.erasers, parts, strict=True):
            eraser.fit(part, languages, self.config.kept_variance)


def embeddings(parts: Sequence[Float[Tensor, "texts _"]]) -> Batch:
    """Return templates side by side, residuals side by side, and all parts side by side: the `meaning`.

    The cosine of two meanings is the mean of the cosines of their parts, if these have unit norm.
    """
    meaning = torch.cat(list(parts), dim=-1) * len(parts) ** -0.5
    template, residual = (torch.cat(list(parts[first::2]), dim=-1) * (len(parts) / 2) ** -0.5 for first in (0, 1))
    return {"meaning": meaning, "template": template, "residual": residual}


class TrainedFacet(TrainedMethod):
    """The heads of all seeds, with the weights of one seed in memory, because a table of words is large."""

    def __init__(self, path: Path, config: FacetConfig) -> None:
        self.path, self.config = path, config
        self._read: tuple[int, FacetHead] | None = None

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Return one float32 matrix per embedding name, one row a text, in order."""
        if seed is None:
            raise ValueError("a trained head embeds with one of its seeds, not None")
        head = self.head(seed)
        bags = None
        if self.config.reads_words:
            if features.texts is None:
                raise ValueError("facet reads words, and these features have no texts")
            bags = word_bags(features.texts)
        with torch.inference_mode():
            return embedded(
                lambda text, places: head.embed(text, None if bags is None else bags.take(places)), features, "cpu"
            )

    def head(self, seed: int) -> FacetHead:
        """Return the head of a seed."""
        if self._read is None or self._read[0] != seed:
            self._read = seed, read_head(self.path, self.config, seed)
        return self._read[1]


def read_head(path: Path, config: FacetConfig, seed: int) -> FacetHead:
    """Read the head of a seed; it embeds in float32."""
    description, _ = describe_weights(path)
    weights, _ = read_weights(path, seed)
    words = None
    if config.reads_words:
        words = HashedWords(weights["words.known"], config.template_words + config.residual_words, table_seed(seed))
    head = FacetHead(description["dim"], len(description["languages"]), config, words)
    for number, eraser in enumerate(head.erasers):  # heads of code version 4 have a column for each language alone
        name = f"erasers.{number}.basis"
        weights[name] = F.pad(weights[name], (0, len(eraser.centre) - weights[name].shape[1]))
    head.load_state_dict(weights)
    return head.eval()


def table_seed(seed: int) -> int:
    """Seed of the random rows of the table of words of a seed."""
    return derived_seed(seed, "table")
