"""`import disent` on a project that has run: what its heads embed, and what its tables hold."""

import re
import shutil

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import disent
from disent_assets.cli import main
from disent_core.errors import TableError, TrainingError
from disent_core.evaluation.contract import Texts
from disent_core.lineage.evaluation import embedder
from disent_core.lineage.heads import load_head

pytestmark = pytest.mark.end_to_end

NEW = ["wake me up at nine", "an utterance that no corpus has"]


def opened(project) -> disent.Run:
    return disent.open(project.config, home=project.home)


@pytest.fixture(scope="session")
def run(finished) -> disent.Run:
    return opened(finished)


def stored_texts(run: disent.Run, language: str = "en") -> list[str]:
    return run.table("utterances", "sample", language)["text"].to_list()


def measured(project, method: str, texts: Texts, seed: int | None):
    """What evaluation embeds."""
    workspace = project.workspace
    config = workspace.config.methods[method]
    return embedder(workspace, "tiny", config, load_head(workspace, "tiny", config, "en-de", "cpu"))(texts, seed)


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name])


# --- heads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "seeds"), [("raw", ()), ("dream", (0, 1)), ("fmda", (0, 1))])
def test_a_head_embeds_corpus_texts_bitwise_as_in_evaluation(run, finished, method, seeds):
    texts, head = stored_texts(run), run.head(method, encoder="tiny", pair="en-de")
    ours = head.embed(texts, language="en")
    assert_equal(ours, measured(finished, method, Texts.of("en", texts), 0 if seeds else None))
    assert (tuple(ours), head.seeds) == (head.embeddings, seeds)
    assert {(len(matrix), matrix.dtype) for matrix in ours.values()} == {(len(texts), np.dtype("float32"))}
    for seed in seeds:
        expected = measured(finished, method, Texts.of("en", texts), seed)
        assert_equal(head.embed(texts, language="en", seed=seed), expected)


def test_fresh_encoding_equals_stored_embeddings_bitwise_and_changes_no_result(run, copied):
    texts = stored_texts(run)
    shutil.rmtree(copied.home / "tables" / "embeddings")
    before = copied.results()
    now = opened(copied).head("fmda", pair="en-de").embed(texts, language="en")
    assert_equal(now, run.head("fmda", pair="en-de").embed(texts, language="en"))
    assert copied.results() == before


@pytest.mark.parametrize("method", ["raw", "fmda"])
def test_new_and_stored_texts_may_be_mixed_in_any_order(run, method):
    head = run.head(method, encoder="tiny", pair="en-de")
    known = stored_texts(run)[:2]
    texts = [NEW[0], known[1], NEW[1], known[0], NEW[0], known[1]]
    together = head.embed(texts, language="en")
    for name, matrix in together.items():
        alone = np.concatenate([head.embed([text], language="en")[name] for text in texts])
        np.testing.assert_array_equal(matrix, alone)


def test_heads_are_listed_by_the_names_that_open_them(run):
    names = {
        (method, "tiny", pair) for method in ("raw", "dream", "fmda", "fmda_softmax") for pair in ("en-de", "en-ja")
    }
    assert set(run.heads()) == names
    assert {run.head(*name).name for name in run.heads()} == names


def test_the_error_of_an_untrained_head_names_the_training_command(copied):
    copied.workspace.head("tiny", "dream", "en-de").unlink()
    run = opened(copied)
    assert ("dream", "tiny", "en-de") not in run.heads()
    with pytest.raises(TrainingError, match=r"heads/tiny/dream_head \[en-de\] has not been trained") as error:
        run.head("dream", pair="en-de")
    command = re.search(r"`disent materialize '(.+)'`", str(error.value))
    assert command is not None
    result = CliRunner().invoke(main, ["materialize", command[1]], env=copied.environment)
    assert result.exit_code == 0, result.output
    assert run.head("dream", pair="en-de").embed(NEW, language="en")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("draem",), r"unknown method 'draem' \(did you mean 'dream'"),
        (("dream", "huge"), "unknown encoder 'huge'; choose one of tiny"),
        (("dream", "tiny", "en-fr"), "unknown pair 'en-fr'.*en-de, en-ja"),
        (("dream",), "name the pair; choose one of en-de, en-ja"),
    ],
)
def test_the_error_of_an_unknown_head_lists_the_existing_ones(run, arguments, message):
    with pytest.raises(ValueError, match=message):
        run.head(*arguments)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["x"], {"language": "fr"}, "unknown language 'fr'.*en, de, ja"),
        (["x"], {"language": "en", "seed": 7}, r"not trained with seed 7; choose one of 0, 1"),
        ([None], {"language": "en"}, "text 1 is None"),
        ("x", {"language": "en"}, "must be a list"),
    ],
)
def test_unembeddable_texts_are_a_clear_error(run, texts, options, message):
    with pytest.raises(ValueError, match=message):
        run.head("dream", pair="en-de").embed(texts, **options)


def test_heads_of_other_settings_are_refused_token_methods_refuse_embed_and_embedding_methods_label(copied, run):
    copied.configure("[methods.dream]\nmax_epochs = 6", "[methods.dream]\nmax_epochs = 5")
    with pytest.raises(TrainingError, match="with other settings"):
        opened(copied).head("dream", pair="en-de")
    copied.configure('methods = ["raw",', 'methods = ["bertscore", "raw",')
    with pytest.raises(ValueError, match="bertscore compares texts by their tokens"):
        opened(copied).head("bertscore").embed(NEW, language="en")
    with pytest.raises(ValueError, match="does not tag; call encode"):
        run.head("dream", pair="en-de").label([["wake"]], language="en")


# --- tables -----------------------------------------------------------------------------------------------


def test_a_table_is_one_polars_frame_and_unknown_partitions_are_errors(run):
    utterances = run.table("utterances")
    assert isinstance(utterances, pl.DataFrame)
    assert set(utterances["language"]) == {"en", "de", "ja"}
    assert run.table("corpora", "utterances", "sample", "de").equals(utterances.filter(pl.col("language") == "de"))
    with pytest.raises(ValueError, match=r"'utterances/sample/fr' is not a partition of .*utterances/sample/en"):
        run.table("utterances", "sample", "fr")


def test_every_table_that_is_named_can_be_read(run):
    with pytest.raises(ValueError, match="choose one of") as error:
        run.table("nothing")
    names = str(error.value).split("choose one of ")[1].split(", ")
    assert len(names) > 10
    not_made = (
        "training_sets", "sentence_pairs", "code_switched_pairs", "parallel_mates", "settings_search", "mteb_results",
    )  # fmt: skip
    made = [name for name in names if name not in not_made]
    assert all(len(run.table(name)) for name in made)


def test_metrics_and_sql_are_those_of_the_warehouse(run):
    ours = run.metrics(task="template_retrieval", method="fmda")
    theirs = run.sql("from metrics where task = 'template_retrieval' and method = 'fmda'")
    assert len(ours) > 10
    assert sorted(ours["value"]) == sorted(theirs["value"])
    board = run.sql("from leaderboard")
    assert isinstance(board, pl.DataFrame)
    assert {"method", "task", "value"} <= set(board.columns)


def test_a_table_that_nothing_has_made_names_the_command_that_makes_it(fresh):
    with pytest.raises(TableError, match=r"does not exist yet\. Run `disent materialize`"):
        opened(fresh).table("metrics")
