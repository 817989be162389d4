"""An index of a few sentences that compares words: what stands last is the value, the rest the shape."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from disent import Hit
from disent_core.text import text_key

SENTENCES = (
    ("wake me up at nine", "en"),
    ("wake me up at ten", "en"),
    ("call the office at nine", "en"),
    ("play some jazz", "en"),
    ("weck mich um neun", "de"),
    ("spiel jazz", "de"),
)
PARTS = {"template": slice(None, -1), "residual": slice(-1, None), "meaning": slice(None)}


@dataclass
class ToyIndex:
    """Cosines are shares of common words."""

    rows: Sequence[tuple[str, str | None]] = SENTENCES
    embeddings: Sequence[str] = ("meaning", "template", "residual", "language")
    asked: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def noise(self) -> dict[str, float]:
        return dict.fromkeys(self.embeddings, 0.0)

    @property
    def texts(self) -> Sequence[str]:
        return [text for text, _ in self.rows]

    @property
    def languages(self) -> Sequence[str | None]:
        return [language for _, language in self.rows]

    def search_each(
        self,
        texts: Sequence[str],
        by: Sequence[str],
        k: int,
        *,
        language: str | None = None,
        other_language: bool = False,
        only_language: str | None = None,
        except_same_text: bool = False,
    ) -> dict[str, list[Sequence[Hit]]]:
        self.asked.append(tuple(by))
        rows = [
            (row, text, its)
            for row, (text, its) in enumerate(self.rows)
            if not (other_language and its == language) and only_language in (None, its)
        ]
        left = {query: [row for row in rows if not (except_same_text and row[1] == query)] for query in texts}
        return {name: [self.nearest(query, name, left[query])[:k] for query in texts] for name in by}

    def nearest(self, query: str, by: str, rows: Sequence[tuple[int, str, str | None]]) -> Sequence[Hit]:
        wanted = set(query.split()[PARTS[by]])
        hits = [
            Hit(text, its, self.score(wanted, set(text.split()[PARTS[by]])), row, text_key(text))
            for row, text, its in rows
        ]
        return sorted(hits, key=lambda hit: -hit.score)

    @staticmethod
    def score(left: set[str], right: set[str]) -> float:
        return len(left & right) / max(len(left | right), 1)
