"""Run two Ray nodes with one processor each in this network; print the address, and drop a node at a line of input."""

import sys

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    small = {"object_store_memory": 80_000_000, "memory": 10**11}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        node = cluster.add_node(num_cpus=1, **small)
    print("address", cluster.address, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(node, allow_graceful=False)
    cluster.shutdown()
