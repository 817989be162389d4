"""TWOSL: slots from spans, in two stages; see `disent_core.heads.twosl`."""

from disent_core.heads.families.tagger import LabellingMethod
from disent_core.heads.twosl.config import TWOSL_PRESETS
from disent_core.heads.twosl.labeller import SpanLabeller, start

METHOD = LabellingMethod(name="twosl", presets=TWOSL_PRESETS, start=start, open=SpanLabeller.load)


def _variant(name: str, switch: str) -> LabellingMethod:
    return LabellingMethod(name=name, presets={"paper": TWOSL_PRESETS[switch]}, start=start, open=SpanLabeller.load)


NO_CONTRASTIVE = _variant("twosl_no_contrastive", "no_contrastive")
NO_FILTER = _variant("twosl_no_filter", "no_filter")
