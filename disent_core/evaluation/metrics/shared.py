"""Cache results computed from immutable embeddings: many problems of an evaluation search the same embeddings."""

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
"""Addresses of shared matrices that are alive."""
_results: dict[tuple[object, ...], Any] = {}
"""Results by function and arguments (matrices by address); an entry is dropped when one of its matrices dies."""
_MATRICES = (np.ndarray, LateInteraction)


def share(matrix: Embedded) -> None:
    """Let `shared` functions cache their results for this matrix; from now on nothing may write to it."""
    if id(matrix) not in _alive and type(matrix).__weakrefoffset__:  # a class with slots may lack weak references
        _alive.add(id(matrix))
        weakref.finalize(matrix, _alive.discard, id(matrix))


def is_shared(*matrices: Embedded) -> bool:
    return all(id(matrix) in _alive for matrix in matrices)


def shared(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Compute a function of shared matrices once while they live, and of other matrices at each call.

    A late interaction counts as a matrix. The result is one matrix or a tuple with matrices, which are shared as well.
    It must not contain an argument, which would then live for ever. Calls with keywords are not cached.
    """
    return _kept(function, None)


def recent(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Like `shared`, but keep only the last `RECENT` results, for large results."""
    return _kept(function, RECENT)


RECENT = 4
"""Enough for the alternating searches of a language pair's hubness corrections in both directions, plus two."""


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
