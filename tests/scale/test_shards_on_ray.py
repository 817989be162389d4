"""Shards of a step on two nodes of Ray: the bits of one shard, whatever is killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_ray import Network

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def cluster():
    """The network of two nodes, the process that holds them, and the environment of those who use them."""
    network = Network()
    try:
        for _ in range(5):  # on a busy machine a node of Ray may give up, since an agent of it starts too late
            holder, address = started(network)
            if address is not None:
                break
        yield network, holder, {**ENVIRONMENT, "RAY_ADDRESS": address}
        holder.stdin.close()
        holder.wait(timeout=60)
    finally:
        network.close()


def started(network):
    """The process that holds the nodes, and their address; None if they did not start."""
    command = network.command(sys.executable, HERE.parents[1] / "harness/scale/shard_cluster.py")
    holder = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines = (line for line in holder.stdout if line.startswith("address "))
    return holder, next(lines, "address").partition(" ")[2].strip() or None


def start(cluster, name, folder):
    network, _, environment = cluster
    command = network.command(sys.executable, HERE.parents[1] / "harness/scale/shard_drivers.py", name, folder)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(driver):
    output, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors[-3000:]
    return json.loads(output.splitlines()[-1])


def test_results_on_ray_are_bitwise_equal_to_one_shard(cluster, tmp_path):
    assert answer(start(cluster, "equal", tmp_path))


def test_a_shard_whose_process_is_killed_is_computed_again(cluster, tmp_path):
    assert answer(start(cluster, "killed_once", tmp_path)) == [number * number for number in range(6)]
    assert (tmp_path / "killed").exists()


def test_a_data_error_on_ray_is_raised_unchanged(cluster, tmp_path):
    assert answer(start(cluster, "refused", tmp_path)) in ("text 0 can't be encoded", "text 1 can't be encoded")


def test_a_step_that_occupies_the_cluster_computes_its_shards_inline(cluster, tmp_path):
    assert answer(start(cluster, "busy", tmp_path))


def test_shards_of_a_lost_node_move_to_another(cluster, tmp_path):
    driver = start(cluster, "slow", tmp_path)
    while len([*tmp_path.glob("began-*")]) < 2:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.1)
    cluster[1].stdin.write("lose a node\n")
    cluster[1].stdin.flush()
    assert answer(driver) == [number * number for number in range(6)]
