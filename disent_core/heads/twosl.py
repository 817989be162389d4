"""TWOSL: slots from spans, in two stages; see `disent_core.slots`."""

from disent_core.heads.labelling import LabellingMethod
from disent_core.slots.config import TWOSL_PRESETS
from disent_core.slots.twosl import SpanLabeller, start

METHOD = LabellingMethod(name="twosl", presets=TWOSL_PRESETS, start=start, open=SpanLabeller.load)
