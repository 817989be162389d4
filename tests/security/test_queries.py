"""`disent sql` is read-only: it changes nothing, and reaches neither files nor the network."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import duckdb
import pytest
from click.testing import CliRunner

from disent.query import query
from disent_assets.cli import main
from disent_core.errors import DisentError

module = import_module("disent.query")  # `disent.query` itself may be the function


@pytest.fixture
def warehouse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("create table metrics as select range as n from range(100)")
    return path


ATTACKS = {
    "write a table": "create table mine as select 1",
    "write rows": "insert into metrics values (1)",
    "write in an expression": "with new as (insert into metrics values (1) returning *) select * from new",
    "drop after a question": "select 1; drop table metrics",
    "make a temporary table": "create temp table t as select 1; select * from t",
    "make a macro": "create macro memory.main.f(x) as x; select 1",
    "copy out": "copy metrics to 'stolen.csv'",
    "copy over the warehouse": "copy (select 1) to '{path}'",
    "copy into the log of the warehouse": "copy (select 1) to '{path}.wal'",
    "copy under explain": "explain analyze copy metrics to 'stolen.csv'",
    "export": "export database 'stolen'",
    "import": "import database 'stolen'",
    "write a pivot": "create table mine as (pivot metrics on n using count(*))",
    "copy a pivot": "copy (pivot metrics on n using count(*)) to '{path}.wal'",
    "write under a pivot": "with p as (pivot metrics on n using count(*)) insert into metrics select 1 from p",
    "attach another": "attach 'other.duckdb'",
    "attach in memory": "attach ':memory:' as other; select 1",
    "attach the warehouse again": "use memory; detach warehouse; attach '{path}' as w; create table w.t as select 1",
    "detach": "use memory; detach warehouse; select 1",
    "install": "install httpfs",
    "load": "load httpfs",
    "set": "set enable_external_access = true",
    "set and ask": "set memory_limit = '1TB'; select 1",
    "unlock": "set lock_configuration = false",
    "reset": "reset lock_configuration",
    "pragma": "pragma database_list",
    "profile to a file": "pragma profiling_output = 'p.json'; select 1",
    "log to a file": "call enable_logging(storage = 'file', storage_path = 'log')",
    "secret": "create secret s (type http, bearer_token 'x')",
    "prepare": "prepare p as select 1; execute p",
    "checkpoint": "force checkpoint",
    "read text": "select * from read_text('/etc/hostname')",
    "read bytes": "select * from read_blob('/etc/hostname')",
    "read CSV": "select * from read_csv('/etc/passwd')",
    "read JSON": "select * from read_json('/etc/passwd')",
    "read Parquet": "select * from read_parquet('/etc/passwd')",
    "read by name": "select * from '/etc/passwd.csv'",
    "read metadata": "select * from parquet_metadata('/etc/passwd')",
    "sniff": "select * from sniff_csv('/etc/passwd')",
    "list files": "select * from glob('/etc/*')",
    "read by a question in a question": "select * from query('select * from read_text(''/etc/hostname'')')",
    "environment": "select getenv('HOME')",
    "network": "select * from read_csv('http://127.0.0.1:1/x.csv')",
    "network by name": "select * from 'https://127.0.0.1:1/x.parquet'",
    "variables of this program": "select * from ATTACKS",
    "secrets": "select * from duckdb_secrets()",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_malicious_query_is_refused_and_writes_no_file(warehouse, attack):
    before = warehouse.read_bytes()
    with pytest.raises(DisentError, match="query: ") as caught:
        query(warehouse, ATTACKS[attack].format(path=str(warehouse).replace("'", "''")))
    assert "\n" not in str(caught.value)
    assert warehouse.read_bytes() == before
    assert [path.name for path in warehouse.parent.iterdir()] == [warehouse.name]


@pytest.mark.parametrize(
    "sql",
    ["select 1", "from metrics", "pivot metrics on n % 2 using count(*)",
     "-- of all\nfrom (pivot metrics on n % 2 using count(*))", "with a as (select 1) from a", "values (1)",
     "table metrics", "describe metrics", "summarize metrics",
     "show tables", "(select 1)", "select repeat('x', 10_000_000)"],
)  # fmt: skip
def test_questions_are_answered(warehouse, sql):
    assert query(warehouse, sql).num_rows


def test_a_question_that_needs_too_much_memory_is_an_error_and_writes_nothing_to_disk(warehouse, monkeypatch):
    options = module._QUERY_OPTIONS
    assert "memory_limit = '4GB'" in options
    monkeypatch.setattr(module, "_QUERY_OPTIONS", tuple(option.replace("4GB", "64MB") for option in options))
    with pytest.raises(DisentError, match="Out of Memory"):
        query(warehouse, "select list(range) from range(30_000_000)")
    assert [path.name for path in warehouse.parent.iterdir()] == [warehouse.name]


ENDLESS_ROWS = "select * from range(1000000000000)"


def test_an_answer_with_more_rows_than_the_limit_is_an_error_and_is_not_read_to_its_end(warehouse):
    with pytest.raises(DisentError, match=r"more than 1,000 rows\. Select fewer .* \(--limit\)"):
        query(warehouse, ENDLESS_ROWS, limit=1000)
    assert query(warehouse, "from metrics", limit=100).num_rows == 100


def test_an_answer_of_large_rows_is_an_error_before_it_fills_the_memory(warehouse):
    with pytest.raises(DisentError, match=r"more than 256 MB\. Select fewer rows or columns"):
        query(warehouse, "select repeat('x', 100_000) from range(1000000)", limit=100_000)


@pytest.mark.parametrize("sql", ["select pg_sleep(1000)", "from range(1000000000000) order by range desc limit 1"])
def test_a_question_that_takes_too_long_is_stopped(warehouse, sql):
    with pytest.raises(DisentError, match=r"more than 0\.2 s and was stopped\. .* \(--timeout\)"):
        query(warehouse, sql, seconds=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is bounded on Linux only")
def test_the_sql_command_is_bounded_in_memory(warehouse):
    code = """
