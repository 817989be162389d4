"""`disent results` on a run: tables are written from its warehouse, and rows of other code or settings are marked."""

import pytest

from disent_assets.results import EARLIER, blocks, write_results

pytestmark = pytest.mark.end_to_end
PAGE = """<!-- results disent.toml tiny crosslingual_retrieval: sample accuracy_at_1 -->
<!-- end -->
"""


@pytest.fixture
def written(copied):
    """Writes README.md of a finished project, and gives the rows of its table: method -> code."""

    def write() -> dict[str, str]:
        copied.write_lines("README.md", PAGE.splitlines())
        write_results(copied.folder, {"disent.toml": copied.home})
        table = blocks((copied.folder / "README.md").read_text(encoding="utf-8"))[0].table
        assert table.columns[-1] == "code"
        return {row[0]: row[-1] for row in table.rows}

    return write


def test_every_method_of_a_finished_run_has_a_row_of_the_present_code(written):
    codes = written()
    assert set(codes) == {"raw", "dream", "fmda", "fmda_softmax"}
    assert EARLIER not in codes.values()


def test_figures_are_those_of_the_warehouse(copied, written):
    written()
    (best,) = copied.ask(
        "select * from leaderboard where task = 'crosslingual_retrieval' and evaluated_on = 'en-de' and method = 'raw'"
    )
    figure = f"{best['value']:.3f} [{best['ci_low']:.3f}, {best['ci_high']:.3f}]"
    text = (copied.folder / "README.md").read_text(encoding="utf-8")
    assert f"| raw | sentence | {figure} |" in text


def test_a_method_that_has_new_settings_since_it_ran_is_marked(copied, written):
    copied.configure("[methods.dream]\nmax_epochs = 6", "[methods.dream]\nmax_epochs = 7")
    assert [method for method, code in written().items() if code == EARLIER] == ["dream"]


def test_every_method_is_marked_if_it_was_measured_with_other_settings(copied, written):
    copied.configure("bootstrap_samples = 100", "bootstrap_samples = 101")
    assert set(written().values()) == {EARLIER}


def test_a_warehouse_whose_head_is_gone_is_of_earlier_code(copied, written):
    for path in (copied.home / "heads" / "tiny" / "dream").glob("en-de.safetensors*"):
        path.unlink()
    assert [method for method, code in written().items() if code == EARLIER] == ["dream"]
