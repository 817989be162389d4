"""Erase from vectors what a linear map can read of their language, in closed form and without knowing the language.

Mean projection (Haghighatkhah et al. 2022, https://aclanthology.org/2022.emnlp-main.575): project the vectors onto the
complement of the span of the differences between the languages' means. Then all languages have the same mean, so no
linear map predicts the language better than a constant in least squares (Belrose et al. 2023, Theorem 3.1,
https://arxiv.org/abs/2306.03819). For k languages this removes k - 1 dimensions, and it asks for no language.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class LanguageEraser(nn.Module):
    """x -> x - (x - centre) basis basis', where `basis` [dim, languages] spans the differences of the means.

    It changes nothing until it is fitted.
    """

    centre: Float[Tensor, " dim"]
    basis: Float[Tensor, "dim languages"]

    def __init__(self, dim: int, n_languages: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("basis", torch.zeros(dim, n_languages))

    def forward(self, vectors: Float[Tensor, "texts dim"]) -> Float[Tensor, "texts dim"]:
        """Return the vectors without their language; their norms change a little."""
        return vectors - (vectors - self.centre) @ self.basis @ self.basis.T

    @torch.no_grad()
    def fit(self, vectors: Float[Tensor, "texts dim"], languages: Int[Tensor, " texts"]) -> None:
        """Estimate the means, in float64. Every language has texts, and counts the same as the others."""
        count = self.basis.shape[1]
        means = torch.stack([vectors[languages == label].double().mean(dim=0) for label in range(count)], dim=1)
        centre = means.mean(dim=1, keepdim=True)
        left, sizes, _ = torch.linalg.svd(means - centre, full_matrices=False)
        self.centre.copy_(centre.squeeze(1))
        self.basis.copy_(left * (sizes > 1e-9 * sizes.max()))
