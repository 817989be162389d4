"""Write the tables of corpora that a test makes up into a workspace."""

from collections.abc import Iterable, Sequence

from worlds import sentence_pairs, utterance

from disent_core.lineage.workspace import SENTENCE_PAIRS, UTTERANCES, Workspace
from disent_core.storage.tables import SCHEMAS, rows_table, write_table


def write_utterances(workspace: Workspace, corpus: str, language: str, rows: Iterable[Sequence[str]]) -> None:
    """Utterances without slots; a row is id, split and text."""
    untagged = {"corpus": corpus, "tokens": [], "slot_tags": []}
    full = [utterance(language, name, text, split=split, text_key=name, **untagged) for name, split, text in rows]
    write_table(
        workspace.table(*UTTERANCES, corpus, language), rows_table(full, "utterances"), SCHEMAS["utterances"], inputs=""
    )


def write_pairs(workspace: Workspace, corpus: str, pair: str, rows: Sequence[Sequence[str]]) -> None:
    """Sentence pairs; a row is split, source and target."""
    table = sentence_pairs([(row[1], row[2]) for row in rows], pair, [row[0] for row in rows], corpus)
    write_table(workspace.table(*SENTENCE_PAIRS, corpus, pair), table, SCHEMAS["sentence_pairs"], inputs="")
