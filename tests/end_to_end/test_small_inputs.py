"""One language, or a handful of dev utterances: heads train, and pictures are drawn where there is enough to see."""

import pytest

pytestmark = pytest.mark.end_to_end


def only(project, method: str, pair: str) -> None:
    """Leave one method and one training set in the configuration."""
    project.configure('["raw", "dream", "fmda", "fmda_softmax"]', f'["{method}"]')
    project.configure('pairs = ["en-de", "en-ja"]', f'pairs = ["{pair}"]')


def is_drawn(project, method: str, pair: str) -> bool:
    return project.workspace.plot("tiny", method, pair, name="pca").exists()


def test_embeddings_of_one_language_are_drawn_from_its_utterances(fresh):
    only(fresh, "softmax", "en")
    fresh.configure("[methods.dream]", '[methods.softmax]\ntune = "head"\nepochs = 1\n\n[methods.dream]')
    fresh.materialize()
    assert is_drawn(fresh, "softmax", "en")


def test_three_dev_utterances_are_enough_for_a_head_but_not_for_a_picture(fresh):
    only(fresh, "dream", "en-de")
    dev = [row["id"] for row in fresh.utterances("en-US") if row["partition"] == "dev"]
    for locale in ("en-US", "de-DE", "ja-JP"):
        fresh.write(locale, [row for row in fresh.utterances(locale) if row["id"] not in dev[3:]])
    fresh.materialize()
    assert not is_drawn(fresh, "dream", "en-de")
    assert fresh.ask("select count(*) as n from leaderboard where method = 'dream'")[0]["n"]
