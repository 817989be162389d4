"""Two aligned files, Moses bitext and Tatoeba: every way to name them, the published ones, and broken ones."""

import pytest
from places import needs_corpus, real_corpus
from worlds import sentence_pair

from disent_core.corpora.formats.moses import MOSES, TATOEBA
from disent_core.corpora.languages import language_code
from disent_core.errors import AlignmentError, CorpusError
from disent_core.storage.tables import SCHEMAS

content_hash, pairs, read_pairs = MOSES.content_hash, MOSES.pairs, MOSES.read_pairs

REAL, REAL_TATOEBA = real_corpus("bitext"), real_corpus("tatoeba-v1")


def named(tmp_path, *names):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name.rpartition('.')[2]} 1\n")
    return tmp_path


def two(tmp_path, german="eine Katze\nein Hund\n"):
    (tmp_path / "en-de.en").write_text("a cat\na dog\n")
    (tmp_path / "en-de.de").write_bytes(german if isinstance(german, bytes) else german.encode())
    return tmp_path


def test_line_i_of_one_file_translates_line_i_of_the_other(tmp_path):
    table = read_pairs(two(tmp_path), "en-de", corpus="toy")
    assert table.schema == SCHEMAS["sentence_pairs"]
    assert table.to_pylist()[1] == sentence_pair("en-de", "2", "a dog", "ein Hund")


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("corpus.de-en.en", "corpus.de-en.de"), "de-en"),
        (("Europarl.v8.en-de.en", "Europarl.v8.en-de.de"), "en-de"),
        (("deep/er/eng-deu.eng", "deep/er/eng-deu.deu"), "en-de"),
        (("x.en-zh_TW.en", "x.en-zh_TW.zh_TW"), "en-zh-TW"),
        (("en-zh-TW.en", "en-zh-TW.zh-TW"), "en-zh-TW"),
        (("zh-TW-en.en", "zh-TW-en.zh-TW"), "zh-TW-en"),
        (("train.fr", "train.de"), "de-fr"),
        (("train-en-fr.fr", "train-en-fr.en"), "en-fr"),
        (("en-de.en", "en-de.de", "README.md", "x.json", "LICENSE", "en-de.ids"), "en-de"),
    ],
)
def test_a_pair_is_found_by_the_names_of_its_files_and_its_source_is_the_language_named_first(tmp_path, names, pair):
    path = named(tmp_path, *names)
    assert pairs(path) == [pair]
    (row,) = read_pairs(path, pair, corpus="toy").to_pylist()
    sides = [language_code(row[side].removesuffix(" 1")) for side in ("source", "target")]
    assert (row["pair"], "-".join(sides)) == (pair, pair)


def test_a_pair_may_be_asked_for_in_either_direction(tmp_path):
    there, back = (read_pairs(two(tmp_path), pair, corpus="toy") for pair in ("en-de", "de-en"))
    assert back["source_key"] == there["target_key"]
    assert back["target"] == there["source"]
    assert back["pair"].unique().to_pylist() == ["de-en"]


def test_the_hash_covers_the_files_of_the_pair_only(tmp_path):
    path = two(tmp_path)
    before = content_hash(path, "en-de")
    named(path, "en-fr.en", "en-fr.fr")
    assert content_hash(path, "en-de") == before != content_hash(path, "en-fr")
    for changed in (path / "en-de.en", path / "en-de.de"):
        changed.write_text("other\n")
        assert content_hash(path, "en-de") != before


def tatoeba(path, foreign="deu"):
    return named(path, f"tatoeba.{foreign}-eng.{foreign}", f"tatoeba.{foreign}-eng.eng")


