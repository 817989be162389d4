"""The Tatoeba test sets: the published files, and broken ones."""

import pytest
from places import needs_corpus, real_corpus

from disent_core.corpora import pair_reader
from disent_core.corpora.contract import PairReader
from disent_core.corpora.formats.tatoeba import content_hash, pairs, read_pairs
from disent_core.errors import AlignmentError, CorpusError

REAL = real_corpus("tatoeba-v1")
needs_real = needs_corpus(REAL)


def written(path, foreign="deu", texts="Hallo!\nJa.\n", english="Hello!\nYes.\n"):
    path.mkdir(exist_ok=True)
    (path / f"tatoeba.{foreign}-eng.{foreign}").write_bytes(texts if isinstance(texts, bytes) else texts.encode())
    (path / f"tatoeba.{foreign}-eng.eng").write_text(english)
    return path


def test_a_pair_has_its_two_letter_codes_and_reads_source_target(tmp_path):
    table = read_pairs(written(tmp_path), "de-en", corpus="toy")
    assert pairs(tmp_path) == ["de-en"]
    assert table.select(["pair", "pair_id", "split", "source", "target"]).to_pylist() == [
        {"pair": "de-en", "pair_id": "1", "split": "test", "source": "Hallo!", "target": "Hello!"},
        {"pair": "de-en", "pair_id": "2", "split": "test", "source": "Ja.", "target": "Yes."},
    ]


def test_the_module_is_a_reader_of_pairs():
    assert isinstance(pair_reader("tatoeba"), PairReader)


@pytest.mark.parametrize(
    ("foreign", "pair"), [("cmn", "zh-en"), ("pes", "fa-en"), ("ber", "ber-en"), ("yue", "yue-en")]
)
def test_languages_without_two_letters_keep_their_code(tmp_path, foreign, pair):
    assert pairs(written(tmp_path, foreign)) == [pair]


def test_folders_around_the_files_and_other_files_make_no_difference(tmp_path):
    written(tmp_path / "v1")
    (tmp_path / "README.md").write_text("# about")
    (tmp_path / "other.en-de.en").write_text("no test set\n")
    assert pairs(tmp_path) == ["de-en"]


def test_the_hash_is_that_of_the_pair_alone(tmp_path):
    before = content_hash(written(tmp_path), "de-en")
    written(tmp_path, "fra")
    assert content_hash(tmp_path, "de-en") == before
    written(tmp_path, english="Hello!\nYes!\n")
    assert content_hash(tmp_path, "de-en") != before


def test_an_absent_pair_lists_those_that_are_there(tmp_path):
    with pytest.raises(CorpusError, match=r"'fr-en' is not in it. It has de-en"):
        read_pairs(written(tmp_path), "fr-en", corpus="toy")


def test_two_codes_of_one_language_are_an_error(tmp_path):
    written(tmp_path, "ara")
    with pytest.raises(CorpusError, match="are both the pair ar-en"):
        pairs(written(tmp_path, "arb"))


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("Hallo!\n", AlignmentError, r"tatoeba.deu-eng.eng:2: .*has no partner"),
        ("Hallo!\n\n", AlignmentError, r"tatoeba.deu-eng.deu:2: this line is blank"),
        (b"Hallo!\nJ\xe4\n", CorpusError, r"tatoeba.deu-eng.deu:2: not UTF-8"),
        ("", CorpusError, r"tatoeba.deu-eng.deu: this file is empty"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, texts, error, message):
    with pytest.raises(error, match=message):
        read_pairs(written(tmp_path, texts=texts), "de-en", corpus="toy")


def test_a_missing_folder_or_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match="this folder does not exist"):
        pairs(tmp_path / "nowhere")
    (written(tmp_path) / "tatoeba.deu-eng.eng").unlink()
    with pytest.raises(CorpusError, match=r"tatoeba.deu-eng.eng: this file does not exist"):
        read_pairs(tmp_path, "de-en", corpus="toy")


@needs_real
def test_every_published_pair_has_its_thousand_sentences():
    rows = {pair: read_pairs(REAL, pair, corpus="tatoeba").num_rows for pair in pairs(REAL)}
    assert set(rows.values()) == {1_000}
    assert len(rows) == len(list(REAL.glob("*.eng")))
    assert {"zh-en", "ar-en", "ja-en"} <= rows.keys()
