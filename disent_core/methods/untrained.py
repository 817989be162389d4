"""`raw` and `bertscore`: methods without weights, which compare what the encoder gives.

`raw` is the encoder's sentence vector, unchanged: the baseline that every head should beat.

`bertscore` is the similarity of two texts by greedy matching of their tokens, without a sentence vector (Zhang et al.
2020, https://arxiv.org/abs/1904.09675): every token is matched to the nearest one of the other text. Precision is the
mean cosine over one text's tokens, recall over the other's, and the score their harmonic mean F1, without idf weights
and without rescaling. The layer is a setting of the encoder.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from disent_core.methods.families import UntrainedMethod
from disent_core.settings import Settings
from disent_core.training.needs import Need

if TYPE_CHECKING:
    from disent_core.training.data import TextFeatures


@dataclass(frozen=True, kw_only=True)
class RawConfig(Settings):
    """No settings: pooling and layer belong to the encoder."""


def sentence(features: "TextFeatures", config: RawConfig) -> Any:
    """Return the encoder's sentence vectors, float32 [texts, dim]."""
    return features.vectors.take(features.rows).numpy()


RAW = UntrainedMethod(name="raw", presets={"paper": RawConfig()}, sentence=sentence)


@dataclass(frozen=True, kw_only=True)
class BertscoreConfig(Settings):
    """How tokens are compared.

    Attributes:
        center: subtract the mean token vector of the texts that are embedded together, queries and candidates
            separately (Libovicky, Rosa and Fraser 2020), before tokens are compared.
        special_tokens: the first and last token never count towards precision and recall; with `match` other tokens may
            match them, as in the authors' package; with `drop` they are left out.
    """

    center: bool = False
    special_tokens: Literal["match", "drop"] = "match"


BERTSCORE = UntrainedMethod(
    name="bertscore",
    presets={"paper": BertscoreConfig(), "centered": BertscoreConfig(center=True)},
    sentence="disent_core.methods.untrained_head:token_matrix",
    needs=frozenset({Need.TOKEN_STATES}),
)
