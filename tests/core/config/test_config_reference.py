"""The pages of all settings keys match the settings classes."""

import re
from dataclasses import fields

import pytest
from places import PROJECT

from disent_core import methods
from disent_core.config.reference import method_reference, reference
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.errors import ConfigError

PAGE = PROJECT / "docs" / "configuration.md"


def test_the_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: disent settings > docs/configuration.md"


def test_every_key_and_preset_of_a_method_is_documented():
    for name in methods.METHODS:
        page, presets = method_reference(name), methods.method(name).presets
        assert [field.name for field in fields(presets["paper"]) if f"\n| `{field.name}` | " not in page] == []
        for shown in (page, reference()):
            assert [preset for preset in presets if f"- `{name}`, preset `{preset}`: " not in shown] == []
    assert '- `emu_parallel`, preset `head`: `tune = "head"`, `adversary = "translation"`' in reference()


def test_the_page_shows_every_key_of_a_method_in_its_section_or_in_one_that_it_names():
    sections = {part.partition("\n")[0]: part for part in reference().split("\n### ")}
    for name in methods.METHODS:
        section = next(part for title, part in sections.items() if f"`{name}`" in title.split(", "))
        shared = re.findall(r"`(\w+)`", "".join(re.findall(r"^And the keys of .*$", section, re.MULTILINE)))
        shown = section + "".join(part for title, part in sections.items() if {f"`{key}`" for key in shared} & {title})
        shown += "".join(re.findall(r"^To repeat the code of papers .*$", shown, re.MULTILINE)).replace("`", "\n| `")
        keys = [field.name for field in fields(type(methods.method(name).presets["paper"]))]
        assert [f"{name}.{key}" for key in keys if f"\n| `{key}" not in shown] == []


def test_every_key_has_a_meaning_and_nothing_but_words_stands_for_a_type():
    rows = "\n".join([reference(), *map(method_reference, methods.METHODS)]).splitlines()
    assert [row for row in rows if row.startswith("| `") and not row.split(" | ")[-1].strip(" |")] == []
    assert [row for row in rows if "<class" in row or "typing." in row] == []


def test_every_encoder_kind_is_documented():
    for kind in ENCODER_KINDS:
        settings = encoder_kind(kind)
        _, _, rest_of_page = reference().partition(f'## `[[encoders]], kind = "{kind}"`')
        section = rest_of_page.partition("\n## ")[0]
        assert [field.name for field in fields(settings) if f"| `{field.name}` | " not in section] == []


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="unknown method 'drem'"):
        method_reference("drem")
