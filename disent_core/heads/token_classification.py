"""Token classification: a tag for each word from its first sub-word, the baseline of `disent_core.heads.twosl`."""

from disent_core.heads.families.tagger import LabellingMethod
from disent_core.heads.twosl.config import TOKEN_CLASSIFICATION_PRESETS
from disent_core.heads.twosl.token_labeller import TokenLabeller, start

METHOD = LabellingMethod(
    name="token_classification", presets=TOKEN_CLASSIFICATION_PRESETS, start=start, open=TokenLabeller.load
)
