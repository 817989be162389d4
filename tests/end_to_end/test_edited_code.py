"""A running `disent dev` loads the edited code of a method, without a click, and makes what it made again.

Like `test_refresh`, it runs only with `make dev-test`.
"""

import os
import time
from collections.abc import Iterator

import dagster as dg
import pytest
from projects import new_project
from test_refresh import Dev, until

from disent_assets.settings.instance import dagster_home

pytestmark = [pytest.mark.end_to_end, pytest.mark.daemon, pytest.mark.timeout(3600)]

MODULE = """
from dataclasses import replace

from disent_core.methods.closed_form import PROJECTION

METHOD = replace(PROJECTION, name="mine", code_version="{version}")
"""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A project with a method of its own, and everything made."""
    project = new_project(tmp_path_factory.mktemp("dev"))
    project.only("raw", "mine")
    project.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval"]')
    project.configure("[methods.dream]", '[methods.mine]\nmethod = "mine:METHOD"\n\n[methods.dream]')
    project.write_lines("mine.py", [MODULE.format(version=1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(project.folder), os.environ.get("PYTHONPATH", "")]))
        with dg.DagsterInstance.from_config(str(dagster_home(project.home))) as instance:
            started, server = time.time(), Dev(project, instance)
            try:
                server.until_refreshed(started)
                yield server
            finally:
                server.process.terminate()
                server.process.wait()
                server.webhook.shutdown()
                server.webhook.server_close()


def made_since(dev: Dev, moment: float) -> set[str]:
    return {asset for asset, _ in dev.steps(moment)}


def test_a_method_whose_code_is_edited_is_trained_again_and_broken_code_is_not_loaded(dev):
    broken = time.time()
    dev.project.write_lines("mine.py", ["no python"])
    until(lambda: "The previous code stays in use: " in reasons(dev), every=2)
    mended = time.time()
    dev.project.write_lines("mine.py", [MODULE.format(version=2)])
    until(lambda: "heads/tiny/mine_head" in made_since(dev, mended), every=2)
    dev.until_refreshed(mended)
    assert dev.refreshes(broken) == dev.refreshes(mended)
    assert dev.statuses(mended) == ["SUCCESS"]
    assert "evaluation/tiny/raw_metrics" not in made_since(dev, mended)


def reasons(dev: Dev) -> str:
    """What the sensor that reloads has said last."""
    (state,) = [state for state in dev.instance.all_instigator_state() if "load_changed" in state.instigator_name]
    ticks = dev.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=10)
    return "\n".join(tick.tick_data.skip_reason or "" for tick in ticks)
