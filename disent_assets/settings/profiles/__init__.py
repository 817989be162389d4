"""What differs between the profiles: the executor of steps, and what `dagster.yaml` says beside its defaults."""

from pathlib import Path

import dagster as dg

from disent_assets.settings.environment import RunSettings, database, is_local

_FOLDER = Path(__file__).parent


def dagster_settings() -> str:
    """The text of a new `dagster.yaml`: of one machine or of a cluster, with its own database or Postgres."""
    of = _FOLDER.parent if is_local() else _FOLDER
    names = [of / "dagster.yaml", *([_FOLDER / "postgres.yaml"] if database() else [])]
    return "".join(path.read_text(encoding="utf-8") for path in names)


def executor_of(settings: RunSettings) -> dg.ExecutorDefinition:
    """The executor of the steps of a run; only that of the profile is imported."""
    match settings.profile:
        case "local":
            return {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}[settings.executor]
        case "k8s":
            from disent_assets.settings.profiles.k8s import executor
        case _:  # slurm is a Ray that an allocation starts
            from disent_assets.settings.profiles.ray import executor
    return executor()
