"""Token classification: a tag for each word from its first sub-word, TWOSL's baseline; see `disent_core.slots`."""

from disent_core.heads.labelling import LabellingMethod
from disent_core.slots.config import TOKEN_CLASSIFICATION_PRESETS
from disent_core.slots.token_classification import TokenLabeller, start

METHOD = LabellingMethod(
    name="token_classification", presets=TOKEN_CLASSIFICATION_PRESETS, start=start, open=TokenLabeller.load
)
