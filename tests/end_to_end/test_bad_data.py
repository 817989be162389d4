"""Damaged input fails with one clear line, and earlier results stay as they are."""

import shutil
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from projects import Project, counts

from disent_core.storage.results import write_result

pytestmark = pytest.mark.end_to_end


def complaint(result: Result) -> str:
    """The one line that a failed command ends with."""
    lines = [line for line in result.stderr.replace("\r", "\n").splitlines() if line.startswith("disent: ")]
    assert len(lines) == 1, result.stderr
    assert result.stderr.rstrip("\n").endswith(lines[0])
    assert "Traceback" not in result.output
    return lines[0].removeprefix("disent: ")


def truncate_line(project: Project, locale: str, number: int) -> None:
    lines = project.file(locale).read_text(encoding="utf-8").splitlines()
    lines[number - 1] = lines[number - 1][:-20]
    project.file(locale).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_truncated_line_fails_with_its_place_and_keeps_all_results(copied):
    before, intact = copied.computed(), copied.file("de-DE").read_bytes()
    truncate_line(copied, "de-DE", 7)
    result = copied.disent("materialize")
    assert result.exit_code == 1
    assert complaint(result).startswith(f"{copied.file('de-DE')}:7: ")
    assert copied.computed() == before
    with copied.events() as events:
        (failure,) = events.of(dg.DagsterEventType.STEP_FAILURE)
    assert complaint(result) in failure.step_failure_data.user_failure_data.description
    copied.file("de-DE").write_bytes(intact)
    assert copied.materialize("group:corpora", "--partition", "de")["made"] == 0


def test_a_step_without_its_inputs_fails_naming_the_table_to_make(fresh):
    result = fresh.disent("materialize", "key:targets/masked_utterances", "--partition", "en")
    assert result.exit_code == 1
    message = complaint(result)
    assert "corpora/utterances [en] has not been made" in message
    assert "disent materialize +key:targets/masked_utterances --partition en" in message
    result = fresh.disent("materialize", "key:heads/tiny/dream_head", "--partition", "en-de")
    assert result.exit_code == 1
    assert "targets/aligned_pairs [en-de] has not been made" in complaint(result)


def test_vectors_without_their_encoder_fail_naming_it(fresh):
    fresh.materialize("group:corpora or group:negatives or key:targets/*", "--partition", "en")
    result = fresh.disent("materialize", "key:embeddings/tiny/tiny_vectors", "--partition", "en")
    assert result.exit_code == 1
    assert "embeddings/tiny/tiny_encoder has not been made" in complaint(result)


def test_nan_vectors_stop_evaluation_and_training(copied):
    poison(copied, "sentence_vectors")
    (copied.home / "heads" / "tiny" / "dream" / "en-de.safetensors").unlink()
    for asset in ("evaluation/tiny/raw_metrics", "heads/tiny/dream_head"):
        result = copied.disent("materialize", f"key:{asset}", "--partition", "en-de")
        assert result.exit_code == 1
        assert "finite" in complaint(result)


def poison(project: Project, table: str) -> None:
    """Make every stored vector of `de` NaN, and forget what was made from it."""
    folder = project.home / "tables" / "embeddings" / table / "tiny"
    for part in folder.glob("*/de/part-*.parquet"):
        rows = pq.read_table(part)
        kind = rows.schema.field(1).type
        flat = np.full(len(rows) * kind.list_size, np.nan, dtype=kind.value_type.to_pandas_dtype())
        column = pa.FixedSizeListArray.from_arrays(pa.array(flat, from_pandas=False), kind.list_size)
        with write_result(part) as temporary:
            pq.write_table(rows.set_column(1, rows.schema.field(1), column.cast(kind)), temporary)
    shutil.rmtree(project.home / "cache")
    shutil.rmtree(project.home / "tables" / "evaluation")


def test_a_damaged_part_of_the_embeddings_is_named_set_aside_and_encoded_again(copied):
    part = next((copied.home / "tables" / "embeddings" / "sentence_vectors").rglob("de/part-*.parquet"))
    part.write_bytes(b"PAR1 no more")
    repaired = copied.disent("materialize", "key:embeddings/tiny/tiny_vectors", "--partition", "de")
    assert counts(repaired.stdout)["encoded"] > 0
    assert f"{part}: this file is not as it was written" in repaired.stderr
    assert copied.materialize("key:embeddings/tiny/tiny_vectors", "--partition", "de")["encoded"] == 0


def test_a_damaged_table_is_named_and_rebuilt_by_the_next_run(copied):
    before, weights = whole(copied), copied.weights()
    table = copied.home / "tables" / "targets" / "aligned_pairs" / "en-de.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"?")
    (copied.home / "heads" / "tiny" / "dream" / "en-de.safetensors").unlink()
    result = copied.disent("materialize", "key:heads/tiny/dream_head", "--partition", "en-de")
    assert result.exit_code == 1
    assert complaint(result).startswith(f"{table}: this file is not as it was written. It was quarantined")
    copied.materialize("--partition", "en-de")
    assert whole(copied) == before
    assert copied.weights() == weights


def whole(project: Project) -> dict[str, str]:
    """Results without damaged files, manifests (they remember) and weights (their headers have no order)."""
    left_out = (".damaged", ".manifest", ".safetensors")
    return {path: digest for path, digest in project.computed().items() if Path(path).suffix not in left_out}
