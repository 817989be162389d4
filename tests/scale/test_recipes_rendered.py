"""The recipe of KubeRay is rendered by kubectl."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

KUBERAY = Path(__file__).parents[2] / "deploy/kuberay"


def test_kustomize_puts_all_objects_into_the_namespace_with_the_image():
    if shutil.which("kubectl") is None:
        pytest.fail("kubectl is missing")
    ran = subprocess.run(["kubectl", "kustomize", KUBERAY], capture_output=True, text=True, check=True)
    objects = {document["kind"]: document for document in yaml.safe_load_all(ran.stdout)}
    assert {kind: document["metadata"]["namespace"] for kind, document in objects.items()} == {
        "NetworkPolicy": "disent",
        "RayCluster": "disent",
    }
    spec = objects["RayCluster"]["spec"]
    pods = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = {box["image"] for pod in pods for box in pod["template"]["spec"]["containers"]}
    assert len(images) == 1
    assert not images & {"disent"}
