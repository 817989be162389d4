"""STS 2017: names of tracks and of the extension, columns in either order, broken files."""

import pytest
from places import needs_corpus, real_corpus

from disent_core.corpora.formats.sts import PUBLISHED_PAIRS, content_hash, pairs, read_pairs
from disent_core.errors import AlignmentError, CorpusError

REAL = real_corpus("sts2017")
needs_real = needs_corpus(REAL)

SENTENCES = {
    "ar": ("رجل يقرأ كتابا", "امرأة في السوق"),
    "de": ("Ein Mann liest ein Buch.", "Eine Frau auf dem Markt."),
    "en": ("A man is reading the book.", "A woman at the market."),
    "es": ("Un hombre lee un libro.", "Una mujer en el mercado."),
    "tr": ("Bir adam kitap okuyor.", "Pazarda bir kadın."),
    "zh-TW": ("男人在看書", "市場上的女人"),
}


def track(tmp_path, name, *columns, gold="2.5\n0\n", end="\n"):
    rows = zip(*(SENTENCES[column] for column in columns), strict=True)
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / f"STS.input.{name}.txt").write_text("".join("\t".join(row) + end for row in rows))
    (tmp_path / f"STS.gs.{name}.txt").write_text(gold)
    return tmp_path


def rows(path, pair):
    return read_pairs(path, pair, corpus="toy").to_pylist()


def test_a_line_is_a_pair_with_its_gold_similarity_and_further_columns_are_ignored(tmp_path):
    first, second = rows(track(tmp_path, "track5.en-en", "en", "en", end="\tsource\tmore\n"), "en-en")
    assert (first["source"], first["score"], first["mean_score"]) == (SENTENCES["en"][0], 2.5, None)
    assert (second["pair_id"], second["split"], second["score"]) == ("2", "test", 0.0)


@pytest.mark.parametrize(
    ("name", "columns", "pair"),
    [
        ("track1.ar-ar", ("ar", "ar"), "ar-ar"), ("track2.ar-en", ("ar", "en"), "en-ar"),
        ("track4a.es-en", ("en", "es"), "es-en"), ("track6.tr-en", ("en", "tr"), "en-tr"),
        ("track6.tr-en", ("tr", "en"), "en-tr"), ("en-zh-TW", ("zh-TW", "en"), "en-zh-TW"),
        ("es-de", ("es", "de"), "es-de"),
    ],
)  # fmt: skip
def test_the_source_is_in_the_first_language_of_the_published_name(tmp_path, name, columns, pair):
    path = track(tmp_path, name, *columns)
    source = next(language for language in sorted(SENTENCES) if pair.startswith(f"{language}-"))
    assert pairs(path) == [pair]
    assert [row["source"] for row in rows(path, pair)] == list(SENTENCES[source])


def test_a_pair_may_be_asked_for_in_either_direction(tmp_path):
    path = track(tmp_path, "track2.ar-en", "en", "ar")
    there, back = rows(path, "en-ar"), rows(path, "ar-en")
    assert [row["source_key"] for row in there] == [row["target_key"] for row in back]
    assert back[0]["pair"] == "ar-en"


def test_the_extension_may_have_the_similarity_beside_it(tmp_path):
    (tmp_path / "STS.nl-en.txt").write_text("Een hond.\tA dog.\n")
    (tmp_path / "STS.gs.nl-en.txt").write_text("3\n")
    assert [row["score"] for row in rows(tmp_path, "nl-en")] == [3.0]


def test_two_tracks_of_one_pair_are_both_read_and_the_first_is_the_test_set(tmp_path, caplog):
    track(tmp_path, "track4b.es-en", "en", "es", gold="1\n1\n")
    path = track(tmp_path, "track4a.es-en", "es", "en")
    read = [(row["pair_id"], row["split"], row["score"], row["source"]) for row in rows(path, "es-en")]
    assert read == [
        ("1", "test", 2.5, SENTENCES["es"][0]), ("2", "test", 0.0, SENTENCES["es"][1]),
        ("4b-1", "dev", 1.0, SENTENCES["es"][0]), ("4b-2", "dev", 1.0, SENTENCES["es"][1]),
    ]  # fmt: skip
    (message,) = caplog.messages
    assert "STS.input.track4b.es-en.txt:1: this track is the split dev of es-en" in message


def test_a_duplicate_track_is_read_once_and_logged(tmp_path, caplog):
    track(tmp_path / "copy", "track4a.es-en", "es", "en", gold="1\n1\n")
    path = track(tmp_path, "track4a.es-en", "es", "en")
    assert [row["score"] for row in rows(path, "es-en")] == [2.5, 0.0]
    assert ["this file is left out, because STS.input" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize("gold", ["4\n", "4\n\n", "4"])
def test_pairs_without_gold_similarity_have_no_score_and_are_logged(tmp_path, caplog, gold):
    path = track(tmp_path, "track6.tr-en", "en", "tr", gold=gold)
    assert [row["score"] for row in rows(path, "en-tr")] == [4.0, None]
    (message,) = caplog.messages
    assert message.endswith("STS.gs.track6.tr-en.txt:2: a pair without a similarity is not measured (1 in this file)")


def test_a_line_without_two_sentences_is_left_out_and_the_others_keep_their_ids(tmp_path, caplog):
    (tmp_path / "STS.en-de.txt").write_text("A dog.\tEin Hund.\t4.8\nA cat.\nA cat.\tEin Haus.\t0.2\n")
    assert [(row["pair_id"], row["score"]) for row in rows(tmp_path, "en-de")] == [("1", 4.8), ("3", 0.2)]
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "a pair without a similarity is not measured (1 in this file)",
        "a line without two sentences is left out (1 in this file)",
    ]


