"""The head of `infonce`: its map and its loss."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.losses.contrastive import symmetric_softmax
from disent_core.matmul import Linear
from disent_core.methods.infonce import InfoNceConfig
from disent_core.training.data import Batch
from disent_core.training.stacked import Head


class InfoNceHead(Head):
    """`layers`: dim -> units with bias, GELU between two."""

    def __init__(self, dim: int, n_languages: int, config: InfoNceConfig) -> None:
        super().__init__()
        self.config = config
        widths = [dim, config.units] if config.layers == "linear" else [dim, config.units, config.units]
        self.layers = nn.ModuleList(Linear(*both) for both in pairwise(widths))

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning` [texts, units]."""
        return {"meaning": self._map(batch["vectors"])}

    def encode(self, batch: Batch) -> Batch:
        """Add `meaning` of sources and targets: [2, pairs, units]."""
        return batch | {"meaning": self._map(batch["role_vectors"][:2])}

    def _map(self, vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows units"]:
        rows = F.normalize(vectors, dim=-1) * vectors.shape[-1] ** 0.5  # mean square 1: their length tells nothing
        for number, layer in enumerate(self.layers):
            rows = layer(rows if number == 0 else F.gelu(rows))
        return rows

    def terms(self, encoded: Batch) -> Batch:
        """Return the contrast of translations; pairs that share a text are no negatives of each other."""
        (source, target), (source_text, target_text) = encoded["meaning"], encoded["role_texts"][:2]
        equal = (source_text[:, None] == source_text) | (target_text[:, None] == target_text)
        return {"contrast": symmetric_softmax(source, target, equal, temperature=self.config.temperature).mean()}
