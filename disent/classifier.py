"""Classify texts by their embeddings: fit on labelled texts, predict the labels of others in any language of the model.

    classifier = disent.Classifier(model).fit(["wake me up at nine", "play some jazz"], ["alarm", "music"])
    classifier.predict(["weck mich um neun"])

`Classifier` follows scikit-learn's conventions for estimators without importing scikit-learn: it works with `clone`,
`cross_val_score`, `GridSearchCV` and `Pipeline`, with lists of texts as X.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disent.home import expanded
from disent.model import opened, recorded_model, shipped_models
from disent_core.errors import DamagedError, EncoderError, TrainingError, located, quoted
from disent_core.text import listed_texts

if TYPE_CHECKING:
    import numpy as np

    from disent_core.classifier import Fitted

_PROBES = ("wake me up at nine", "play some jazz", "weck mich um neun", "明日の天気は")
"""Texts whose vectors show whether a model without a fingerprint is still the same."""
_SAME = 0.999  # least cosine between a text's vectors from one model on two machines


class Classifier:
    """Multinomial logistic regression over the vectors of a model, scaled to norm 1.

    Parameters are stored as given; `fit` checks them.

    Args:
        model: a `disent.Model`, the path of a head, any object with `encode(list of texts) -> float [texts, dim]`, such
            as a SentenceTransformer, or a function of a list of texts that returns such an array.
        embedding: name of the embedding, the second argument of `encode`; None: the model's default.
        C: inverse of the strength of the penalty on the weights, as in scikit-learn's LogisticRegression.
        unknown: label for texts that belong to no class, of the same type as the labels; None: every text gets its
            likeliest class. A text is unknown if its nearness (the highest class probability times the cosine of the
            nearest text of `fit`) is below `threshold_`.
        refused: share of texts of known classes that may be called unknown. `fit` holds out each fifth of the texts in
            turn and sets the threshold so that this share of the texts falls below it.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        threshold_: see `unknown`; None if `unknown` is None.
        model_: the model, loaded.
    """

    classes_: "np.ndarray"
    threshold_: float | None
    model_: Any
    _fitted: "Fitted"

    def __init__(
        self,
        model: Any,
        *,
        embedding: str | None = None,
        C: float = 10.0,  # noqa: N803 - as in scikit-learn
        unknown: str | int | None = None,
        refused: float = 0.05,
    ) -> None:
        self.model = model
        self.embedding = embedding
        self.C = C
        self.unknown = unknown
        self.refused = refused

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != _DEFAULTS[name]]
        return f"Classifier({', '.join(changed)})"

    def fit(self, texts: Iterable[str], labels: Iterable[str | int]) -> "Classifier":
        """Learn the labels of texts.

        Args:
            texts: at least two; several for each label.
            labels: of the texts, in order, all str or all int; at least two different ones.

        Returns:
            Itself.

        Raises:
            ValueError: if a text is not a str, the numbers of texts and labels differ, there is one label only, or a
                parameter is out of range.
            EncoderError: if the model gives no finite vector for a text.

        Warns:
            FewExamplesWarning: if there are too few texts for `unknown`: fewer than 20, or than 4 per label on average.
        """
        from disent_core.classifier import fitted

        self._check_parameters()
        listed = listed_texts(texts)
        classes, targets = _classes(labels, len(listed))
        if self.unknown is not None and type(self.unknown) is not type(classes[0]):
            kind = type(classes[0]).__name__
            raise ValueError(f"unknown is {self.unknown!r}, and labels are of type {kind}; give one of the same type")
        if self.unknown in classes:
            raise ValueError(f"unknown is {self.unknown!r}, which is already a label of the texts; choose another")
        self.model_ = opened(self.model)
        if not getattr(self.model_, "is_of_one_text", True):
            raise ValueError(
                "the model subtracts the mean of the texts that are encoded together; use one that does not"
            )
        refused = None if self.unknown is None else self.refused
        self._keep(fitted(self._vectors(listed), targets, classes, float(self.C), refused))
        return self

    def predict(self, texts: Iterable[str]) -> "np.ndarray":
        """Return the label of each text, [texts]; `unknown` for a text that belongs to no class.

        Raises:
            ValueError, EncoderError: as `fit`; also before `fit`.
        """
        import numpy as np

        probabilities, nearness = self.judge(texts)
        labels = self.classes_[probabilities.argmax(axis=1)]
        if nearness is None or self.unknown is None:
            return labels
        return np.where(nearness < self.threshold_, self.unknown, labels).astype(labels.dtype)

    def predict_proba(self, texts: Iterable[str]) -> "np.ndarray":
        """Return the probability of each of `classes_`, float64 [texts, classes].

        Raises:
            ValueError, EncoderError: as `predict`.
        """
        return self.judge(texts)[0]

    def judge(self, texts: Iterable[str]) -> "tuple[np.ndarray, np.ndarray | None]":
        """Return the probability of each of `classes_`, and the nearness of each text, compared with `threshold_`.

        Returns:
            Probabilities, float64 [texts, classes]; nearness, float64 [texts], None without a threshold.

        Raises:
            ValueError, EncoderError: as `predict`.
        """
        import numpy as np

        if not self.__sklearn_is_fitted__():
            raise ValueError("this classifier is not fitted; call fit(texts, labels) first")
        listed, is_bounded = listed_texts(texts), self.threshold_ is not None
        if not listed:
            return np.zeros((0, len(self.classes_))), np.zeros(0) if is_bounded else None
        vectors = self._vectors(listed)
        probabilities = self._fitted.probabilities(vectors)
        return probabilities, self._fitted.nearness(vectors, probabilities) if is_bounded else None

    def score(self, texts: Iterable[str], labels: Iterable[str | int]) -> float:
        """Return the share of texts whose predicted label is right.

        Raises:
            ValueError, EncoderError: as `predict`.
        """
        predicted, expected = self.predict(texts).tolist(), list(labels)
        if not expected or len(predicted) != len(expected):
            raise ValueError(f"{len(predicted)} texts and {len(expected)} labels; give one label for each text")
        return sum(left == right for left, right in zip(predicted, expected, strict=True)) / len(expected)

    # --- files ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted classifier to a folder, with the relative path of its model rather than a copy.

        An earlier classifier in the folder is replaced as a whole.

        Raises:
            ValueError: before `fit`.
            TrainingError: if the folder has anything else.
        """
        from disent_core.classifier import write_classifier

        if not self.__sklearn_is_fitted__():
            raise ValueError("this classifier is not fitted; call fit(texts, labels) first")
        folder = expanded(folder)
        path, places = getattr(self.model_, "path", None), []
        if path is not None:
            path = Path(path).resolve()
            names = (name for name, place in shipped_models().items() if place.resolve() == path)
            places = [os.path.relpath(path, folder.resolve()), *names]
        settings = self.get_params() | {"C": float(self.C), "refused": float(self.refused)}
        del settings["model"]
        record = {"settings": settings, "model": {"places": places, **_identity(self.model_)}}
        write_classifier(folder, self._fitted, self._vectors(list(_PROBES)), record)

    @classmethod
    def load(cls, folder: str | Path, model: Any = None) -> "Classifier":
        """Load a classifier that `save` wrote.

        Args:
            folder: the folder that `save` wrote.
            model: as for `Classifier`; None: the model it was fitted on, at its place relative to the folder.

        Raises:
            TrainingError: if there is no classifier, or its model is missing or is a different one.
            DamagedError: if its files are not as they were written.
        """

        from disent_core.classifier import read_classifier, unit

        folder = expanded(folder)
        fitted, probe, record = read_classifier(folder)
        try:
            reference: Mapping[str, Any] = record["model"]
            fingerprint, seed, places = reference["fingerprint"], reference["seed"], [*map(str, reference["places"])]
            classifier = cls(model, **record["settings"])
        except (KeyError, TypeError) as error:
            problem = f"this classifier can't be read ({type(error).__name__}: {error})"
            raise DamagedError(located(folder, None, problem, "Fit and save it again")) from error
        if model is None:
            classifier.model = recorded_model(folder, places, places)
            if classifier.model is None:
                problem = "its model is not where it was" if places else "its model was not loaded from a file"
                raise TrainingError(located(folder, None, problem, "Name the model as model="))
        classifier.model_ = opened(classifier.model, seed)
        is_same = _identity(classifier.model_) == {"fingerprint": fingerprint, "seed": seed}
        if is_same and fingerprint is None:
            vectors = classifier._vectors(list(_PROBES))
            is_same = vectors.shape == probe.shape and bool(((unit(vectors) * unit(probe)).sum(axis=1) >= _SAME).all())
        if not is_same:
            remedy = "Name the model that it was fitted on as model=, or fit again"
            raise TrainingError(located(folder, None, "its model is not the one that it was fitted on", remedy))
        classifier._keep(fitted)
        return classifier

    # --- scikit-learn's conventions ---

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    def set_params(self, **params: Any) -> "Classifier":
        """Set parameters by name and return itself.

        Raises:
            ValueError: if there is no such parameter.
        """
        if unknown := params.keys() - _DEFAULTS.keys():
            raise ValueError(f"Classifier has no parameter {min(unknown)!r}; choose from {', '.join(_DEFAULTS)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> "Classifier":
        """Return an unfitted classifier that shares the model: a copy of the model would double the memory."""
        return type(self)(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    # --- inside ---

    def _keep(self, fitted: "Fitted") -> None:
        import numpy as np

        self._fitted = fitted
        self.threshold_ = fitted.threshold
        kind = object if isinstance(fitted.classes[0], str) else np.int64
        self.classes_ = np.array(fitted.classes, dtype=kind)

    def _check_parameters(self) -> None:
        if not (isinstance(self.C, Real) and 0 < self.C < float("inf")):
            raise ValueError(f"C is {self.C!r}; it must be a finite number above 0")
        if not (isinstance(self.refused, Real) and 0 < self.refused < 1):
            raise ValueError(f"refused is {self.refused!r}; it must be a share between 0 and 1")

    def _vectors(self, texts: list[str]) -> "np.ndarray":
        """Return the vectors of texts, float [texts, dim]."""
        import numpy as np

        encode: Callable[..., Any] = getattr(self.model_, "encode", self.model_)
        vectors = np.asarray(encode(texts) if self.embedding is None else encode(texts, self.embedding))
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype.kind != "f":
            problem = f"the model gave {vectors.dtype} {list(vectors.shape)} for {len(texts)} texts"
            raise EncoderError(f"{problem}; its encode must return a float array [texts, dim]")
        if (bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))).size:
            problem = f"the model gave vectors that are not finite for {bad.size} of {len(texts)} texts"
            raise EncoderError(f"{problem}, first {quoted(texts[int(bad[0])])}; leave them out")
        return vectors


_DEFAULTS: Mapping[str, Any] = {
    name: parameter.default for name, parameter in signature(Classifier.__init__).parameters.items() if name != "self"
}


def _classes(labels: Iterable[str | int], texts: int) -> "tuple[tuple[str | int, ...], np.ndarray]":
    """Return the sorted distinct labels, and for each text the index of its label."""
    import numpy as np

    listed = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if len(listed) != texts:
        raise ValueError(f"{texts} texts and {len(listed)} labels; give one label for each text")
    for number, label in enumerate(listed, 1):
        if type(label) not in (str, int) or type(label) is not type(listed[0]):
            raise ValueError(f"label {number} is {label!r}; labels must be all str or all int")
    classes = tuple(sorted(set(listed)))
    if len(classes) < 2:
        named = f"every text has the label {classes[0]!r}" if classes else "there are no texts"
        raise ValueError(f"{named}; give texts of at least two labels")
    numbers = {label: number for number, label in enumerate(classes)}
    return classes, np.array([numbers[label] for label in listed])


def _identity(model: Any) -> dict[str, Any]:
    return {"fingerprint": getattr(model, "fingerprint", None) or None, "seed": getattr(model, "seed", None)}
