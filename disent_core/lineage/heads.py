"""Stage `heads`: train a method on aligned pairs and embeddings, for weights of every seed and a training curve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.config.model import MethodConfig
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import TrainingError
from disent_core.lineage.embeddings import open_embeddings
from disent_core.lineage.head_spec import CONVERGED, TABLES, encoder_files, head_files, head_run
from disent_core.lineage.result import StepResult
from disent_core.lineage.workspace import ALIGNED, MATES, SENTENCE_PAIRS, UTTERANCES, Key, Workspace
from disent_core.methods.spec import HeadSpec
from disent_core.methods.trainer import TrainedLabeller, TrainedMethod, train_head, trainer
from disent_core.storage.tables import SCHEMAS, fingerprint
from disent_core.training.build_data import training_data
from disent_core.training.data import TrainingData, text_features
from disent_core.training.needs import SIDES, Need, training_fingerprint

PLOTTED = {"total": "dev_loss", "dev_accuracy_at_1": "dev_accuracy_at_1", "accuracy_at_1": "dev_accuracy_at_1"}
"""Terms on dev that the UI plots over training sets, with their names in the UI."""
SHOWN_TEXTS = 400
"""Texts of each language in the pictures of embeddings."""
SHOWN_EMBEDDINGS = ("sentence", "meaning", "language")


@dataclass(frozen=True, kw_only=True)
class TrainedHead(StepResult):
    """A head on disk: what was trained, the rows of its `training_curve`, and the fingerprint of its weights."""

    run: HeadSpec
    curve: pa.Table
    fingerprint: str


def train(workspace: Workspace, encoder: str, method: MethodConfig, trained_on: str) -> TrainedHead:
    """Train one head for every seed, unless an up-to-date one is on disk; the embeddings must exist."""
    try:
        run, open_data = head_and_data(workspace, encoder, method, trained_on)
        device = resolve_device(workspace.config.experiment.device) if method.method.trains_on_gpu else "cpu"
        report = train_head(run, head_files(workspace, run), open_data, device=device)
    except TrainingError as error:
        raise TrainingError(f"{method.name} on {encoder}, {trained_on}: {error}") from error
    curve = workspace.read("heads", "training_curve", encoder, method.name, trained_on)
    best = curve.filter(pc.and_(curve["is_best"], pc.equal(curve["split"], "dev"))).to_pylist()
    cut_short = _cut_short(method, curve, best)
    return TrainedHead(
        rows=report.curve.rows,
        content=fingerprint(report.content),
        is_reused=report.is_reused,
        figures={
            "steps": report.steps,
            "training_seconds": report.seconds,
            "epochs": pc.max(curve["epoch"]).as_py(),
            **({"began_with_weights": report.initial_weights} if report.initial_weights else {}),
            **_of_dev(best),
        },
        checks=(CONVERGED.result(not cut_short, cut_short=len(cut_short), seeds=cut_short),),
        summary=f"{run.title}: {report.steps} steps trained in {report.seconds:.1f} s",
        run=run,
        curve=curve,
        fingerprint=report.content,
    )


def head_and_data(
    workspace: Workspace, encoder: str, method: MethodConfig, trained_on: str
) -> tuple[HeadSpec, Callable[[], TrainingData]]:
    """Return the head to train, and a function that opens its training data."""
    config, needs, paired = workspace.config, method.needs, not method.method.labels
    aligned = workspace.read(*ALIGNED, trained_on) if paired else SCHEMAS["aligned_pairs"].empty_table()
    mates = [workspace.read(*MATES, trained_on)] if Need.PARALLEL_MATES in needs else []
    tables = {need: _of_languages(workspace, method, key, trained_on) for need, key in TABLES.items() if need in needs}
    templates, utterances = tables.get(Need.TEMPLATE_PAIRS, []), tables.get(Need.UTTERANCES)
    sentences = _sentences(workspace, trained_on) if Need.UTTERANCES in needs and paired else []
    texts = training_fingerprint(aligned, needs, [*templates, *mates], utterances or [])
    run = replace(head_run(workspace, encoder, method, trained_on), data_fingerprint=texts)

    def open_data() -> TrainingData:
        vectors, states = {}, {}
        for language in config.languages_of(trained_on):
            vectors[language], states[language] = open_embeddings(workspace, encoder, language, needs)
        return training_data(
            [aligned],
            vectors,
            states if Need.TOKEN_STATES in needs else None,
            masked=Need.MASKED_TARGETS in needs,
            paired=paired,
            templates=templates,
            mates=mates,
            encoded_mates=Need.MATE_STATES in needs,
            utterances=utterances,
            sentences=sentences,
            encoder=encoder_files(workspace, encoder, method),
        )

    return run, open_data


def _cut_short(method: MethodConfig, curve: pa.Table, best: Sequence[Mapping[str, Any]]) -> list[int]:
    # Rows are ordered by epoch, so the last best epoch wins.
    best_epochs = {row["seed"]: row["epoch"] for row in best}
    last_epochs = dict(zip(curve["seed"].to_pylist(), curve["epoch"].to_pylist(), strict=True))
    may_stop_early = method.method.may_stop_early(method.settings)
    return [seed for seed, epoch in best_epochs.items() if may_stop_early and epoch == last_epochs[seed]]


def _of_dev(best: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return dev loss and retrieval at the kept epochs, and a table of every term, as means over seeds."""
    by_term: dict[str, dict[int, float]] = {}
    for row in best:  # the last best epoch of a seed is the one kept
        by_term.setdefault(row["term"], {})[row["seed"]] = row["value"]
    means = {term: sum(values.values()) / len(values) for term, values in by_term.items()}
    plotted = {name: means[term] for term, name in PLOTTED.items() if term in means}
    return {**plotted, "dev_terms": [{"term": term, "value": round(value, 4)} for term, value in means.items()]}


