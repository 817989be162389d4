"""An encoder kind is a module and a line in the registry: nothing else of the library knows of it."""

import pytest
from projects import SCRATCH
from toy_kind import ToyConfig

from disent_core.encoders import ENCODER_KINDS, encoder_kind, name_of_kind
from disent_core.errors import ConfigError

pytestmark = pytest.mark.end_to_end


def test_a_kind_is_made_encodes_and_is_measured(copied, monkeypatch):
    monkeypatch.setitem(ENCODER_KINDS, "toy", "toy_kind:ToyConfig")
    copied.configure(SCRATCH, 'name = "letters"\nkind = "toy"\nletters = 6\n')
    copied.configure('["raw", "dream", "fmda", "fmda_softmax"]', '["raw", "dream"]')
    copied.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    assert "missing embeddings/letters/letters_encoder" in copied.disent("status").stdout
    first = copied.materialize()
    assert first["encoded"] > 0
    assert (copied.workspace.encoder("letters") / "letters.txt").is_file()
    assert copied.materialize() | {"up_to_date": 0} == {"made": 0, "up_to_date": 0, "encoded": 0, "steps": 0}
    assert copied.ask("select kind, settings from encoders") == [
        {"kind": "toy", "settings": '{"letters": 6, "name": "letters"}'}
    ]
    assert {row["method"] for row in copied.ask("select method from metrics")} == {"raw", "dream"}


def test_a_kind_needs_no_line_if_the_configuration_names_its_class():
    assert encoder_kind("toy_kind:ToyConfig") is ToyConfig
    assert name_of_kind(ToyConfig(name="letters")) == "toy_kind:ToyConfig"


def test_what_is_no_kind_is_refused_with_the_kinds_that_there_are(fresh):
    for kind, problem in (("tor", "choose one of huggingface, scratch"), ("toy_kind:count_letters", "name a subclass")):
        fresh.configure('kind = "scratch"', f'kind = "{kind}"')
        with pytest.raises(ConfigError, match=rf"disent.toml:\d+: encoders.0..kind: .*{problem}"):
            fresh.workspace  # noqa: B018 - reads the configuration
        fresh.configure(f'kind = "{kind}"', 'kind = "scratch"')
