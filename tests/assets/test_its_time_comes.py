"""The schedules and the freshness policy when their time comes, by Dagster's daemon under a clock that is set."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.definitions.freshness_evaluator import TimeWindowFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time
from dagster._core.workspace.load_target import ModuleTarget
from dagster._scheduler.scheduler import launch_scheduled_runs

from disent_assets.definitions import FRESHNESS

MONDAY = datetime(2026, 11, 30, 2, 59, tzinfo=UTC)
COORDINATOR = {"module": "dagster._core.test_utils", "class": "MockedRunCoordinator"}


def test_schedules_request_a_nightly_refresh_and_a_weekly_summary(tmp_path, monkeypatch):
    monkeypatch.setenv("DISENT_HOME", str(tmp_path))
    target = ModuleTarget("disent_assets.definitions", None, str(tmp_path), "disent")
    with (
        dg.instance_for_test(overrides={"run_coordinator": COORDINATOR}) as instance,
        create_test_daemon_workspace_context(target, instance) as context,
    ):
        (location,) = context.create_request_context().code_locations
        schedules = {each.name: each for each in next(iter(location.get_repositories().values())).get_schedules()}

        def asked(time: datetime) -> list[str]:
            with freeze_time(time):
                assert not [*filter(None, launch_scheduled_runs(context, logging.getLogger("test"), time, {}))]
            return [run.job_name for run in instance.run_coordinator.queue()]

        assert asked(MONDAY) == []
        assert asked(MONDAY + timedelta(minutes=2)) == ["refresh"]
        (refresh,) = instance.run_coordinator.queue()
        assert refresh.run_config["ops"]["make_what_is_stale"]["config"]["everything"] is True
        assert asked(MONDAY + timedelta(hours=4)) == ["refresh"]
        with freeze_time(MONDAY + timedelta(days=7)):
            instance.start_schedule(schedules["each_week"])
        assert asked(MONDAY + timedelta(days=7, hours=4)).count("weekly_summary") == 1


@pytest.mark.parametrize(("hours", "state"), [(24.9, "PASS"), (25.1, "WARN"), (26.1, "FAIL")])
def test_the_warehouse_is_stale_a_day_after_the_last_refresh(hours, state):
    @dg.asset(freshness_policy=FRESHNESS)
    def database() -> None: ...

    graph = dg.Definitions([database]).resolve_asset_graph()
    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([database], instance=instance)
        with freeze_time(datetime.now(UTC) + timedelta(hours=hours)):
            evaluated = TimeWindowFreshnessPolicyEvaluator().evaluate_freshness(
                LoadingContextForTest(instance), graph.get(database.key)
            )
            assert asyncio.run(evaluated).name == state