def load_head(
    workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, device: str
) -> TrainedMethod | TrainedLabeller:
    """Load a head, ready to embed or tag on `cpu` or `cuda`; an untrained method needs no files."""
    files = encoder_files(workspace, encoder, method)
    weights = workspace.head(encoder, method.name, training_set)
    return trainer(method.method).load(weights, method.settings, device, files)


# --- embeddings to show -------------------------------------------------------------------------------------


def dev_embeddings(
    workspace: Workspace, run: HeadSpec, method: MethodConfig
) -> dict[str, Float[np.ndarray, "texts _"]]:
    """Return the embeddings of some dev texts by the head's first seed, by language and embedding: `en meaning`."""
    aligned = workspace.read(*ALIGNED, run.trained_on)
    dev = aligned.filter(pc.equal(aligned["split"], "dev"))
    head = load_head(workspace, run.encoder, method, run.trained_on, "cpu")
    assert isinstance(head, TrainedMethod)  # only embedding methods are plotted
    text_of = _texts(workspace, method, run.trained_on) if Need.UTTERANCES in method.needs else None
    points = {}
    for language in workspace.config.languages_of(run.trained_on):
        keys = _dev_keys(workspace, method, run.trained_on, language, dev)[:SHOWN_TEXTS]
        tables = open_embeddings(workspace, run.encoder, language, method.needs)
        texts = None if text_of is None else [text_of[key] for key in keys]
        features = text_features(keys, tables, language=language, texts=texts)
        embedded = head.embed(features, run.seeds[0] if method.method.is_seeded else None)
        points |= {f"{language} {name}": embedded[name] for name in SHOWN_EMBEDDINGS if name in embedded}
    return points


def _dev_keys(workspace: Workspace, method: MethodConfig, training_set: str, language: str, dev: pa.Table) -> list[str]:
    """Return the keys of a language's dev texts: from pairs, or from utterances in a monolingual training set."""
    if training_set != language:
        columns = [dev.filter(pc.equal(dev[f"{side}_language"], language))[f"{side}_key"] for side in SIDES]
    else:
        tables = _of_languages(workspace, method, UTTERANCES, training_set, ["split", "text_key"])
        columns = [table.filter(pc.equal(table["split"], "dev"))["text_key"] for table in tables]
    return [key for keys in columns for key in keys.to_pylist()]


# --- tables -------------------------------------------------------------------------------------------------


def _of_languages(
    workspace: Workspace, method: MethodConfig, key: Key, training_set: str, columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """Read the tables `key` of every language of the training set, of every corpus that the method trains on."""
    config = workspace.config
    return [
        workspace.read(*key, corpus.name, language, columns=columns)
        for language in config.languages_of(training_set)
        for corpus in config.trained_corpora(method, language)
    ]


def _sentences(workspace: Workspace, training_set: str) -> list[pa.Table]:
    """Read `sentence_pairs` of every pair of the training set, of every corpus that offers it for training."""
    config = workspace.config
    return [
        workspace.read(*SENTENCE_PAIRS, corpus.name, name)
        for left, right in config.pair_languages[training_set]
        for corpus, name in config.training_pairs(left, right)
    ]


def _texts(workspace: Workspace, method: MethodConfig, training_set: str) -> dict[str, str]:
    by_key: dict[str, str] = {}
    for table in _of_languages(workspace, method, UTTERANCES, training_set, ["text_key", "text"]):
        by_key |= dict(zip(table["text_key"].to_pylist(), table["text"].to_pylist(), strict=True))
    for table in _sentences(workspace, training_set):
        for side in SIDES:
            by_key |= dict(zip(table[f"{side}_key"].to_pylist(), table[side].to_pylist(), strict=True))
    return by_key
