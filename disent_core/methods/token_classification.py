"""Token classification: tag each word by its first sub-word. The baseline of `disent_core.methods.twosl`."""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FewShotConfig, TaggingMethod
from disent_core.optimisation.config import OptimiserConfig
from disent_core.settings import Decay, Positive, Probability, Rate


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig(FewShotConfig):
    """A linear layer on the state of each word's first sub-word; all weights of the encoder are fine-tuned.

    Attributes:
        epochs: passes over the training sentences.
        learning_rate: learning rate of Adam, constant.
        weight_decay: strength of the weight decay; 0 turns it off.
        decay: the paper says Adam with weight decay: `l2` adds it to the gradient (Adam), `decoupled` is AdamW.
        dropout: probability of dropout before the linear layer, in [0, 1).
    """

    epochs: Positive = 50
    learning_rate: Rate = 1e-5
    weight_decay: Decay = 0.01
    decay: Literal["l2", "decoupled"] = "l2"
    dropout: Probability = 0.1

    @property
    def optimiser(self) -> OptimiserConfig:
        """Adam at a constant learning rate."""
        decay = "l2" if self.decay == "l2" else "decoupled_matrices"
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay, decay=decay)


METHOD = TaggingMethod(
    name="token_classification",
    presets={"paper": TokenClassificationConfig()},
    kind="disent_core.methods.token_classification_head:TokenTagger",
)