def test_the_hash_covers_the_similarities_of_both_tracks(tmp_path):
    track(tmp_path, "track4a.es-en", "es", "en")
    golds = ("1\n1\n", "1\n2\n")
    assert len({content_hash(track(tmp_path, "track4b.es-en", "es", "en", gold=gold), "es-en") for gold in golds}) == 2


def test_a_missing_file_of_similarities_is_named(tmp_path):
    path = track(tmp_path, "track5.en-en", "en", "en")
    (path / "STS.gs.track5.en-en.txt").unlink()
    with pytest.raises(CorpusError, match=r"STS.gs.track5.en-en.txt, are neither beside it nor .* Unpack both arch"):
        rows(path, "en-en")


def unpacked(tmp_path):
    """The two archives of the task as they unpack, with what else lies in them."""
    sentences, gold = tmp_path / "STS2017.eval.v1.1", tmp_path / "STS2017.gs"
    for name in ("track1.ar-ar", "track6.tr-en"):
        track(sentences, name, *name.split(".")[1].split("-"), gold="2\n1.5\n")
        gold.mkdir(exist_ok=True)
        (sentences / f"STS.gs.{name}.txt").rename(gold / f"STS.gs.{name}.txt")
    (sentences / "README.txt").write_text("read me\n")
    return sentences, gold


def test_the_archives_as_they_unpack_are_read_from_either_folder_and_their_parent(tmp_path):
    for path in (tmp_path, *unpacked(tmp_path)):
        assert pairs(path) == ["ar-ar", "en-tr"]
        assert [row["score"] for row in rows(path, "en-tr")] == [2, 1.5]
        assert content_hash(path, "en-tr") == content_hash(tmp_path, "en-tr")


def test_the_error_of_missing_sentences_says_what_to_unpack(tmp_path):
    sentences, gold = unpacked(tmp_path)
    sentences.rename(tmp_path / "elsewhere")
    with pytest.raises(CorpusError, match=r"STS2017.gs: it has gold similarities, but no sentences.* Unpack both arch"):
        pairs(gold)


def test_columns_in_other_scripts_than_named_are_an_error(tmp_path):
    path = track(tmp_path, "track2.ar-en", "ar", "ar")
    with pytest.raises(CorpusError, match=r"most rows are in arabic and arabic script, which does not fit en and ar"):
        rows(path, "en-ar")


@pytest.mark.parametrize(
    ("gold", "error", "message"),
    [
        ("1\n2\n3\n", AlignmentError, r"STS.gs.en-de.txt:3: .*has 2 lines and .* this line has no partner"),
        ("\n\n", CorpusError, r"STS.gs.en-de.txt:1: no pair of sentences has a similarity"),
        *((f"1\n{odd}\n", CorpusError, r"STS.gs.en-de.txt:2: the similarity .* is not a number from 0 to 5")
          for odd in ("five", "5.1", "-0.1", "nan")),
    ],
)  # fmt: skip
def test_a_broken_file_of_similarities_is_named(tmp_path, gold, error, message):
    with pytest.raises(error, match=message):
        rows(track(tmp_path, "en-de", "en", "de", gold=gold), "en-de")


@pytest.mark.parametrize(
    ("line", "message"),
    [("A dog.", "found one column"), ("A dog.\t \t1", "the sentence is empty"), ("A <mask>\tb\t1", "masked words"),
     ("A dog.\tEin Hund.\tx", "the similarity 'x' is not")],
)  # fmt: skip
def test_a_broken_line_is_named(tmp_path, line, message):
    (tmp_path / "STS.en-de.txt").write_text(f"A dog.\tEin Hund.\t4.8\n{line}\n")
    with pytest.raises(CorpusError, match=rf"STS.en-de.txt:2: .*{message}.*Correct this line"):
        rows(tmp_path, "en-de")


@needs_real
def test_every_published_track_has_its_250_pairs():
    published = pairs(REAL)
    assert {"ar-ar", "en-ar", "en-en", "es-es"} <= set(published)
    for pair in set(published) & set(PUBLISHED_PAIRS):
        table = read_pairs(REAL, pair, corpus="sts2017")
        assert table.num_rows == 250
        assert 0 <= min(table["score"].to_pylist()) < max(table["score"].to_pylist()) <= 5


@needs_real
def test_the_published_arabic_english_track_has_english_sources():
    table = read_pairs(REAL, "en-ar", corpus="sts2017")
    assert sum(text.isascii() for text in table["source"].to_pylist()) > 240
    assert not any(text.isascii() for text in table["target"].to_pylist())
