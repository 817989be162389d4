"""Classify vectors by multinomial logistic regression, detect those of no class, and store classifiers.

The regression minimises the negative log-likelihood plus |weights|^2 / (2 C), without a penalty on the intercepts, over
vectors of norm 1. Newton's method solves it, with conjugate gradients for each step, so the Hessian is never formed.
Nothing is random: equal vectors give equal weights.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disent_core.errors import DamagedError, Notice, TrainingError, located
from disent_core.static_folder import filled

RECORD, WEIGHTS = "classifier.json", "classifier.safetensors"
"""Files in the folder of a classifier."""
FORMAT = 2
_TOLERANCE = 1e-7  # largest gradient of the mean loss at a solution
_STEPS = 100  # most Newton steps; about 10 are needed
_PRODUCTS = 250  # most products with the Hessian in one step
_FOLDS = 5
_FEW, _FEW_OF_CLASS = 20, 4
"""Numbers of examples, in all and per class on average, below which a threshold separates little."""
_SAME = 1 - 1e-6  # least cosine of two examples that count as the same text
_BLOCK = 1 << 22  # cosines computed at once: 32 MB

Vectors = NDArray[np.floating[Any]]
"""[texts, dim]. Not a jaxtyping type, because an installation without extras lacks jaxtyping."""
Label = str | int


class FewExamplesWarning(Notice):
    """There are too few examples to tell texts of the classes from others."""


@dataclass(frozen=True)
class Fitted:
    """A classifier of vectors.

    Attributes:
        classes: labels, in order.
        weights: [classes, dim + 1]; the last column is the intercept.
        threshold: least nearness of a vector that belongs to a class; None if every vector does.
        examples: unit vectors that it was fitted on, [examples, dim]; none without a threshold.
    """

    classes: tuple[Label, ...]
    weights: NDArray[np.float64]
    threshold: float | None = None
    examples: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        """Return the probability of each class."""
        dim = self.weights.shape[1] - 1
        if vectors.shape[1] != dim:
            problem = f"vectors have {vectors.shape[1]} dimensions, and the classifier reads {dim}"
            raise ValueError(f"{problem}; use the model that it was fitted on")
        return _softmax(_with_one(vectors) @ self.weights.T)

    def nearness(self, vectors: Vectors, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the highest probability times the cosine of the nearest example, at least 0, [texts].

        A probability alone only compares the classes with each other: even gibberish belongs to one of them.
        """
        return probabilities.max(axis=1) * _nearest(unit(vectors).astype(np.float32), self.examples)


def fitted(
    vectors: Vectors,
    targets: NDArray[np.int64],
    classes: tuple[Label, ...],
    c: float,
    refused: float | None = None,
) -> Fitted:
    """Fit a classifier to vectors; `targets` has the number of the class of each.

    With `refused` it has a threshold, below which this share of the vectors lies. For this, the probabilities of a
    vector come from a classifier of the other folds, and its nearest example from all other vectors.

    Warns:
        FewExamplesWarning: if there are too few vectors to set a threshold: fewer than 20, or than 4 per class on
            average, or so few that none lies below it.
    """
    rows, is_class = _with_one(vectors), np.eye(len(classes))[targets]
    weights = _solution(rows, is_class, c, np.zeros((len(classes), rows.shape[1])))
    if refused is None:
        return Fitted(classes, weights)
    held_out = _held_out_nearness(rows, targets, is_class, c, weights)
    least = max(_FEW, _FEW_OF_CLASS * len(classes), int(np.ceil(1 / refused)))
    if len(rows) < least:
        problem = f"{len(rows)} texts of {len(classes)} labels say little about texts that are like none of them"
        remedy = f"give {least} or more, or check predictions of texts that should be unknown"
        warnings.warn(f"{problem}; {remedy}", FewExamplesWarning, stacklevel=3)
    threshold = float(np.quantile(held_out, refused, method="lower"))
    return Fitted(classes, weights, threshold, rows[:, :-1].astype(np.float32))


