"""Languages in mteb: its codes, and the language of each text of a task."""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from disent_core.corpora.languages import language_code

_UNKNOWN = "und-Latn"
"""For a language without a code in mteb; it is only shown."""


@dataclass(frozen=True)
class Spoken:
    """The languages of the texts of one subset of a task.

    Attributes:
        prompts: of `query` and `document`, in tasks of retrieval.
        columns: lists of texts, each with the language of every text, in other tasks.
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[tuple[Sequence[str], Sequence[str]]] = ()


def language_of(
    texts: Sequence[str], spoken: Spoken | None, metadata: Any, subset: str, prompt: str | None
) -> list[str | None]:
    """The language of each text as disent names it; None where the task does not say it.

    Args:
        texts: that mteb asks for at once.
        spoken: languages of the subset, if the task is one of `mteb_bridge.tasks`.
        metadata: of the task; a subset of one language says it.
        subset: of the task.
        prompt: `query` or `document`.
    """
    if spoken is not None:
        if prompt is not None and prompt in spoken.prompts:
            return [spoken.prompts[prompt]] * len(texts)
        for column, languages in spoken.columns:
            if list(column) == list(texts):
                return list(languages)
    scripts = getattr(metadata, "hf_subsets_to_langscripts", {}).get(subset, ())
    codes = {script.partition("-")[0] for script in scripts}
    return [language_code(*codes) if len(codes) == 1 else None] * len(texts)


@cache
def codes() -> dict[str, str]:
    """Language as disent names it -> mteb's code with the script, `de` -> `deu-Latn`; of several the first."""
    import mteb

    named = ("MassiveIntentClassification", "Tatoeba", "STS17")
    scripts = (
        script
        for name in named
        for of_subset in mteb.get_task(name).metadata.hf_subsets_to_langscripts.values()
        for script in of_subset
    )
    script_of_language: dict[str, str] = {}
    for script in scripts:
        script_of_language.setdefault(language_code(script.partition("-")[0]), script)
    return script_of_language


def script_of(language: str) -> str:
    """mteb's code of a language of disent; a region or script of ours (`zh-TW`) is left out."""
    return codes().get(language) or codes().get(language.partition("-")[0], _UNKNOWN)
