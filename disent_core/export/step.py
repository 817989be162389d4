"""Keep a head of the lineage exported as a folder."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path

from disent_core.config.model import MethodConfig
from disent_core.errors import DamagedError
from disent_core.export.card import measured_in
from disent_core.export.checking import check_folder
from disent_core.export.folder import export_head
from disent_core.export.saved_folder import read_record
from disent_core.lineage.result import StepResult
from disent_core.lineage.run_heads import modules_of
from disent_core.lineage.saved_heads import open_head
from disent_core.lineage.steps import EXPORT_VERSION, SAME_OUTPUT
from disent_core.lineage.workspace import Workspace
from disent_core.storage.files import write_text
from disent_core.storage.results import open_result, sole_maker, write_folder
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table

_LOADED_BY = ("torch", "transformers", "tokenizers", "sentence_transformers", "safetensors", "numpy")


def refresh_export(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> StepResult:
    """Export the first seed of a head, unless its folder is intact, works, and has these weights and metrics."""
    settings, of = workspace.config.exports, (encoder, method.name, training_set)
    modules = modules_of(workspace, encoder, method)
    head = open_head(workspace.head(*of), device="cpu", allowed=modules)
    seed = head.description["seeds"][0] if head.method.is_seeded else None
    metrics = read_table(workspace.table("evaluation", "metrics", *of), SCHEMAS["metrics"]).to_pylist()
    measured = measured_in(metrics, seed)
    made_from = fingerprint(
        EXPORT_VERSION,
        [settings.embeddings, settings.onnx, settings.licence],
        [head.content, head.description["encoder_fingerprint"], head.description.get("licence")],
        list(map(asdict, measured)),
    )
    folder = workspace.export(*of)
    with sole_maker(folder):
        mark = _mark(workspace, made_from)
        is_made = open_result(folder) is not None and read_record(folder).get("made_from") == made_from
        problem = _problem(folder, modules, mark) if is_made else "it has not been made"
        if not (is_reused := not problem):
            mark.unlink(missing_ok=True)
            with write_folder(folder) as beside:
                export_head(
                    head,
                    beside,
                    seed=seed,
                    embeddings=(settings.embeddings or None) if head.method.embeddings else None,
                    measured=measured,
                    onnx=settings.onnx,
                    licence=settings.licence,
                    made_from=made_from,
                )
            problem = _problem(folder, modules, mark)
    names = list(read_record(folder).get("routes", ()))
    return StepResult(
        rows=None,
        content=made_from,
        is_reused=is_reused,
        figures={"embeddings": ", ".join(names), "numbers_on_its_card": len(measured)},
        checks=(SAME_OUTPUT.result(not problem, problem=problem),),
        summary=f"{'/'.join(of)} exported: {', '.join(names)}",
    )


def _mark(workspace: Workspace, made_from: str) -> Path:
    """Return the file that exists once such a folder has been loaded by the installed versions of its libraries.

    Loading takes ten seconds of the processor, and a whole folder gives the same output by the same versions.
    """
    versions = {name: metadata.version(name) for name in _LOADED_BY if util.find_spec(name)}
    return workspace.home / "cache" / "checked_exports" / fingerprint(made_from, versions)[:16]


def _problem(folder: Path, modules: Sequence[str], mark: Path) -> str:
    """Return why the folder does not reproduce the output of its head; empty if it does, or did as `mark` shows."""
    if mark.exists():
        return ""
    try:
        check_folder(folder, modules)
    except DamagedError as error:
        return str(error)
    write_text(mark, "")
    return ""
