"""A lineage whose results are in a bucket ends with the results of one in a folder, to the bit."""

import shutil

import pytest
from remote_projects import Fetched, RemoteProject

from disent_core.errors import CorpusError
from disent_core.export.checking import check_folder
from disent_core.storage.bucket import Bucket
from disent_core.storage.download import fetch
from disent_core.storage.results import sha256_of

import disturbed_runs as bench  # isort: skip - remote_projects says where it is
import rebuilds  # isort: skip


@pytest.fixture
def in_a_bucket(address, tmp_path):
    (tmp_path / "remote").mkdir()
    return RemoteProject(bench.new_lineage(tmp_path / "remote", bench.SMALLEST).folder, address)


def test_a_lineage_in_a_bucket_equals_one_in_a_folder(in_a_bucket, tmp_path):
    (tmp_path / "local").mkdir()
    local = bench.new_lineage(tmp_path / "local", bench.SMALLEST)
    assert local.materialize() == in_a_bucket.materialize()
    fetched = Fetched(in_a_bucket.folder, in_a_bucket.address)
    fetched.fetch()
    for kind in (rebuilds.tables, rebuilds.heads, rebuilds.embeddings, rebuilds.warehouse):
        assert kind(local.home)
        assert kind(local.home) == kind(fetched.home)
    other = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="other")
    assert list(other.materialize().values()) == [0, 21, 0, 0]
    assert list(other.home.glob("tables/evaluation/outcomes/**/*.parquet")) == []  # what nobody reads is not fetched
    assert other.disent("sql", "select count(*) from metrics").exit_code == 0
    third = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="third")  # which has nothing yet
    assert third.disent("export-texts", str(tmp_path / "texts.jsonl"), "--encoder", "tiny").exit_code == 0
    assert in_a_bucket.disent("gc", "--older", "0h").exit_code == 0
    assert list(in_a_bucket.materialize().values()) == [0, 21, 0, 0]


def test_a_kept_export_is_in_the_bucket_and_another_machine_fetches_it_whole(in_a_bucket):
    pytest.importorskip("sentence_transformers")
    in_a_bucket.configure("[experiment]", '[exports]\nheads = ["dream@tiny:en-de"]\n\n[experiment]')
    in_a_bucket.materialize()
    other = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="other")
    assert other.materialize("exports")["made"] == 0
    (mine, its) = (project.workspace.export("tiny", "dream", "en-de") for project in (in_a_bucket, other))
    assert mine != its
    assert {path.name: path.read_bytes() for path in its.iterdir() if path.is_file()} == {
        path.name: path.read_bytes() for path in mine.iterdir() if path.is_file()
    }
    check_folder(its)


def test_a_machine_builds_on_embeddings_of_another(in_a_bucket):
    in_a_bucket.materialize("+key:heads/tiny/tiny_training_data")
    other = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="other")
    assert other.materialize("key:heads/tiny/dream_head", "--partition", "en-de")["made"] == 1


@pytest.mark.parametrize("store", ["file", "s3"])
def test_a_machine_reads_the_newest_corpus_downloaded_by_another(in_a_bucket, store):
    other = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="other")
    published, was = f"{in_a_bucket.address}/corpora", 'path = "corpus"'
    archive = in_a_bucket.folder / "published.tar.gz"
    for made in (2, 1):
        shutil.make_archive(str(archive.with_suffix("").with_suffix("")), "gztar", in_a_bucket.folder / "corpus")
        Bucket(published).upload(archive, archive.name)
        url = {"file": archive.as_uri(), "s3": f"{published}/{archive.name}"}[store]
        is_now = f'url = "{url}"\nsha256 = "{sha256_of(archive)}"'
        in_a_bucket.configure(was, is_now)
        in_a_bucket.materialize("key:corpora/downloads")
        assert other.materialize("key:corpora/utterances")["made"] == made
        bench.edit(in_a_bucket)
        was = is_now


def test_a_missing_or_unexpected_archive_in_the_bucket_is_an_error(address, tmp_path):
    Bucket(address).create("corpus.zip", b"content")
    for name, known, problem in (
        ("none.zip", {}, "none.zip: there is no such object. Check the bucket and the key"),
        ("corpus.zip", {"size": 6}, "this is not the expected file: it has 7 bytes; the limit is 6"),
        ("corpus.zip", {"size": 8}, "this is not the expected file: it has 7 bytes, expected 8"),
        ("corpus.zip", {"sha256": "0" * 64}, "this is not the expected file: its SHA-256 is"),
    ):
        with pytest.raises(CorpusError, match=problem):
            fetch(f"{address}/{name}", tmp_path / name, **known)
        assert not (tmp_path / name).exists()
    assert fetch(f"{address}/corpus.zip", tmp_path / "corpus.zip", size=7).read_bytes() == b"content"
    with pytest.raises(CorpusError, match="there is no such object"):
        fetch("s3://nowhere/corpus.zip", tmp_path / "other.zip")


def test_doctor_and_gc_say_what_they_find(in_a_bucket):
    result = in_a_bucket.disent("doctor")
    assert result.exit_code == 0
    assert "of 16 writes at once, 1 created an object, 1 replaced a version" in result.stdout
    assert "0 objects would be deleted" in in_a_bucket.disent("gc", "--dry-run").stdout
    assert in_a_bucket.disent("gc", "--older", "soon").exit_code == 2


def test_a_bucket_of_another_configuration_is_refused_on_any_machine(in_a_bucket, address, tmp_path):
    from disent_assets.settings.results_folder import open_for_work

    open_for_work(in_a_bucket.environment)
    (tmp_path / "other").mkdir()
    other = RemoteProject(bench.new_lineage(tmp_path / "other", bench.CONFIG).folder, address)
    result = other.disent("status")
    assert result.exit_code == 2
    assert "belong to the configuration" in result.stderr


@pytest.mark.parametrize("lost", ["", ".manifest"])
def test_objects_deleted_from_the_bucket_are_missing_and_rebuilt(in_a_bucket, lost):
    in_a_bucket.materialize()
    bucket, whole = Bucket(in_a_bucket.address), rebuilds.warehouse(in_a_bucket.home)
    for of in ("embeddings/sentence_vectors/", "corpora/utterances/", "targets/", "evaluation/metrics/"):
        for stored in bucket.listed(f"tables/{of}"):
            if stored.key.endswith(".manifest") == bool(lost):
                bucket.delete(stored.key)
    other = RemoteProject(in_a_bucket.folder, in_a_bucket.address, machine="other")
    states = other.disent("status").stdout
    for name in ("embeddings/tiny/tiny_vectors [de]", "corpora/utterances [de]"):
        assert f"missing {name}  <- its files are gone" in states
    result = other.disent("materialize")
    assert result.exit_code == 0, result.stderr
    assert list(in_a_bucket.materialize().values()) == [0, 21, 0, 0]
    assert rebuilds.warehouse(other.home) == whole
