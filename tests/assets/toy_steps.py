"""Steps that compute nothing, for tests of what surrounds them."""

from collections.abc import Callable, Sequence

from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Output, Step

KEY = ("corpora", "toy")
RESULT = StepResult(rows=1, content="0", is_reused=False)


def toy_step(
    key: str | Sequence[str] = KEY, make: Callable[[str], StepResult] = lambda _: RESULT, **details: object
) -> Step:
    """Return a step with one output; a key is a text with slashes, or its parts."""
    output = Output(tuple(key.split("/") if isinstance(key, str) else key), "Toy.")
    return Step(made=(output,), version="1", make=lambda partition: [make(partition)], **details)
