"""Asset checks: what must hold of a table before anything is built on it.

What belongs here: checks that block, and warnings that a reader should see. The warehouse's own checks are
SQL, in `sql/checks/`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.storage.tables import SCHEMAS, read_table


def check(key: Sequence[str], name: str, description: str, *, blocking: bool) -> dg.AssetCheckSpec:
    """Spec of a check that runs inside its asset's step."""
    return dg.AssetCheckSpec(name, asset=list(key), description=description, blocking=blocking)


def passed(
    key: Sequence[str], name: str, ok: bool, metadata: dict[str, Any], *, warn: bool = False
) -> dg.AssetCheckResult:
    """Its result."""
    severity = dg.AssetCheckSeverity.WARN if warn else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        passed=bool(ok), check_name=name, asset_key=list(key), severity=severity, metadata=metadata
    )


def utterance_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of `utterances`."""
    return [
        check(key, "ids_are_unique", "No utterance id occurs twice in a corpus and language.", blocking=True),
        check(key, "tags_match_tokens", "Every token has one slot tag.", blocking=True),
        check(key, "every_split_has_rows", "Train, dev and test are all there.", blocking=False),
    ]


def utterance_results(key: Sequence[str], paths: Sequence[Path]) -> list[dg.AssetCheckResult]:
    """Their results over the tables of one partition."""
    names = ["corpus", "utterance_id", "split", "tokens", "slot_tags"]
    rows = pa.concat_tables([read_table(path, SCHEMAS["utterances"], names) for path in paths])
    repeated = len(rows) - len(rows.group_by(["corpus", "utterance_id"]).aggregate([]))
    lengths = (pc.list_value_length(rows[name]) for name in ("tokens", "slot_tags"))
    odd = pc.sum(pc.not_equal(*lengths)).as_py() or 0
    missing = sorted({"train", "dev", "test"} - set(rows["split"].unique().to_pylist()))
    return [
        passed(key, "ids_are_unique", repeated == 0, {"repeated": repeated}),
        passed(key, "tags_match_tokens", odd == 0, {"rows": odd}),
        passed(key, "every_split_has_rows", not missing, {"missing": missing}, warn=True),
    ]


def pair_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of `sentence_pairs`."""
    return [
        check(key, "ids_are_unique", "No id of a pair occurs twice in a corpus.", blocking=True),
        check(key, "no_sentence_is_in_two_splits", "No sentence of training is in dev or test too.", blocking=False),
    ]


def pair_results(key: Sequence[str], paths: Sequence[Path]) -> list[dg.AssetCheckResult]:
    """Their results over the tables of one partition."""
    names = ["corpus", "pair_id", "split", "source_key", "target_key"]
    rows = pa.concat_tables([read_table(path, SCHEMAS["sentence_pairs"], names) for path in paths])
    repeated = len(rows) - len(rows.group_by(["corpus", "pair_id"]).aggregate([]))
    shared = sum(_in_two_splits(rows, side) for side in ("source_key", "target_key"))
    return [
        passed(key, "ids_are_unique", repeated == 0, {"repeated": repeated}),
        passed(key, "no_sentence_is_in_two_splits", shared == 0, {"sentences": shared}, warn=True),
    ]


def _in_two_splits(rows: pa.Table, side: str) -> int:
    """Sentences of training that another split of the same corpus has."""
    counts = rows.group_by(["corpus", side]).aggregate([("split", "distinct")])
    return sum("train" in splits and len(splits) > 1 for splits in counts["split_distinct"].to_pylist())


def pool_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of `negative_pool`."""
    return [check(key, "pool_is_not_empty", "There are negatives to draw.", blocking=False)]


def pool_results(key: Sequence[str], pool_rows: int, training_rows: int) -> list[dg.AssetCheckResult]:
    """Their results."""
    metadata = {"pool": pool_rows, "training_utterances": training_rows}
    return [passed(key, "pool_is_not_empty", pool_rows > 1, metadata, warn=True)]


def vector_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of `sentence_vectors` and `token_states`."""
    return [check(key, "every_text_is_encoded", "Every text that a later stage reads is there.", blocking=True)]


def head_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of a head."""
    description = "No seed's best epoch is its last one: training was not cut short."
    return [check(key, "training_has_converged", description, blocking=False)]


def metric_checks(key: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Checks of a method's metrics."""
    return [check(key, "values_lie_in_their_interval", "ci_low <= value <= ci_high.", blocking=True)]


def metric_results(key: Sequence[str], metrics: pa.Table) -> list[dg.AssetCheckResult]:
    """Their results."""
    inside = pc.and_kleene(
        pc.less_equal(metrics["ci_low"], metrics["value"]), pc.less_equal(metrics["value"], metrics["ci_high"])
    )
    odd = len(metrics) - (pc.sum(pc.fill_null(inside, True)).as_py() or 0)
    return [passed(key, "values_lie_in_their_interval", odd == 0, {"rows": odd})]
