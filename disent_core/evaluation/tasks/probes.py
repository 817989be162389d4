"""Predict the intent or the language of a text from an embedding.

* `intent_probe`: the meaning embedding should encode the intent. Where the language embedding does, meaning has leaked
  into it.
* `intent_knn`: has the nearest other utterance the same intent? EMU's protocol (Hirota et al. 2020): the query is
  utterance i of language a, candidates are all utterances of language b except i (itself or its translation), the
  metric is accuracy at 1 over the intents, ties go to the lowest index. `en-de` has queries in en and candidates in
  de; `en` is one language on both sides. If languages share only some ids, every utterance is still a query and a
  candidate.
* `language_identification` predicts the language from the language embedding, which should separate the languages.
* `language_leakage` is the same probe on what should not tell the language, so lower is better: a meaning, template or
  residual that is free of language is what the papers call language-agnostic. Without any trace of the language the
  probe is right as often as chance: 0.5 for two languages with equally many texts. `language_leakage_knn` and
  `language_leakage_mlp` read the language from the same embeddings by neighbours and with a network: what a linear
  map no longer finds can still be there.

`ridge` is ridge regression onto the classes (scikit-learn's `RidgeClassifier`) over standardised dimensions. Its only
solution has a closed form: on MASSIVE it is 20 to 40 times faster than multinomial logistic regression over 60 intents,
and as accurate on languages. A linear probe is what a linear eraser removes, so an embedding can be at chance for it
and still tell its language to everything else. `knn` is what a search sees: the majority of the nearest training texts.
`mlp` is a network with one hidden layer. These three train on the texts of `dev`, or on those of `train` if `dev` is
evaluated.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, Problem, Setting, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import check_finite, nearest
from disent_core.evaluation.tasks.parallel import all_texts, same_order, split_utterances, utterance_texts

PENALTY = 30.0
"""Weight of the squared norm: the best compromise of 1, 10, 30, 100 and 300 for 300 to 4,000 training texts."""
NEIGHBOURS = 25
UNITS, EPOCHS, ALPHA, SEED = 128, 25, 0.1, 0
"""The network's hidden units, passes over the training texts, weight of the squared norm, and seed of the weights."""

