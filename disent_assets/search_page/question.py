"""What one asks the page: a sentence, how many answers, in which languages. All of it stands in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LONGEST = 1_000
"""Characters of a sentence; more is a document, and encoding takes time for each."""
MOST_ANSWERS = 100
OTHERS = "-"
"""Asks for answers in other languages than the sentence's."""
PARAMETERS = ("q", "k", "language", "only")


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        q: the sentence, stripped of white space at both ends; empty if nothing is asked yet.
        k: answers of each kind.
        language: of the sentence; empty if it is not said.
        only: the language of the answers, or `OTHERS`; empty: any.
    """

    q: str = ""
    k: int = 10
    language: str = ""
    only: str = ""


def question(parameters: Mapping[str, str], languages: Sequence[str]) -> Question:
    """Read a question from the parameters of an address.

    Args:
        parameters: as a browser sends them; what is left out or empty has its default.
        languages: those that the index has.

    Raises:
        ValueError: if one of them is unknown or out of bounds; the message is for the user.
    """
    if unknown := [name for name in parameters if name not in PARAMETERS]:
        raise ValueError(f"{unknown[0][:40]}: no such parameter. There are {', '.join(PARAMETERS)}")
    asked = Question(
        parameters.get("q", "").strip(),
        _count(parameters.get("k") or "10"),
        parameters.get("language", ""),
        parameters.get("only", ""),
    )
    if len(asked.q) > LONGEST:
        raise ValueError(f"The sentence has {len(asked.q):,} characters; at most {LONGEST:,} can be searched for")
    for wanted, known in ((asked.language, languages), (asked.only, (*languages, OTHERS))):
        if wanted and wanted not in known:
            raise ValueError(f"No sentence here is in {wanted[:40]!r}; choose one of {', '.join(languages)}")
    if asked.only == OTHERS and not asked.language:
        raise ValueError("Say which language the sentence is in: answers are then in the others")
    return asked


def _count(written: str) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 10 and 1 <= int(written) <= MOST_ANSWERS):
        raise ValueError(
            f"The number of answers, k, is a whole number from 1 to {MOST_ANSWERS} and not {written[:40]!r}"
        )
    return int(written)
