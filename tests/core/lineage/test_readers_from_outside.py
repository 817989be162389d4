"""Rows of a reader that the library does not have: they are checked, and made again when the reader changes."""

import sys

import pytest
from worlds import corpus, encoder, experiment

from disent_core import corpora
from disent_core.errors import CorpusError
from disent_core.lineage.corpora import refresh_utterances, utterances_version
from disent_core.lineage.workspace import Workspace

READER = """\
from disent_core.storage.tables import rows_table
from disent_core.text import text_key

KIND, TRAINS, SHARES, PARALLEL, LOCALES = "utterances", True, None, "all", None
SPLITS = ["train", "dev", "test"]

def language_of(locale):
    return locale

def locales(path):
    return ["de", "en"]

def content_hash(path, name):
    return "0"

def read_utterances(path, locale, *, corpus, language):
    common = {"corpus": corpus, "language": language, "domain": None, "intent": None, "tokens": [], "slot_tags": []}
    return rows_table(
        [
            {"utterance_id": str(i), "split": split, "text": f"text {i}", "text_key": text_key(f"text {i}")} | common
            for i, split in enumerate(SPLITS)
        ],
        "utterances",
    )
"""
CONFIG = corpus("lines", "reader_of_a_user.reader", path=".") + encoder("tiny") + experiment()


@pytest.fixture
def workspace(tmp_path, monkeypatch, load):
    """A workspace whose corpus is read by a module of a user's, with these changes to its text."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = tmp_path / "reader_of_a_user"
    package.mkdir()

    def make(old="", new=""):
        assert old in READER
        (package / "reader.py").write_text(READER.replace(old, new) if old else READER, encoding="utf-8")
        forget()
        return Workspace(load(CONFIG), tmp_path / "home")

    def forget():
        corpora.format_module.cache_clear()
        for name in [name for name in sys.modules if name.startswith("reader_of_a_user")]:
            del sys.modules[name]

    yield make
    forget()


def test_a_bad_row_fails_naming_the_reader(workspace):
    message = (
        "^corpus lines, en, utterance '1': split 'validation' is not one of train, dev, test. "
        'Fix the reader "reader_of_a_user.reader"$'
    )
    with pytest.raises(CorpusError, match=message):
        refresh_utterances(workspace('"dev"', '"validation"'), "en")


def test_rows_of_an_unchanged_reader_are_kept_whether_or_not_it_names_its_first_version(workspace):
    refresh_utterances(workspace(), "en")
    assert refresh_utterances(workspace(), "en").is_reused
    refresh_utterances(workspace(), "en")
    assert refresh_utterances(workspace("SPLITS =", 'CODE_VERSION = "1"\nSPLITS ='), "en").is_reused


def test_rows_are_made_again_when_the_version_of_the_reader_is_raised(workspace):
    old = workspace()
    refresh_utterances(old, "en")
    old_version = utterances_version(old.config)
    new = workspace("SPLITS =", 'CODE_VERSION = "2"\nSPLITS =')
    assert utterances_version(new.config) != old_version
    assert not refresh_utterances(new, "en").is_reused
