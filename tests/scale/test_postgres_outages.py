"""Postgres that goes away in the middle of a step: results are there, and the next command uses them."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import dagster as dg
import pytest
from made_postgres import Postgres
from projects import Project, counts, new_project

from disent_assets.settings import profiles
from disent_assets.warehouse.costs import Meter
from disent_core.storage.patience import Patience

CORPORA = ("materialize", "key:corpora/utterances", "--partition", "en")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with TemporaryDirectory(prefix="pg") as folder:  # paths of sockets are short
        Path(folder).chmod(0o755)
        server = Postgres(Path(folder) / "postgres")
        server.make()
        server.start()
        yield server
        server.stop()


@pytest.fixture
def project(postgres, tmp_path, monkeypatch) -> Project:
    monkeypatch.setenv("DISENT_POSTGRES", postgres.address)
    return new_project(tmp_path)


def away_for(seconds: float, postgres: Postgres, monkeypatch) -> None:
    """Stop the server when the next step has made its results, before Dagster hears of them; start it again later."""
    cost, left = Meter.cost, [seconds]

    def then_stop(meter):
        if left:
            postgres.stop()
            Timer(left.pop(), postgres.start).start()
        return cost(meter)

    monkeypatch.setattr(Meter, "cost", then_stop)


@pytest.mark.parametrize("seconds", [2, 15])
def test_a_step_whose_database_comes_back_succeeds(project, postgres, monkeypatch, seconds):
    away_for(seconds, postgres, monkeypatch)
    assert project.materialize(*CORPORA[1:])["made"] == 1


def test_after_a_longer_outage_the_step_has_failed_and_the_next_command_uses_what_was_made(
    project, postgres, monkeypatch
):
    monkeypatch.setattr(profiles, "PATIENCE_SECONDS", 2.0)
    monkeypatch.setattr(Patience, "ask", lambda _, request, is_away: request())
    away_for(30, postgres, monkeypatch)
    failed = project.disent(*CORPORA)
    assert failed.exit_code == 1
    assert "Start the same command again when the database of DISENT_POSTGRES is back" in failed.output
    until = time.monotonic() + 60
    while not postgres.is_up():
        assert time.monotonic() < until
        time.sleep(0.2)
    assert counts(project.disent(*CORPORA).stdout) == {"made": 0, "up_to_date": 1, "encoded": 0, "steps": 0}
    with dg.DagsterInstance.from_config(str(project.home / "dagster")) as instance:
        assert {run.status.value for run in instance.get_runs(limit=1)} == {"SUCCESS"}
