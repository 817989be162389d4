"""Quality estimation: the published files, and broken ones."""

import pytest
from places import needs_corpus, real_corpus
from worlds import sentence_pair

from disent_core.corpora.formats.mlqe import pairs, read_pairs
from disent_core.errors import CorpusError

REAL = real_corpus("mlqe")
needs_real = needs_corpus(REAL)

HEADER = "index\toriginal\ttranslation\tscores\tmean\tz_scores\tz_mean\tmodel_scores"


def line(index=0, original='A "dog.', translation="Ein Hund.", mean="64.5", z_mean="-0.25"):
    return f"{index}\t{original}\t{translation}\t[60, 69]\t{mean}\t[0.1, -0.6]\t{z_mean}\t-0.5"


def written(path, *lines, header=HEADER):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [part if isinstance(part, bytes) else part.encode() for part in (header, *lines)]
    path.write_bytes(b"\n".join(content) + b"\n")
    return path


def corpus(tmp_path, *lines, **how):
    written(tmp_path / "en-de/test20.ende.df.short.tsv", *lines, **how)
    return tmp_path


def rows(path, pair="en-de"):
    return read_pairs(path, pair, corpus="toy").to_pylist()


def test_a_line_is_a_translation_with_its_standardised_and_its_plain_score(tmp_path):
    (row,) = rows(corpus(tmp_path, line(7)))
    assert row == sentence_pair("en-de", "test-7", 'A "dog.', "Ein Hund.", score=-0.25, mean_score=64.5)


@pytest.mark.parametrize(
    "name",
    [
        "direct-assessments/train/en-de-train/train.ende.df.short.tsv", "en-de/train.df.short.tsv",
        "train.ende.df.short.tsv", "train.en-de.tsv",
    ],
)  # fmt: skip
def test_the_file_or_folder_name_determines_pair_and_split(tmp_path, name):
    written(tmp_path / name, line())
    assert pairs(tmp_path) == ["en-de"]
    assert [row["split"] for row in rows(tmp_path)] == ["train"]


def test_splits_come_in_their_order_and_may_have_equal_indices(tmp_path):
    for split in ("test20", "dev", "train"):
        written(tmp_path / f"en-de/{split}.ende.df.short.tsv", line(0), line(1))
    assert [row["pair_id"] for row in rows(tmp_path)] == ["train-0", "train-1", "dev-0", "dev-1", "test-0", "test-1"]


@pytest.mark.parametrize(
    ("names", "first"), [(("test", "test20", "test21"), "test20"), (("test21", "test22"), "test21")]
)
def test_the_2020_test_set_is_preferred_then_the_earliest(tmp_path, names, first):
    for name in names:
        written(tmp_path / f"en-de/{name}.ende.tsv", line(original=name))
    assert [row["source"] for row in rows(tmp_path)] == [first]


def test_rows_without_an_index_are_numbered(tmp_path):
    path = written(tmp_path / "en-de/dev.tsv", "A\tB\t1\t2", "C\tD\t3\t4", header="original\ttranslation\tmean\tz_mean")
    assert [row["pair_id"] for row in rows(path.parents[1])] == ["dev-0", "dev-1"]


@pytest.mark.parametrize(
    ("bad", "ids", "fault"),
    [
        (line(9) + "\tmore", [], "a line whose number of columns differs from the header's"),
        (line(9, original=" "), [], "a row with an empty sentence is left out"),
        (line(0, original="B"), ["test-0-2"], "gets an id of its own"),
        (line(0), [], "a duplicate of an earlier row is left out"),
    ],
)
def test_an_unusable_line_is_skipped_or_repaired_and_logged(tmp_path, caplog, bad, ids, fault):
    assert [row["pair_id"] for row in rows(corpus(tmp_path, line(0), line(1), line(2), bad))][3:] == ids
    (message,) = caplog.messages
    assert fault in message
    assert message.endswith("(1 in this file)")


def test_a_pair_without_score_is_kept_without_one(tmp_path, caplog):
    (row,) = rows(corpus(tmp_path, line(0, z_mean="", mean="")))
    assert (row["score"], row["mean_score"]) == (None, None)
    assert ["a pair without a score is not measured" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (line(1)[:30], "expected 8 columns, found"),
        (line(1, z_mean="nan"), "z_mean is 'nan', not a number"),
        (line(1, original=" "), "the sentence is empty"),
        (line(1, translation="ein <mask>"), "reserved for masked words"),
        (line(0), "id '0' is already at test20.ende.df.short.tsv:2"),
        (b"1\tcaf\xe9", "not UTF-8"),
    ],
)
def test_a_broken_line_is_named_with_file_and_remedy(tmp_path, bad, message):
    with pytest.raises(CorpusError, match=rf"test20.ende.df.short.tsv:3: .*{message}.*(Correct this|Save)"):
        rows(corpus(tmp_path, line(), bad))


def test_files_without_scores_or_rows_are_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"tsv:1: missing columns: z_mean, mean\. It has index, original"):
        rows(corpus(tmp_path, "0\tA\tB", header="index\toriginal\ttranslation"))
    with pytest.raises(CorpusError, match="has only a header"):
        rows(corpus(tmp_path))


@needs_real
def test_every_published_pair_has_its_splits_whole():
    for pair in pairs(REAL):
        splits = read_pairs(REAL, pair, corpus="mlqe")["split"].to_pylist()
        assert {name: splits.count(name) for name in set(splits)} == {"train": 7_000, "dev": 1_000, "test": 1_000}
    assert {"en-de", "en-zh", "et-en", "ne-en"} <= set(pairs(REAL))
