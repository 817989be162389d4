"""Exit codes and messages of `disent`."""

import re

import pytest

pytestmark = pytest.mark.end_to_end


def test_help_lists_every_command_with_untruncated_descriptions(fresh):
    result = fresh.disent("--help")
    assert result.exit_code == 0
    for command in ("materialize", "status", "sql", "leaderboard", "report", "export-texts"):
        assert f" {command} " in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]
    assert fresh.disent("texts", "--help").stdout.startswith("Usage: ")


def test_bare_disent_shows_paths_and_next_commands(fresh):
    result = fresh.disent()
    assert result.exit_code == 0
    assert f"Configuration: {fresh.config} " in result.stdout
    assert f"Results: {fresh.home} " in result.stdout
    assert "disent materialize " in result.stdout


def test_settings_of_a_configured_name_show_its_overrides_and_method_keys(fresh):
    shown = fresh.disent("settings", "fmda_softmax").stdout
    assert shown.startswith("`fmda_softmax` is `fmda` with `learning_rate = 0.001`")
    assert '`contrast = "softmax"`' in shown.splitlines()[0]
    assert "\n### `fmda`\n" in shown


def test_missing_corpora_and_configurations_are_reported_before_a_run(fresh):
    fresh.configure('path = "corpus"', 'path = "nowhere"')
    line = 1 + fresh.config.read_text().splitlines().index('path = "nowhere"')
    for command in ("materialize", "status", "dev"):
        result = fresh.disent(command)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"disent: {fresh.config}:{line}: corpora[0].path: no file or folder at ")
    assert not fresh.home.exists()
    fresh.configure('path = "nowhere"', 'path = "corpus"')
    text = fresh.config.read_text()
    fresh.config.write_text(f'{text}\n[targets.code_switching]\ndictionaries = "lists"\n')
    lists = fresh.config.parent / "lists"
    problem = f"targets.code_switching.dictionaries: no folder at {lists}; put the word lists there"
    assert f"{len(text.splitlines()) + 3}: {problem}" in fresh.disent("status").stderr
    fresh.config.unlink()
    result = fresh.disent("status")
    assert result.exit_code == 2
    assert str(fresh.config) in result.stderr


USAGE = "Usage: "
MISTAKES = {
    ("bake",): USAGE,
    ("materialise",): "Did you mean 'materialize'?",
    ("materialize", "--partition"): "requires an argument",
    ("materialize", "--partition", "xx"): "disent: .*'xx'",
    ("materialize", "key:heads/none"): "disent: ",
    ("materialize", "group:("): "disent: ",
    ("materialize", "key:heads/*", "--partition", "en"): "disent: ",
    ("sql",): USAGE,
    ("sql", "absent.sql"): "disent: ",
    ("sql", "select 1", "--format", "xml"): USAGE,
    ("leaderboard", "bakery"): "disent: .*crosslingual_retrieval, template_retrieval",
    ("leaderboard", "crosslingual"): "disent: .*did you mean 'crosslingual_retrieval'?",
    ("settings", "draem"): "disent: .*did you mean 'dream'?",
    ("status", "--none"): USAGE,
}


def test_a_usage_error_exits_with_2_and_a_misspelt_name_gets_a_suggestion(fresh):
    for arguments, message in MISTAKES.items():
        result = fresh.disent(*arguments)
        assert result.exit_code == 2, arguments
        assert "Traceback" not in result.output, arguments
        assert re.search(message, result.stderr), arguments
        assert not message.startswith("disent") or len(result.stderr.strip().splitlines()) == 1, arguments


def test_a_mistake_in_the_configuration_exits_with_2_and_one_line_that_names_it(fresh):
    for old, new, message in (
        ("layers = 1", "layer_count = 1", "layer_count: unknown key"),
        ("seeds = [0, 1]", 'seeds = "0"', "experiment.seeds"),
        ('"fmda_softmax"]', '"fmda_sofmax"]', "unknown method 'fmda_sofmax'"),
        ('pairs = ["en-de"', 'pairs = ["en-xx"', "'en-xx' is not a pair"),
        ("[experiment]", "[experiment", ""),
        ('"de-DE"', '"de-XX"', "'de-XX'"),
    ):
        fresh.configure(old, new)
        for command in ("materialize", "status"):
            result = fresh.disent(command)
            assert (result.exit_code, len(result.stderr.strip().splitlines())) == (2, 1)
            assert result.stderr.startswith(f"disent: {fresh.config}")
            assert message in result.stderr
        fresh.configure(new, old)
    assert not fresh.home.exists()


def test_a_missing_warehouse_exits_with_1_and_a_remedy(fresh):
    for arguments in (("sql", "select 1"), ("leaderboard",), ("report",)):
        result = fresh.disent(*arguments)
        assert result.exit_code == 1
        assert "Run disent materialize" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_single_partition_is_materialised_and_debug_shows_library_logs(fresh):
    fresh.materialize("group:corpora", "--partition", "ja")
    tables = {path.name for path in fresh.home.glob("tables/corpora/utterances/sample/*.parquet")}
    assert tables == {"ja.parquet"}
    fresh.materialize("group:corpora", "--partition", "ja")
    assert "BLEU of" in fresh.disent("--debug", "materialize", "negatives", "--partition", "ja").stderr


def test_doctor_shows_profile_and_shards_and_refuses_unknown_ones(fresh, monkeypatch):
    assert fresh.disent("doctor").stdout.startswith("profile: local, shards: inline\nhome: ")
    monkeypatch.setenv("DISENT_SHARDS", "proceses:4")
    refused = fresh.disent("doctor")
    assert refused.exit_code == 2
    assert "must be one of inline, processes" in refused.stderr


def test_with_debug_a_failure_has_its_traceback(fresh):
    fresh.file("ja-JP").write_text("{\n", encoding="utf-8")
    asked = ("materialize", "corpora")  # several languages, so in worker processes
    assert "Traceback" not in fresh.disent(*asked).stderr
    shown = fresh.disent("--debug", *asked).stderr
    assert "in read_utterances" in shown
    assert shown.index("Traceback") < shown.index("failed: ")


def test_selecting_a_table_selects_all_outputs_of_its_step(copied):
    assert copied.materialize("key:embeddings/tiny/tiny_states", "--partition", "ja")["up_to_date"] == 2
