"""An encoder that all tests of taggers read, and none changes."""

import pytest
from slot_sentences import tiny_bert

from disent_core.encoders.contract import EncoderFiles


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> EncoderFiles:
    return tiny_bert(tmp_path_factory.mktemp("bert"))