def _held_out_nearness(
    rows: NDArray[np.float64],
    targets: NDArray[np.int64],
    is_class: NDArray[np.float64],
    c: float,
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the nearness of each vector when it is held out; a class never loses its only vector.

    Probabilities come from a classifier of the other folds. The nearest is sought among all other vectors: without its
    fold, a class of a few examples would lose the near ones. Each fold starts from `weights`, those of all vectors.
    """
    number_in_class = np.empty(len(targets), np.int64)
    for target in range(is_class.shape[1]):
        of_class = np.flatnonzero(targets == target)
        number_in_class[of_class] = np.arange(len(of_class)) if len(of_class) > 1 else -1
    folds = np.where(number_in_class < 0, -1, number_in_class % _FOLDS)
    units = rows[:, :-1]
    nearest, held_out = _nearest(units, units, is_itself=True), []
    for fold in range(folds.max() + 1):
        of_others = _solution(rows[folds != fold], is_class[folds != fold], c, weights)
        held_out.append(_softmax(rows[folds == fold] @ of_others.T).max(axis=1) * nearest[folds == fold])
    if not held_out:
        raise ValueError("no label has two texts, so none can be held out; give more texts, or leave unknown out")
    return np.concatenate(held_out)


def _nearest(vectors: Vectors, examples: Vectors, *, is_itself: bool = False) -> NDArray[np.float64]:
    """Return the cosine of the nearest example of each unit vector, at least 0; `is_itself`: ignore copies of it."""
    nearest, size = np.zeros(len(vectors)), max(1, _BLOCK // max(len(examples), 1))
    for start in range(0, len(vectors), size):
        cosines = vectors[start : start + size] @ examples.T
        if is_itself:
            cosines[cosines >= _SAME] = 0
        nearest[start : start + size] = cosines.max(axis=1, initial=0)
    return nearest


# --- the regression ---------------------------------------------------------------------------------------


def unit(vectors: Vectors) -> NDArray[np.float64]:
    """Scale vectors to norm 1; zero stays zero."""
    scaled = vectors.astype(np.float64)
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)


def _with_one(vectors: Vectors) -> NDArray[np.float64]:
    return np.hstack([unit(vectors), np.ones((len(vectors), 1))])


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _solution(
    rows: NDArray[np.float64],
    is_class: NDArray[np.float64],
    c: float,
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the weights that minimise the mean loss (the loss / number of texts), starting from `weights`."""
    count = len(rows)
    penalty = np.full(rows.shape[1], 1 / (c * count))
    penalty[-1] = 0  # of the intercepts

    def loss(weights: np.ndarray) -> float:
        logits = rows @ weights.T
        highest = logits.max(axis=1)
        totals = np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest
        return float((totals - (logits * is_class).sum(axis=1)).mean() + (penalty * weights**2).sum() / 2)

    before = loss(weights)
    for _ in range(_STEPS):
        shares = _softmax(rows @ weights.T)
        gradient = (shares - is_class).T @ rows / count + penalty * weights
        size = float(np.abs(gradient).max())
        if size <= _TOLERANCE:
            return weights

        def product(step: np.ndarray, shares: np.ndarray = shares) -> np.ndarray:
            change = rows @ step.T
            moved = shares * (change - (shares * change).sum(axis=1, keepdims=True))
            return moved.T @ rows / count + penalty * step

        step = _conjugate_gradients(product, -gradient, min(0.1, size**0.5))
        slope, length = float((gradient * step).sum()), 1.0
        while (after := loss(weights + length * step)) > before + 1e-4 * length * slope and length > 1e-10:
            length /= 2
        if after >= before:  # nothing better within the precision of the loss
            return weights
        weights, before = weights + length * step, after
    return weights


def _conjugate_gradients(product: Callable[[np.ndarray], np.ndarray], right: np.ndarray, share: float) -> np.ndarray:
    """Solve product(x) = right until the residual is at most `share` of its initial size."""
    solution, residual, direction = np.zeros_like(right), right, right
    squared = float((residual**2).sum())
    enough = share**2 * squared
    for _ in range(_PRODUCTS):
        curved = product(direction)
        curvature = float((direction * curved).sum())
        if squared <= enough or curvature <= 0:
            break
        length = squared / curvature
        solution, residual = solution + length * direction, residual - length * curved
        after = float((residual**2).sum())
        direction, squared = residual + after / squared * direction, after
    return solution if solution.any() else right


# --- files ------------------------------------------------------------------------------------------------


def write_classifier(folder: Path, fitted: Fitted, probe: NDArray[Any], record: Mapping[str, Any]) -> None:
    """Write a classifier, probe vectors of its model and a record atomically, in place of an earlier classifier."""
    from safetensors.numpy import save

    if folder.exists() and not (folder / RECORD).is_file():
        remedy = "Choose a folder that does not exist yet, or that of a classifier, which is replaced"
        raise TrainingError(located(folder, None, "this exists and is not a classifier", remedy))
    weights = save({"weights": fitted.weights, "probe": probe.astype(np.float32), "examples": fitted.examples})
    facts = {
        "format": FORMAT,
        "classes": list(fitted.classes),
        "threshold": fitted.threshold,
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    with filled(folder, {WEIGHTS, RECORD}) as temporary:
        (temporary / WEIGHTS).write_bytes(weights)
        (temporary / RECORD).write_text(json.dumps({**record, **facts}, indent=1) + "\n", encoding="utf-8")


def read_classifier(folder: Path) -> tuple[Fitted, NDArray[Any], dict[str, Any]]:
    """Return what `write_classifier` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    file = folder / RECORD
    if not file.is_file():
        raise TrainingError(located(folder, None, "no classifier here", "Name a folder that Classifier.save wrote"))
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            remedy = "Fit and save it again" if record["format"] == 1 else "Update disent"
            raise TrainingError(located(file, None, f"this disent can't read format {record['format']!r}", remedy))
        content = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(content).hexdigest() != record["sha256"]:
            raise ValueError(f"{WEIGHTS} does not match its checksum")
        tensors, threshold = load(content), record["threshold"]
        threshold = None if threshold is None else float(threshold)
        fitted = Fitted(tuple(record["classes"]), tensors["weights"], threshold, tensors["examples"])
        if len(fitted.classes) != len(fitted.weights):
            raise ValueError(f"{len(fitted.classes)} classes have {len(fitted.weights)} rows of weights")
        return fitted, tensors["probe"], record
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        problem = f"this classifier can't be read ({type(error).__name__}: {error})"
        raise DamagedError(located(folder, None, problem, "Fit and save it again")) from error
