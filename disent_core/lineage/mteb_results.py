"""Stage `evaluation`: read the result files of mteb that the configuration names into the table `mteb_results`."""

from hashlib import sha256
from pathlib import Path

from disent_core.config.model import Config
from disent_core.corpora.paths import read_bytes
from disent_core.evaluation.mteb_results import read_results, result_files
from disent_core.lineage.result import Check, StepResult, result_of
from disent_core.lineage.workspace import MTEB_RESULTS, Workspace
from disent_core.storage.tables import fingerprint, rows_table

CODE_VERSION = "1"
HAS_RESULTS = Check("folder_has_results", "The folder has numbers of the tasks that are read.", False)


def mteb_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `mteb_results`."""
    return fingerprint(CODE_VERSION, sorted(config.mteb.tasks))


def mteb_files(workspace: Workspace, source: str) -> list[Path]:
    """Return the result files of one of the configured folders, sorted."""
    config = workspace.config
    return result_files(config.resolve(config.mteb.results[source]), config.mteb.tasks)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a result file together with the description of its model beside it."""
    meta = path.with_name("model_meta.json")
    return fingerprint(
        [sha256(read_bytes(file)).hexdigest() for file in (path, meta) if file == path or file.is_file()]
    )


def refresh_mteb_results(workspace: Workspace, source: str) -> StepResult:
    """Make `mteb_results` of a configured folder, unless up to date; drop rows of deleted files."""
    files = mteb_files(workspace, source)
    folder = workspace.config.resolve(workspace.config.mteb.results[source])
    contents = [(path.relative_to(folder).as_posix(), file_hash(path)) for path in files]
    refreshed = workspace.refresh(
        *MTEB_RESULTS,
        source,
        inputs=fingerprint(mteb_version(workspace.config), source, contents),
        make=lambda: rows_table((row for path in files for row in read_results(path, source)), "mteb_results"),
    )
    rows = refreshed.info.rows
    return result_of([refreshed], figures={"files": len(files)}, checks=[HAS_RESULTS.result(rows > 0, rows=rows)])
