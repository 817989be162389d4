"""The worked examples in the docstrings of losses are right, and every public loss has one."""

import doctest
import inspect

import pytest

from disent_core.losses import contrastive, similarity

MODULES = (contrastive, similarity)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_print_what_they_say(module):
    failed, attempted = doctest.testmod(module)
    assert attempted > 10
    assert failed == 0


def test_every_public_loss_has_an_example():
    losses = [
        loss
        for module in MODULES
        for name, loss in inspect.getmembers(module, inspect.isfunction)
        if loss.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert len(losses) > 20
    assert [loss.__name__ for loss in losses if ">>> " not in (loss.__doc__ or "")] == []
