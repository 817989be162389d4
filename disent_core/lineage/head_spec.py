"""Stage `heads`: a head's identity, location and training data. `heads` trains it."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from disent_core.config.model import Config, MethodConfig
from disent_core.encoders import describe_config
from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.result import Check, StepResult, gate_result
from disent_core.lineage.workspace import ALIGNED, MATES, TRAINING_TEMPLATES, UTTERANCES, Key, Workspace, head_key
from disent_core.methods.spec import (
    WARM_START_KEY,
    HeadFiles,
    HeadSpec,
    describe_head,
    learns_from_mates,
    mixture_version,
    settings_fingerprint,
)
from disent_core.storage.results import none_if_damaged
from disent_core.storage.tables import content_fingerprint, fingerprint, read_info
from disent_core.training.needs import Need, in_training_splits

TABLES: dict[Need, Key] = {Need.TEMPLATE_PAIRS: TRAINING_TEMPLATES, Need.UTTERANCES: UTTERANCES}
"""Tables of a language that only some methods read, by need."""
CONVERGED = Check(
    "training_has_converged", "No seed's best epoch is its last one; raise max_epochs where one is.", False
)


def version(method: MethodConfig) -> str:
    """Return the version of the code and settings of a method."""
    return f"{method.method.code_version}-{settings_fingerprint(method.settings)[:8]}"


def head_run(workspace: Workspace, encoder: str, method: MethodConfig, trained_on: str) -> HeadSpec:
    """Return the identity of a head without the fingerprint of its texts, which is left empty."""
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
        is_mixture=workspace.config.is_mixture(trained_on),
        reference=method.base,
        encoder_config=describe_config(lazy.saved_config, workspace.head(encoder, method.name, trained_on).parent),
        data=_corpora(workspace.config, method, trained_on),
    )


def _corpora(config: Config, method: MethodConfig, trained_on: str) -> tuple[Mapping[str, Any], ...]:
    corpora = [
        corpus for language in config.languages_of(trained_on) for corpus in config.trained_corpora(method, language)
    ]
    for left, right in () if method.method.labels else config.pair_languages.get(trained_on, ()):
        corpora += [corpus for corpus, _ in config.training_pairs(left, right)]
    return tuple({"corpus": name, "licence": licence} for name, licence in {c.name: c.licence for c in corpora}.items())


def head_files(workspace: Workspace, run: HeadSpec) -> HeadFiles:
    names = (run.encoder, run.name, run.trained_on)
    return HeadFiles(
        weights=workspace.head(*names), curve=workspace.training_curve(*names), checkpoint=workspace.checkpoint(*names)
    )


def require_trained(workspace: Workspace, run: HeadSpec) -> None:
    """Check that the head is on disk and was trained as specified by `run`; training texts are not compared."""
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
    """Return the files of the model, for methods that fine-tune it; else None."""
    return lazy_encoder(workspace, encoder).files if Need.ENCODER in method.needs else None


def trained_methods(config: Config, encoder: str) -> list[MethodConfig]:
    return [method for method in config.methods_of(encoder) if method.method.is_trained]


def without_mates(workspace: Workspace) -> list[str]:
    """Describe which heads of the configuration lack mates to learn templates from, in tables that exist already."""
    config = workspace.config
    methods: dict[str, list[str]] = {}
    for name in config.experiment.methods:
        method = config.methods[name]
        if learns_from_mates(method.method, method.settings):
            for training_set in config.training_sets_of(method):
                methods.setdefault(training_set, []).append(method.name)
    notices = []
    for training_set, names in methods.items():
        path = workspace.table(*MATES, training_set)
        info = none_if_damaged(partial(read_info, path))
        if info is not None and not info.rows:
            problem = f"{', '.join(names)} [{training_set}]: no training text has slots with other values to swap in"
            notices.append(f"{problem}, so these heads have a meaning, but no shape and no values")
    return notices


def training_data(workspace: Workspace, encoder: str, training_set: str) -> StepResult:
    """Return the gate's result: what an encoder's heads read of a training set; test texts do not change it."""
    config = workspace.config
    methods = [m for m in trained_methods(config, encoder) if training_set in config.training_sets_of(m)]
    needs_mates = any(Need.PARALLEL_MATES in method.needs for method in methods)
    sources = [(*table, training_set) for table in ([ALIGNED, MATES] if needs_mates else [ALIGNED])]
    sources += [
        (*table, corpus.name, language)
        for need, table in TABLES.items()
        for method in methods
        if need in method.needs
        for language in config.languages_of(training_set)
        for corpus in config.trained_corpora(method, language)
    ]
    read = []
    for source in dict.fromkeys(sources):
        table = in_training_splits(workspace.read(*source))
        read.append((source, len(table), content_fingerprint(table)))
    encoder_fingerprint = lazy_encoder(workspace, encoder).fingerprint
    if of_mixture := ranked_by_pair(config, methods, [training_set]):
        encoder_fingerprint = fingerprint(encoder_fingerprint, of_mixture)
    of_pairs = () if config.is_of_pairs(training_set) else (ALIGNED[1], MATES[1])
    return gate_result(encoder_fingerprint, read, may_be_empty=of_pairs)


def ranked_by_pair(config: Config, methods: Iterable[MethodConfig], training_sets: Iterable[str]) -> tuple[str, ...]:
    """Return what heads on these training sets add to their fingerprints because of training on a mixture."""
    is_mixture = any(map(config.is_mixture, training_sets))
    versions = (mixture_version(method.method, method.settings, is_mixture) for method in methods)
    return next(filter(None, versions), ())
