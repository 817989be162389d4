"""Write the tables of corpora that a test makes up into a workspace."""

from collections.abc import Iterable, Sequence

from disent_core.corpora.lines import sentence_pairs_table
from disent_core.lineage.workspace import SENTENCE_PAIRS, UTTERANCES, Workspace
from disent_core.storage.tables import SCHEMAS, rows_table, write_table


def write_utterances(workspace: Workspace, corpus: str, language: str, rows: Iterable[Sequence[str]]) -> None:
    """Utterances without slots; a row is id, split and text."""
    same = {"corpus": corpus, "language": language, "domain": None, "intent": None, "tokens": [], "slot_tags": []}
    columns = ("utterance_id", "split", "text")
    table = rows_table(
        [same | {"text_key": row[0]} | dict(zip(columns, row, strict=True)) for row in rows], "utterances"
    )
    write_table(workspace.table(*UTTERANCES, corpus, language), table, SCHEMAS["utterances"], inputs="")


def write_pairs(workspace: Workspace, corpus: str, pair: str, rows: Sequence[Sequence[str]]) -> None:
    """Sentence pairs; a row is split, source and target."""
    splits, sources, targets = map(list, zip(*rows, strict=True))
    ids = list(map(str, range(len(rows))))
    table = sentence_pairs_table(corpus, pair, pair_ids=ids, splits=splits, sources=sources, targets=targets)
    write_table(workspace.table(*SENTENCE_PAIRS, corpus, pair), table, SCHEMAS["sentence_pairs"], inputs="")
