"""Erase from vectors what a linear map can read of their language, in closed form and without knowing the language.

Mean projection (Haghighatkhah et al. 2022, https://aclanthology.org/2022.emnlp-main.575): project the vectors onto the
complement of the span of the differences between the languages' means. Then all languages have the same mean, so no
linear map predicts the language better than a constant in least squares (Belrose et al. 2023, Theorem 3.1,
https://arxiv.org/abs/2306.03819). For k languages this removes k - 1 dimensions, and it asks for no language.

The means are those of training texts. Other texts have slightly other ones, and in a direction in which vectors hardly
differ a slight difference is enough to tell the language. So the directions of the smallest variance go too.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class LanguageEraser(nn.Module):
    """x -> x - (x - centre) basis basis', where the columns of `basis` [dim, dim] that are not 0 span what is erased.

    It changes nothing until it is fitted, and then computes nothing: in training, products with its zeros would take a
    sixth of a step of `facet`.
    """

    centre: Float[Tensor, " dim"]
    basis: Float[Tensor, "dim dim"]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("basis", torch.zeros(dim, dim))

    def forward(self, vectors: Float[Tensor, "texts dim"]) -> Float[Tensor, "texts dim"]:
        """Return the vectors without their language; their norms change a little."""
        if not self.basis.any():
            return vectors
        return vectors - (vectors - self.centre) @ self.basis @ self.basis.T

    @torch.no_grad()
    def fit(
        self, vectors: Float[Tensor, "texts dim"], languages: Int[Tensor, " texts"], kept_variance: float = 1.0
    ) -> None:
        """Estimate means and variances, in float64. Every language counts the same, whatever number of texts it has.

        Args:
            vectors: of training texts.
            languages: their numbers.
            kept_variance: share of the variance within languages that is kept, in the directions that hold most of it.
        """
        vectors = vectors.double()
        covariance = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
        means: list[Tensor] = []
        for label in languages.unique():
            of_language = vectors[languages == label]
            means.append(of_language.mean(dim=0))
            covariance += (of_language - means[-1]).T @ (of_language - means[-1]) / len(of_language)
        centre = torch.stack(means).mean(dim=0)
        differences, sizes, _ = torch.linalg.svd((torch.stack(means) - centre).T, full_matrices=False)
        differences = differences[:, sizes > 1e-9 * sizes.max()]
        within = torch.eye(len(centre), dtype=torch.float64) - differences @ differences.T
        # Smallest variances first; those of the differences are 0.
        variances, directions = torch.linalg.eigh(within @ covariance @ within)
        is_erased = variances.cumsum(dim=0) <= (1 - kept_variance + 1e-12) * variances.sum()
        self.centre.copy_(centre)
        self.basis.copy_(directions * is_erased)
