"""Keep what is computed of embeddings that nobody changes: many problems of an evaluation search the same ones."""

import weakref
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from disent_core.evaluation.contract import Embedded, LateInteraction

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_alive: set[int] = set()
"""Addresses of the matrices that are shared, as long as they live."""
_results: dict[tuple[object, ...], Any] = {}
"""By function and arguments, of which a matrix counts by its address; an entry ends with the first of its matrices."""
_MATRICES = (np.ndarray, LateInteraction)


def share(matrix: Embedded) -> None:
    """Let `shared` functions keep their results of this matrix; from now on nobody may write to it."""
    if id(matrix) not in _alive and type(matrix).__weakrefoffset__:  # a class with slots may have no weak references
        _alive.add(id(matrix))
        weakref.finalize(matrix, _alive.discard, id(matrix))


def is_shared(*matrices: Embedded) -> bool:
    return all(id(matrix) in _alive for matrix in matrices)


def shared(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Compute a function of shared matrices once for as long as they live; of others at each call.

    A late interaction counts as a matrix. The result is one matrix or a tuple with matrices, which are shared as well.
    It must not have an argument in it: that would live for ever. A call with keywords is not kept.
    """
    return _kept(function, None)


def recent(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """As `shared`, but keep only the last `RECENT` results: for large ones."""
    return _kept(function, RECENT)


RECENT = 4
"""What the corrections for hubs of a pair of languages search in turns, both ways, and two results more."""


def _kept(function: Callable[_Parameters, _Result], most: int | None) -> Callable[_Parameters, _Result]:
    in_turn: deque[tuple[object, ...]] = deque()

    @wraps(function)
    def kept(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        matrices = [argument for argument in arguments if isinstance(argument, _MATRICES)]
        if options or not matrices or not is_shared(*matrices):
            return function(*arguments, **options)
        key = (function, *(id(value) if isinstance(value, _MATRICES) else value for value in arguments))
        if key not in _results:
            in_turn.append(key)
            if most is not None and len(in_turn) > most:
                _results.pop(in_turn.popleft(), None)
            result = _results[key] = function(*arguments, **options)
            for part in result if isinstance(result, tuple) else (result,):
                if isinstance(part, _MATRICES):
                    share(part)
            for matrix in matrices:
                weakref.finalize(matrix, _results.pop, key, None)
        return _results[key]

    return kept
