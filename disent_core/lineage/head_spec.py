"""Stage `heads`: what a head is and where it lies. `training` computes it."""

from disent_core.config.model import MethodConfig
from disent_core.encoders.configured import describe_config
from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.keys import head_key
from disent_core.lineage.result import Check
from disent_core.lineage.workspace import TRAINING_TEMPLATES, UTTERANCES, Key, Workspace
from disent_core.methods.spec import (
    WARM_START_KEY,
    HeadFiles,
    HeadSpec,
    describe_head,
    settings_fingerprint,
)
from disent_core.training.needs import Need

TABLES: dict[Need, Key] = {Need.TEMPLATE_PAIRS: TRAINING_TEMPLATES, Need.UTTERANCES: UTTERANCES}
"""Tables of a language that only some methods read, by need."""
CONVERGED = Check("training_has_converged", "No seed's best epoch is its last one: training was not cut short.", False)


def version(method: MethodConfig) -> str:
    """Version of the code and settings of a method."""
    return f"{method.method.code_version}-{settings_fingerprint(method.settings)[:8]}"


def head_run(workspace: Workspace, encoder: str, method: MethodConfig, trained_on: str) -> HeadSpec:
    """Identity of a head without the fingerprint of its texts, which is left empty."""
    lazy = lazy_encoder(workspace, encoder)
    return HeadSpec(
        name=method.name,
        method=method.method,
        settings=method.settings,
        encoder=encoder,
        trained_on=trained_on,
        seeds=workspace.config.seeds_of(method),
        data_fingerprint="",
        encoder_fingerprint=lazy.fingerprint,
        reference=method.base,
        encoder_config=describe_config(lazy.saved_config, workspace.head(encoder, method.name, trained_on).parent),
    )


def head_files(workspace: Workspace, run: HeadSpec) -> HeadFiles:
    """Paths of the files of a head."""
    place = (run.encoder, run.name, run.trained_on)
    return HeadFiles(
        weights=workspace.head(*place), curve=workspace.training_curve(*place), checkpoint=workspace.checkpoint(*place)
    )


def require_trained(workspace: Workspace, run: HeadSpec) -> None:
    """Check that the head is on disk and was trained as `run` says; its training texts are not compared."""
    if not run.method.is_trained:
        return
    described = describe_head(head_files(workspace, run).weights)
    key = "/".join(head_key(run.encoder, run.name))
    remedy = f"Run `disent materialize '+key:\"{key}\"'`"
    if described is None:
        raise TrainingError(f"{key} [{run.trained_on}] has not been trained. {remedy}")
    if described[0].get(WARM_START_KEY) != run.warm_start_key:
        reason = "was trained with other settings, seeds or code than the present ones, or on another encoder"
        raise TrainingError(f"{key} [{run.trained_on}] {reason}. {remedy}")


def encoder_files(workspace: Workspace, encoder: str, method: MethodConfig) -> EncoderFiles | None:
    """Files of the model, for methods that fine-tune it; else None."""
    return lazy_encoder(workspace, encoder).files if Need.ENCODER in method.needs else None
