"""Run the UI and Dagster's daemon (`disent dev`), so that one signal ends everything that they start.

`serve` starts this module as the leader of a new POSIX session. Web server, daemon, code servers and runs stay in its
process group. A signal to `disent dev` goes to the whole group; processes that do not end in time are killed.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TextIO
from uuid import uuid4

import click
import dagster as dg

from disent.home import SHARED
from disent_assets.run.dagster_private import dev_module
from disent_assets.settings.environment import address_of
from disent_assets.settings.instance import FACE, dagster_home, has_private_database, open_instance, settings_folder
from disent_core.errors import DisentError

GRACE_SECONDS = 20  # for the processes to end after the first signal
ORPHANED_SECONDS = 1.5  # the same if `disent dev` was killed: nobody waits for them
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(home: Path, port: int) -> int:
    """Run the UI and the daemon until they end or this process gets a signal; return the exit code."""
    with _only_one(home) as lock:
        end_lost_runs(home)
        address = ["--host", "127.0.0.1", "--port", str(port)]
        # At "info", every evaluation of a sensor would print a line: four in five seconds.
        quiet = ["--log-level", "warning"]
        command = [sys.executable, "-m", __name__, "--workspace", str(SHARED / "workspace.yaml"), *address, *quiet]
        click.echo(f"The UI will be at http://127.0.0.1:{port} in a few seconds. Ctrl-C ends it and its runs.")
        environment = {
            **os.environ,
            "DISENT_HOME": address_of(home),
            "DAGSTER_HOME": str(settings_folder(home)),
            "DISENT_UI": f"http://127.0.0.1:{port}",
            "DISENT_STARTED": uuid4().hex,
        }
        return run_group(command, environment=environment, lock=lock)


@contextmanager
def _only_one(home: Path) -> Iterator[TextIO]:
    """Hold a lock while any of the processes lives: two daemons would start every run twice."""
    with Path(dagster_home(home), "dev.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DisentError(f"{home}: `disent dev` already runs here. Stop it first") from error
        yield lock


def end_lost_runs(home: Path) -> None:
    """Report the runs of a killed daemon as failed, so that the new one retries them once instead of waiting.

    In a database shared with other machines, whose runs go on, Dagster's run monitoring does this.
    """
    with open_instance(home) as instance:
        if not has_private_database(instance):
            return
        begun = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
        for run in instance.get_runs(begun):
            if not FACE.items() <= run.tags.items():
                instance.report_run_failed(run, "`disent dev` was killed during this run.")
        for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELING])):
            instance.report_run_canceled(run)


def run_group(
    command: Sequence[str], *, environment: Mapping[str, str], lock: TextIO, grace: float = GRACE_SECONDS
) -> int:
    """Run a command in its own process group, and end the group if this process gets a signal.

    The command holds the lock, and its standard input ends when this process does. After the first signal the group has
    `grace` seconds to end. Return the exit code of the command; 0 after a signal.
    """
    # A script in the background starts its commands with SIGINT ignored. Dagster's processes would inherit that, and
    # treat SIGTERM the same. With a handler in this process, its children start with the default.
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    leader = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, pass_fds=[lock.fileno()], start_new_session=True
    )
    try:
        return leader.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _end(leader, grace)


def _end(leader: subprocess.Popen[bytes], grace: float) -> None:
    """End the process group; kill what is left after `grace` seconds or a second signal."""
    try:
        _signal_group(leader, signal.SIGTERM)
        until = time.monotonic() + grace
        while time.monotonic() < until and _signal_group(leader, 0):
            leader.poll()  # a process that has ended stays in the group until its parent reaps it
            time.sleep(0.1)
    finally:
        _signal_group(leader, signal.SIGKILL)
        leader.wait()


def _signal_group(leader: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal; return whether the group has a process left."""
    try:
        os.killpg(leader.pid, number)
    except ProcessLookupError:
        return False
    return True


def _end_with_parent() -> None:
    os.read(0, 1)  # returns when `disent dev` ends, even if it is killed
    os.killpg(0, signal.SIGTERM)
    time.sleep(ORPHANED_SECONDS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Run `dagster dev` with the arguments of this process and our web server."""
    from disent_assets.web.server import replace_in_dagster_dev

    replace_in_dagster_dev()
    warnings.filterwarnings("ignore", message="Function `dev_command` is superseded")
    Thread(target=_end_with_parent, daemon=True).start()
    dev_module().dev_command.main(sys.argv[1:], prog_name="disent dev")


if __name__ == "__main__":
    main()