def test_tatoeba_pairs_use_two_letter_codes_if_they_exist(tmp_path):
    codes = {"deu": "de-en", "cmn": "zh-en", "pes": "fa-en", "ber": "ber-en", "yue": "yue-en"}
    for foreign, pair in codes.items():
        assert TATOEBA.pairs(tatoeba(tmp_path / foreign, foreign)) == [pair]
    (row,) = TATOEBA.read_pairs(tmp_path / "deu", "de-en", corpus="toy").to_pylist()
    assert (row["source"], row["target"], row["split"]) == ("deu 1", "eng 1", "test")


def test_unrelated_files_beside_tatoeba_are_ignored(tmp_path):
    named(tatoeba(tmp_path / "v1").parent, "README.md", "other.en-de.en")
    assert TATOEBA.pairs(tmp_path) == ["de-en"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["README.md", "only.en"], r"no two aligned files.*en-de.en and en-de.de"),
        (["en-de.en"], r"en-de.de: this file does not exist"),
        (["en-fr.en", "en-fr.fr"], r"it has no pair 'en-de', only en-fr"),
        (
            ["A.en-de.en", "A.en-de.de", "B.en-de.en", "B.en-de.de"],
            r"A.en-de.en and B.en-de.en are both the pair en-de",
        ),
    ],
)
def test_missing_and_repeated_files_are_named(tmp_path, names, message):
    with pytest.raises(CorpusError, match=message):
        read_pairs(named(tmp_path, *names), "en-de", corpus="toy")


def test_the_error_of_an_empty_folder_shows_valid_file_names(tmp_path):
    for of_format, kept in ((MOSES, "en-de"), (TATOEBA, "de-en")):
        with pytest.raises(CorpusError) as refused:
            of_format.pairs(tmp_path)
        names = str(refused.value).partition("named like ")[2].partition(";")[0].split(" and ")
        folder = tmp_path / kept
        folder.mkdir()
        assert of_format.pairs(named(folder, *names)) == [kept]
        for name in names:
            (folder / name).unlink()


def test_two_codes_of_one_language_are_an_error(tmp_path):
    tatoeba(tmp_path, "ara")
    with pytest.raises(CorpusError, match="are both the pair ar-en"):
        TATOEBA.pairs(tatoeba(tmp_path, "arb"))


@pytest.mark.parametrize(
    ("german", "error", "message"),
    [
        ("eine Katze\n", AlignmentError, r"en-de.en:2: en-de.en has 2 lines and en-de.de has 1"),
        ("eine Katze\nein Hund\nein Ha", AlignmentError, r"en-de.de:3: "),
        ("eine Katze\n\n", AlignmentError, r"en-de.de:2: this line is blank"),
        (b"eine Katze\nein H\xfcnd\n", CorpusError, r"en-de.de:2: not UTF-8"),
        ("", CorpusError, r"en-de.de: this file is empty"),
        ("eine <mask>\nein Hund\n", CorpusError, r"en-de.de:1: .*reserved for masked words"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, german, error, message):
    with pytest.raises(error, match=message):
        read_pairs(two(tmp_path, german=german), "en-de", corpus="toy")


@needs_corpus(REAL)
def test_published_pairs_are_read_whole():
    of_size = sorted(pairs(REAL), key=lambda pair: (REAL / f"{pair}.en").stat().st_size)
    for pair in of_size[:3]:
        lines = (REAL / f"{pair}.en").read_bytes().count(b"\n")
        assert read_pairs(REAL, pair, corpus="bitext").num_rows == lines >= 5_183
    assert {"en-ro", "en-zh", "en-ja"} <= set(of_size)


@needs_corpus(REAL_TATOEBA)
def test_every_published_pair_of_tatoeba_has_its_thousand_sentences():
    rows = {pair: TATOEBA.read_pairs(REAL_TATOEBA, pair, corpus="t").num_rows for pair in TATOEBA.pairs(REAL_TATOEBA)}
    assert set(rows.values()) == {1_000}
    assert len(rows) == len(list(REAL_TATOEBA.glob("*.eng")))
    assert {"zh-en", "ar-en", "ja-en"} <= rows.keys()