import sys
from disent_assets.cli import main, queries
queries.MEMORY = 1 << 30
main(["sql", sys.argv[1]])
"""
    asked = "select range(1_000_000) from range(1_000_000)"  # 16 GB for the first rows alone
    warehouse.rename(warehouse.parent / "warehouse.duckdb")
    outputs = [warehouse.parent / name for name in ("stdout", "stderr")]
    with outputs[0].open("w") as out, outputs[1].open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", code, asked], env={**os.environ, "DISENT_HOME": str(warehouse.parent)},
            stdout=out, stderr=err,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)  # the memory of this process, not of the largest child so far
    process.returncode = os.waitstatus_to_exitcode(status)
    printed, error = (path.read_text() for path in outputs)
    assert (process.returncode, printed) == (1, "")
    assert "memory" in error.lower()
    assert "Traceback" not in error
    assert used.ru_maxrss < 4 << 20  # kB; without the bound 16 GB and more


def test_the_options_of_the_command_bound_rows_and_seconds(warehouse, monkeypatch):
    warehouse.rename(warehouse.parent / "warehouse.duckdb")
    monkeypatch.setenv("DISENT_HOME", str(warehouse.parent))
    few, soon = ("--limit", "99", "from metrics"), ("--timeout", "0.2", "select pg_sleep(1000)")
    results = [CliRunner().invoke(main, ["sql", *asked]) for asked in (few, soon, ("from metrics",))]
    assert [result.exit_code for result in results] == [1, 1, 0]
    assert "more than 99 rows" in results[0].stderr
    assert "more than 0.2 s" in results[1].stderr


ENDLESS = "with recursive t as (select 1 as n union select (n + 1) % 1_000_000_007 from t) select count(*) from t"
SCRIPT = """
import signal, sys
from pathlib import Path
from disent.query import query
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background does not have
print("asking", flush=True)
query(Path(sys.argv[1]), sys.argv[2])
"""


def test_an_endless_question_ends_with_control_c(warehouse):
    command = [sys.executable, "-c", SCRIPT, str(warehouse), ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "asking\n"
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=30)
    assert "Interrupt" in output
    assert process.returncode != 0
