"""Hashed words as the only encoder of a project: methods that read texts alone run on it."""

import pytest
from projects import SCRATCH

import disent

pytestmark = pytest.mark.end_to_end


def test_raw_and_lexicon_are_made_and_measured_on_hashed_words_and_the_saved_head_embeds(fresh):
    fresh.configure(SCRATCH, 'name = "none"\nkind = "words"\ndim = 64\n')
    fresh.configure('["raw", "dream", "fmda", "fmda_softmax"]', '["raw", "lexicon"]')
    fresh.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    fresh.configure("[methods.dream]\nmax_epochs = 6", "[methods.lexicon]\nepochs = 1")
    first = fresh.materialize()
    assert first["encoded"] > 0
    assert fresh.materialize() | {"up_to_date": 0} == {"made": 0, "up_to_date": 0, "encoded": 0, "steps": 0}
    found = fresh.ask(
        "select distinct method, kind, encoder_saw from metrics join encoders using (encoder) order by all"
    )
    assert found == [{"method": name, "kind": "words", "encoder_saw": "nothing"} for name in ("lexicon", "raw")]
    head = disent.load(fresh.home / "heads" / "none" / "lexicon" / "en-de.safetensors", device="cpu")
    assert head.encode(["wake me up"], "template").shape == (1, 256)
