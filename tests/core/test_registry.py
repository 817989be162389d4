"""Parts by name, of the library and of a user's package."""

import sys
from dataclasses import replace

import pytest

from disent_core import corpora, methods
from disent_core.errors import ConfigError
from disent_core.evaluation import task
from disent_core.methods.contract import Method
from disent_core.methods.dream import METHOD as DREAM
from disent_core.methods.trainer import trainer
from disent_core.registry import find, is_import


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a module of a user's, and gives its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    return write


IMPORTED = ("package.module", "module:PART", "package.module:PART")


@pytest.mark.parametrize(
    "name", [*IMPORTED, "module", "../module", "a:b:c", ":PART", "module:", ".module", "a b.c", "1.2"]
)
def test_only_names_with_a_dot_or_colon_are_import_paths(name):
    assert is_import(name) == (name in IMPORTED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import not_installed_anywhere", "there is no module 'not_installed_anywhere'"),
        ("def broken(:", r"can't be imported \(SyntaxError"),
        ("raise ValueError('no preset')", r"can't be imported \(ValueError: no preset"),
    ],
)
def test_a_module_that_can_not_be_imported_says_why(package, text, message):
    name = package("module_that_is_broken", text)
    with pytest.raises(ConfigError, match=f"^part '{name}:PART': .*{message}"):
        find("part", f"{name}:PART", {})


@pytest.mark.parametrize(
    ("find_part", "module", "attribute", "name"),
    [(methods.method, "methods.dream", "METHOD", "dream"), (task, "evaluation.tasks.sts", "TASK", "sts")],
)
def test_a_plugin_with_a_built_in_name_is_refused(package, find_part, module, attribute, name):
    text = f"import copy\nfrom disent_core.{module} import {attribute}\nPART = copy.copy({attribute})\n"
    with pytest.raises(ConfigError, match=f"name '{name}' is already the name of a built-in (method|task); rename it"):
        find_part(package(f"another_{name}", text) + ":PART")


def test_registry_names_take_precedence_over_modules(package):
    assert methods.method("disent_core.methods.dream:METHOD") is DREAM
    found = find("part", package("name_of_both", ""), {"name_of_both": "disent_core.text"})
    assert found.__name__ == "disent_core.text"


READER = "KIND, TRAINS, SHARES, PARALLEL, LOCALES = 'utterances', True, None, 'all', None\n" + "".join(
    f"def {name}(*_): ...\n" for name in ("content_hash", "language_of", "locales", "read_utterances")
)
HALF = "KIND, TRAINS, SHARES = 'bitext', True, None\ndef pairs(path): ...\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HALF, "a reader of bitext must have content_hash, read_pairs; see"),
        (READER.replace("'all'", "'al'"), "PARALLEL is 'al'; set it to one of all, some, none"),
    ],
)
def test_the_error_of_an_incomplete_reader_names_the_missing_part(package, text, message):
    with pytest.raises(ConfigError, match=message):
        corpora.format_module(package(f"reader_of_{len(text)}_letters", text))


def test_a_module_that_is_in_no_package_is_named_without_a_dot(package):
    assert corpora.format_module(package("reader_in_no_package", READER)).KIND == "utterances"


def test_a_folder_without_modules_is_not_a_plugin(tmp_path, package):
    package("reader_beside", "")
    (tmp_path / "folder_of_a_user").mkdir()
    with pytest.raises(ConfigError, match="unknown part 'folder_of_a_user'"):
        find("part", "folder_of_a_user", {})


@pytest.mark.parametrize(
    ("attribute", "reference"), [("", r"package\.module$"), ("PART", r"package\.module:ATTRIBUTE$")]
)
def test_an_unknown_name_is_refused_with_the_way_to_name_a_module(attribute, reference):
    with pytest.raises(ConfigError, match=f"unknown part 'nothing_of_this_name'; .* of your own as {reference}"):
        find("part", "nothing_of_this_name", {"one": "disent_core.text"}, attribute)


def test_the_head_of_a_method_is_imported_lazily(package):
    name = package("heads_of_a_user", "def head(*_): return 'a head'\n")
    method = replace(DREAM, name="mine", head=f"{name}:head")
    assert name not in sys.modules
    assert trainer(method).head(2, 2, None) == "a head"


def test_a_method_whose_head_or_trainer_is_missing_is_refused(package):
    method = replace(DREAM, name="mine", head=package("heads_of_another", "") + ":head")
    with pytest.raises(ConfigError, match="part of a method 'heads_of_another:head': heads_of_another has no 'head'"):
        trainer(method).head(2, 2, None)
    with pytest.raises(ValueError, match="method 'mine' has no trainer; make it an instance of a family of methods"):
        Method(name="mine", presets=DREAM.presets, embeddings=("meaning",))
