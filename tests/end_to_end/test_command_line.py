"""Exit codes and messages of `disent`."""

import pytest

pytestmark = pytest.mark.end_to_end


def test_help_names_every_command(fresh):
    result = fresh.disent("--help")
    assert result.exit_code == 0
    for command in ("materialize", "status", "sql", "leaderboard", "report", "export-texts"):
        assert f" {command} " in result.stdout
    assert fresh.disent("texts", "--help").stdout.startswith("Usage: ")


def test_help_cuts_no_description(fresh):
    assert "..." not in fresh.disent("--help").stdout.partition("Commands:")[2]


def test_disent_alone_shows_where_it_works_and_what_to_run(fresh):
    result = fresh.disent()
    assert result.exit_code == 0
    assert f"Configuration: {fresh.config} " in result.stdout
    assert f"Results: {fresh.home} " in result.stdout
    assert "disent materialize " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("materialise",), "materialize"),
        (("leaderboard", "crosslingual"), "crosslingual_retrieval"),
        (("settings", "draem"), "dream"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_right_one(fresh, arguments, suggestion):
    result = fresh.disent(*arguments)
    assert result.exit_code == 2
    assert f"id you mean '{suggestion}'?" in result.stderr


def test_the_settings_of_a_name_of_the_configuration_are_what_it_sets_and_the_keys_of_its_method(fresh):
    shown = fresh.disent("settings", "fmda_softmax").stdout
    assert shown.startswith("`fmda_softmax` is `fmda` with `learning_rate = 0.001`")
    assert '`contrast = "softmax"`' in shown.splitlines()[0]
    assert "\n### `fmda`\n" in shown


@pytest.mark.parametrize("command", ["materialize", "status", "dev"])
def test_a_corpus_that_is_not_at_its_path_is_told_before_anything_runs(fresh, command):
    fresh.configure('path = "corpus"', 'path = "nowhere"')
    result = fresh.disent(command)
    assert result.exit_code == 2
    line = 1 + fresh.config.read_text().splitlines().index('path = "nowhere"')
    assert result.stderr.startswith(f"disent: {fresh.config}:{line}: corpora[0].path: there is no file or folder")
    assert not fresh.home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("bake",),
        ("materialize", "--partition"),
        ("materialize", "--partition", "xx"),
        ("materialize", "key:heads/none"),
        ("materialize", "group:("),
        ("materialize", "key:heads/*", "--partition", "en"),
        ("sql",),
        ("sql", "absent.sql"),
        ("sql", "select 1", "--format", "xml"),
        ("leaderboard", "bakery"),
        ("status", "--none"),
    ],
)
def test_a_mistake_in_the_call_exits_with_2(fresh, arguments):
    result = fresh.disent(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments", [("materialize", "key:heads/none"), ("materialize", "group:("), ("leaderboard", "bakery")]
)
def test_a_mistake_in_a_name_is_reported_in_one_line(fresh, arguments):
    result = fresh.disent(*arguments)
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("disent: ")


def test_an_unknown_task_is_reported_with_the_known_ones(fresh):
    assert "crosslingual_retrieval, template_retrieval" in fresh.disent("leaderboard", "bakery").stderr


def test_an_unknown_partition_is_reported_with_its_name(fresh):
    assert "'xx'" in fresh.disent("materialize", "--partition", "xx").stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layers = 1", "layer_count = 1", "layer_count: unknown key"),
        ("seeds = [0, 1]", 'seeds = "0"', "experiment.seeds"),
        ('"fmda_softmax"]', '"fmda_sofmax"]', "unknown method 'fmda_sofmax'"),
        ('pairs = ["en-de"', 'pairs = ["en-xx"', "'en-xx' is not a pair"),
        ("[experiment]", "[experiment", ""),
        ('"de-DE"', '"de-XX"', "'de-XX'"),
    ],
)
@pytest.mark.parametrize("command", ["materialize", "status"])
def test_a_mistake_in_the_configuration_exits_with_2_and_one_line_that_names_it(fresh, command, old, new, message):
    fresh.configure(old, new)
    result = fresh.disent(command)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith(f"disent: {fresh.config}")
    assert message in result.stderr


def test_a_missing_configuration_exits_with_2(fresh):
    fresh.config.unlink()
    result = fresh.disent("status")
    assert result.exit_code == 2
    assert str(fresh.config) in result.stderr


@pytest.mark.parametrize("arguments", [("sql", "select 1"), ("leaderboard",)])
def test_a_warehouse_that_is_not_there_exits_with_1_and_says_what_to_do(fresh, arguments):
    result = fresh.disent(*arguments)
    assert result.exit_code == 1
    assert "Run disent materialize" in result.stderr


def test_a_mistake_in_sql_exits_with_1_and_one_line(finished):
    result = finished.disent("sql", "select nothing from nowhere")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_a_failed_command_writes_nothing_where_results_go(fresh):
    fresh.configure("[experiment]", "[experiment")
    fresh.disent("materialize")
    assert not fresh.home.exists()


def test_one_partition_is_made_alone(fresh):
    fresh.materialize("group:corpora", "--partition", "ja")
    tables = {path.name for path in fresh.home.glob("tables/corpora/utterances/sample/*.parquet")}
    assert tables == {"ja.parquet"}


def test_a_step_that_fails_for_what_is_missing_is_told_with_the_command_that_makes_it(fresh):
    told = fresh.disent("materialize", "heads", "--partition", "en-de")
    assert told.exit_code == 1
    assert "and not selected; to refresh: disent materialize +heads --partition en-de\n" in told.stderr


def test_doctor_names_profile_and_shards_and_refuses_those_that_are_not(fresh, monkeypatch):
    assert fresh.disent("doctor").stdout.startswith("profile: local, shards: inline\nhome: ")
    monkeypatch.setenv("DISENT_SHARDS", "proceses:4")
    refused = fresh.disent("doctor")
    assert refused.exit_code == 2
    assert "must be one of inline, processes" in refused.stderr


def test_with_debug_every_line_of_the_library_is_shown(fresh):
    fresh.materialize("group:corpora", "--partition", "ja")
    assert "BLEU of" in fresh.disent("--debug", "materialize", "negatives", "--partition", "ja").stderr


def test_with_debug_a_failure_has_its_traceback(fresh):
    fresh.file("ja-JP").write_text("{\n", encoding="utf-8")
    asked = ("materialize", "corpora")  # several languages, so in worker processes
    assert "Traceback" not in fresh.disent(*asked).stderr
    shown = fresh.disent("--debug", *asked).stderr
    assert "in read_utterances" in shown
    assert shown.index("Traceback") < shown.index("failed: ")


def test_a_table_brings_along_what_its_step_makes_too(copied):
    assert copied.materialize("key:embeddings/tiny/tiny_states", "--partition", "ja")["up_to_date"] == 2