Labels = np.ndarray
"""One string per text."""
Probe = Literal["ridge", "knn", "mlp"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeProblem(Problem):
    """Texts by role `train NAME` and `test NAME`, with their `labels` by role."""

    labels: Mapping[str, Labels]
    probe: Probe = "ridge"

    def score(self, matrices: Mapping[str, Float[np.ndarray, "texts dim"]]) -> list[Measurement]:
        """Return the `accuracy` on the test texts of all names."""
        roles = [[role for role in self.texts if role.startswith(f"{part} ")] for part in ("train", "test")]
        train, test = (np.concatenate([matrices[role] for role in of_part]) for of_part in roles)
        labels, gold = (np.concatenate([self.labels[role] for role in of_part]) for of_part in roles)
        predict, _ = PROBES[self.probe]
        return [measured("accuracy", (predict(train, labels, test) == gold).astype(float))]


def probed_splits(config: EvaluationConfig) -> dict[str, str]:
    """Return the splits that a probe trains on (`train`) and is evaluated on (`test`)."""
    return {"train": "train" if config.split == "dev" else "dev", "test": config.split}


def probe_settings(config: EvaluationConfig, probe: Probe = "ridge") -> dict[str, Setting]:
    """Return settings of the probe in the metric rows."""
    _, details = PROBES[probe]
    return {"split": config.split, "learned_on": probed_splits(config)["train"], "probe": probe, **details}


def linear_probe(train: Float[np.ndarray, "n dim"], labels: Labels, test: Float[np.ndarray, "m dim"]) -> Labels:
    """Predict the label of each test row by ridge regression onto the classes; ties go to the first label.

    The penalty weighs the squared norm, with dimensions scaled to variance 1; intercepts are not penalised.
    """
    from scipy.linalg import solve

    train, test = _standardised(train, test)
    names, codes = np.unique(labels, return_inverse=True)
    classes = np.eye(len(names))[codes]  # one-hot, n x classes
    share = classes.mean(axis=0)
    moments = train.T @ train
    moments[np.diag_indices_from(moments)] += PENALTY
    # (X'X + penalty I) W = X'(Y - mean Y): both sides are centred, so that the intercept is the share of each class.
    weights = solve(moments, train.T @ (classes - share), assume_a="pos")
    return names[np.argmax(test @ weights + share, axis=1)]


def knn_probe(train: Float[np.ndarray, "n dim"], labels: Labels, test: Float[np.ndarray, "m dim"]) -> Labels:
    """Predict the majority label of the 25 nearest training rows by cosine; ties go to the first label."""
    names, codes = np.unique(labels, return_inverse=True)
    _, indices = nearest(test, train, NEIGHBOURS)
    votes = (codes[indices][:, :, None] == np.arange(len(names))).sum(axis=1)  # test rows x labels
    return names[votes.argmax(axis=1)]


def mlp_probe(train: Float[np.ndarray, "n dim"], labels: Labels, test: Float[np.ndarray, "m dim"]) -> Labels:
    """Predict the label of each test row by a network with one hidden layer, over standardised dimensions."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    if len(names := np.unique(labels)) < 2:
        return np.full(len(test), names[0])
    train, test = (rows.astype(np.float32) for rows in _standardised(train, test))
    network = MLPClassifier((UNITS,), alpha=ALPHA, max_iter=EPOCHS, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of passes is fixed
        network.fit(train, labels)
    return np.asarray(network.predict(test))


def _standardised(
    train: Float[np.ndarray, "n dim"], test: Float[np.ndarray, "m dim"]
) -> tuple[Float[np.ndarray, "n dim"], Float[np.ndarray, "m dim"]]:
    """Scale the dimensions of both by mean and deviation of the training rows."""
    for rows, name in ((train, "probe, train"), (test, "probe, test")):
        check_finite(rows, name)
    mean, deviation = train.mean(axis=0, dtype=float), train.std(axis=0, dtype=float)
    scale = np.where(deviation > 1e-9 * np.abs(mean), deviation, 1.0)  # a constant dimension is not scaled
    return (train - mean) / scale, (test - mean) / scale


PROBES: Mapping[Probe, tuple[Callable[[np.ndarray, Labels, np.ndarray], Labels], Mapping[str, Setting]]] = {
    "ridge": (linear_probe, {"penalty": PENALTY}),
    "knn": (knn_probe, {"neighbours": NEIGHBOURS}),
    "mlp": (mlp_probe, {"units": UNITS, "epochs": EPOCHS, "alpha": ALPHA}),
}
"""Each probe, and its description in a metric row's settings besides its name."""


def intent_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a language; none if fewer than two intents are to train on, or no text is to test."""
    (language,) = inputs.languages
    parts = {
        f"{part} {language}": split_utterances(inputs, split, with_intent=True)[0]
        for part, split in probed_splits(config).items()
    }
    labels = {role: np.asarray(utterances["intent"].to_pylist()) for role, utterances in parts.items()}
    if len(set(labels[f"train {language}"].tolist())) < 2 or not len(labels[f"test {language}"]):
        return []
    return [
        ProbeProblem(
            task="intent_probe",
            dataset=inputs.corpus,
            evaluated_on=language,
            texts={role: utterance_texts(language, utterances) for role, utterances in parts.items()},
            settings=probe_settings(config),
            labels=labels,
        )
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentProblem(Problem):
    """Texts by role `query` and `pool`, with the intents of both.

    `skip` has the index of the candidate to leave out for each query, -1 for none.
    """

    takes_late_interaction: ClassVar[bool] = True

    intents: np.ndarray
    pool_intents: np.ndarray
    skip: Int[np.ndarray, " queries"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the share of queries whose nearest candidate has their intent."""
        _, indices = nearest(matrices["query"], matrices["pool"], 1, skip=self.skip)
        return [measured("accuracy_at_1", (self.pool_intents[indices[:, 0]] == self.intents).astype(float))]


def knn_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem of a language, two of a pair; none if fewer than two utterances have an intent."""
    where = f"{inputs.corpus} {'-'.join(inputs.languages)} {config.split}"
    tables = split_utterances(inputs, config.split, with_intent=True)
    shared = same_order(tables, where, inputs.parallel)
    if inputs.parallel == "all":
        tables = shared
    if min(map(len, tables)) < 2:
        return []
    sides = [(utterance_texts(*side), side[1]) for side in zip(inputs.languages, tables, strict=True)]
    directions = list(permutations(sides)) if len(sides) > 1 else [(sides[0], sides[0])]
    return [
        IntentProblem(
            task="intent_knn",
            dataset=inputs.corpus,
            evaluated_on="-".join(dict.fromkeys((queries.language, pool.language))),
            texts={"query": queries, "pool": pool},
            intents=np.asarray(query_table["intent"]),
            pool_intents=np.asarray(pool_table["intent"]),
            skip=_translations(query_table, pool_table, shared[0]["utterance_id"]),
            settings={"split": config.split},
        )
        for (queries, query_table), (pool, pool_table) in directions
    ]


def _translations(query_table: pa.Table, pool_table: pa.Table, shared: pa.ChunkedArray) -> Int[np.ndarray, " queries"]:
    """Return for each row of `query_table` the row of `pool_table` with the same utterance, or -1 if there is none."""
    ids = query_table["utterance_id"]
    rows = pc.index_in(ids, value_set=pool_table["utterance_id"])
    shared_rows = pc.if_else(pc.is_in(ids, value_set=shared), rows, None)
    return pc.fill_null(shared_rows, -1).to_numpy().astype(np.int64)


def language_problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, embeddings: tuple[str, ...], probe: Probe = "ridge"
) -> list[Problem]:
    """Return the problem of a pair of two languages, for these embeddings; none if a language has no texts for it."""
    sides = {part: all_texts(inputs, split) for part, split in probed_splits(config).items()}
    if len(set(inputs.languages)) < 2 or not all(len(texts) for both in sides.values() for texts in both):
        return []
    roles = {f"{part} {texts.language}": texts for part, both in sides.items() for texts in both}
    return [
        ProbeProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on="-".join(inputs.languages),
            texts=roles,
            settings=probe_settings(config, probe),
            embeddings=embeddings,
            probe=probe,
            labels={role: np.full(len(texts), texts.language) for role, texts in roles.items()},
        )
    ]


RANKED, LEAKAGE_RANKED = ("language", "sentence"), ("meaning", "template", "residual", "sentence")
INTENT = Task(name="intent_probe", scope="language", tables=("utterances",), problems=intent_problems)
INTENT_KNN = Task(name="intent_knn", scope="both", tables=("utterances",), problems=knn_problems)
IDENTIFICATION = Task(
    name="language_identification",
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=partial(language_problems, task="language_identification", embeddings=RANKED),
    kinds=("utterances", "bitext"),
    ranked=RANKED,
    code_version="2",
)
LEAKAGE = replace(
    IDENTIFICATION,
    name="language_leakage",
    problems=partial(language_problems, task="language_leakage", embeddings=LEAKAGE_RANKED),
    ranked=LEAKAGE_RANKED,
    lower_is_better=True,
    code_version="1",
)
LEAKAGE_KNN, LEAKAGE_MLP = (
    replace(
        LEAKAGE,
        name=f"language_leakage_{probe}",
        problems=partial(language_problems, task=f"language_leakage_{probe}", embeddings=LEAKAGE_RANKED, probe=probe),
    )
    for probe in ("knn", "mlp")
)
