"""Stage `warehouse`: all metric rows and the published figures -> one DuckDB file.

What belongs here: which files are loaded, namely those that the configuration declares. What does not: SQL.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import dagster as dg

from disent_assets.asset_results import clear_errors, pictures, spec
from disent_assets.checks import check, passed
from disent_assets.duckdb_warehouse import build_warehouse, query
from disent_assets.resources import SQL, Workspace
from disent_assets.stages.corpora import SENTENCE_PAIRS, UTTERANCES
from disent_assets.stages.evaluation import comparisons_key, comparisons_path, evaluation_key
from disent_assets.stages.heads import curve_path, head_key
from disent_assets.stages.negatives import POOL
from disent_assets.stages.targets import MASKED, SWITCHED, TEMPLATES, TRAINING_TEMPLATES
from disent_core.evaluation.contract import TASKS
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import leaderboard, leakage, ordered_groups
from disent_core.report.style import method_marks
from disent_core.storage.files import locked, read_sealed, sound, unless_damaged, write_sealed_text
from disent_core.storage.tables import SCHEMAS, content_of, fingerprint, refresh_table, rows_table

CODE_VERSION = "1"
DATABASE = ["warehouse", "database"]
PER_LANGUAGE = (UTTERANCES, POOL, MASKED, TEMPLATES, TRAINING_TEMPLATES)
PER_PAIR = (SENTENCE_PAIRS, SWITCHED)


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage."""
    config = workspace.config
    heads = [
        [evaluation_key(encoder, method.name), *([head_key(encoder, method.name)] if method.method.is_trained else [])]
        for encoder in config.encoders
        for method in config.methods_of(encoder)
    ]
    heads.append([comparisons_key(encoder) for encoder in config.encoders])
    tables = [
        *(PER_LANGUAGE if config.utterance_languages else ()),
        *([SENTENCE_PAIRS] if config.pair_names else ()),
        *([SWITCHED] if config.pair_names and config.targets.code_switching.dictionaries else ()),
    ]
    deps = [dg.AssetDep(key) for key in (*tables, *(key for keys in heads for key in keys))]

    @dg.multi_asset(
        name="__".join(DATABASE),
        specs=[
            spec(
                DATABASE,
                "One DuckDB file: `metrics`, `published_metrics`, the stages' tables and the views over them. "
                "It is built beside the old one and swapped in, so readers are never blocked.",
                code_version=CODE_VERSION,
                kinds={"duckdb", "sql"},
                deps=deps,
            )
        ],
        check_specs=[
            check(DATABASE, path.stem, _first_line(path), blocking=False)
            for path in sorted((SQL / "checks").glob("*.sql"))
        ],
    )
    def database() -> Iterator[dg.MaterializeResult]:
        with clear_errors(), locked(workspace.warehouse):
            result = _refresh(workspace)
        yield result

    return [database]


def input_files(workspace: Workspace) -> dict[str, list[Path]]:
    """Files to load by table: every declared partition that has been materialised, and nothing else."""
    config = workspace.config
    declared: dict[str, list[Path]] = {
        key[1]: [
            workspace.table(*key, corpus.name, language)
            for language in config.utterance_languages
            for corpus in config.corpora_of(language)
        ]
        for key in PER_LANGUAGE
    }
    declared |= {
        key[1]: [
            workspace.table(*key, corpus, "-".join(pair))
            for corpus, pairs in config.sentence_pairs.items()
            for pair in pairs
        ]
        for key in PER_PAIR
    }
    methods = [
        (encoder, method.name, pair)
        for encoder in config.encoders
        for method in config.methods_of(encoder)
        for pair in config.pairs_of(method)
    ]
    for name in ("metrics", "rankings"):
        declared[name] = [workspace.table("evaluation", name, *each) for each in methods]
    declared["comparisons"] = [comparisons_path(workspace, encoder) for encoder in config.encoders]
    declared["configured_methods"] = [workspace.table("warehouse", "configured_methods", "all")]
    declared["training_curve"] = [curve_path(workspace, *each) for each in methods]
    return {name: [path for path in paths if path.is_file()] for name, paths in declared.items()}


def _write_methods(workspace: Workspace) -> None:
    """The methods as configured: what a name in `metrics` stands for."""
    rows = [
        {
            "method": method.name,
            "base_method": method.method.name,
            "settings": json.dumps(asdict(method.settings), sort_keys=True),
        }
        for name in workspace.config.experiment.methods
        for method in [workspace.config.methods[name]]
    ]
    path = workspace.table("warehouse", "configured_methods", "all")
    schema = SCHEMAS["configured_methods"]
    refresh_table(path, schema, inputs=fingerprint(rows), make=lambda: rows_table(rows, "configured_methods"))


def _refresh(workspace: Workspace) -> dg.MaterializeResult:
    _write_methods(workspace)
    inputs = input_files(workspace)
    contents = {name: [content_of(path) for path in paths] for name, paths in inputs.items()}
    wanted = fingerprint(CODE_VERSION, contents, _sql_hash())
    # Written after the swap: a run killed in between builds once more.
    record = workspace.warehouse.with_suffix(".json")
    is_whole, told = sound(workspace.warehouse) is not None, unless_damaged(lambda: read_sealed(record))
    if is_whole and told is not None:
        last = json.loads(told)
        if last["inputs"] == wanted:
            return _result(workspace, last, recomputed=False)
    report = build_warehouse(inputs, SQL, workspace.warehouse)
    checks = {each.name: each.offending for each in report.checks}
    last = {"inputs": wanted, "checks": checks, "rows": dict(report.rows), "build_seconds": report.seconds}
    write_sealed_text(record, json.dumps(last, indent=2) + "\n")
    return _result(workspace, last, recomputed=True)


def _result(workspace: Workspace, last: Mapping[str, Any], *, recomputed: bool) -> dg.MaterializeResult:
    """Checks of severity `error` have passed, or there would be no such warehouse; warnings are shown."""
    return dg.MaterializeResult(
        asset_key=dg.AssetKey(DATABASE),
        data_version=dg.DataVersion(last["inputs"]),
        metadata={
            "recomputed": recomputed,
            "build_seconds": last["build_seconds"],
            **{f"rows/{name}": rows for name, rows in last["rows"].items()},
            **_pictures(workspace, last["inputs"]),
        },
        check_results=[
            passed(DATABASE, name, rows == 0, {"rows": rows}, warn=True) for name, rows in last["checks"].items()
        ],
    )


def _pictures(workspace: Workspace, content: str) -> dict[str, dg.MetadataValue]:
    """The first leaderboard, and what leaks of it."""
    place, methods = partial(workspace.plot, "warehouse"), workspace.config.experiment.methods
    rows = cache(lambda: query(workspace.warehouse, "select * from leaderboard").to_pylist())
    board = cache(lambda: next((own for _, own in ordered_groups(rows(), TASKS)), []))
    drawings = {
        place(name="leaderboard"): lambda: leaderboard(board(), methods),
        place(name="leakage"): lambda: leakage(board(), method_marks(methods), most=4),
    }
    return pictures(fingerprint(PICTURES_VERSION, content, methods), drawings)


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("-- ")


def _sql_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in SQL.rglob("*") if path.suffix in {".sql", ".csv"}):
        digest.update(path.relative_to(SQL).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
