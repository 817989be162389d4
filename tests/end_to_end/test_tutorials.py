"""The tutorials run as they stand on their pages, one after another in one folder, as a reader would do it."""

import pytest
from tutorials import PAGES, Reader, missing

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader who has finished the first tutorial, on which the others build."""
    with pytest.MonkeyPatch.context() as patch:
        reader = Reader(tmp_path_factory.mktemp("tutorials"), patch)
        reader.read("corpus.md")
        yield reader


def test_a_corpus_of_ones_own_is_read_trained_on_and_compared(reader):
    assert (reader.folder / "data" / "heads" / "tiny" / "facet" / "en-nl.safetensors").is_file()


@pytest.mark.parametrize("page", sorted({path.name for path in PAGES.glob("*.md")} - {"corpus.md", "shapes.md"}))
def test_the_other_tutorials_run_on_what_the_first_has_made(reader, page):
    reader.read(page)


def test_what_a_command_did_not_print_is_seen():
    assert missing("facet  80 [55, 93]\nraw", "facet 7 [5,  9.5]\nraws") == ["raw"]
    assert missing("facet  80 [55, 93]", "\nfacet 7    [5, 9.5]") == []
