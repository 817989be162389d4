"""What steps ask for becomes Jobs that Kubernetes takes; the schema is that of its API, and no cluster is asked."""

import dagster as dg
import kubernetes_validate
import pytest
from dagster_k8s import DagsterK8sJobConfig
from dagster_k8s.job import construct_dagster_k8s_job, get_user_defined_k8s_config
from kubernetes.client import ApiClient

from disent_assets.definitions import build
from disent_assets.settings.environment import open_workspace

KINDS = {
    "corpora/utterances": (4096, 0),
    "negatives/negative_pool": (4096, 0),
    "targets/aligned_pairs": (4096, 0),
    "embeddings/scratch/scratch_encoder": (16384, 1),
    "embeddings/scratch/scratch_vectors": (8192, 1),
    "heads/scratch/scratch_training_data": (2048, 0),
    "heads/scratch/dream_head": (8192, 1),
    "evaluation/scratch/dream_metrics": (8192, 0),
    "evaluation/scratch/scratch_comparisons": (4096, 0),
    "warehouse/database": (8192, 0),
}
"""An asset of each kind of the demo: memory in MiB, and GPUs."""


@pytest.fixture
def jobs(tmp_path):
    """The Job of the step of an asset, as Dagster's executor makes it."""

    def job(asset: str) -> dict:
        workspace = open_workspace({"DISENT_HOME": str(tmp_path)})
        definition = build(workspace).resolve_asset_graph().assets_def_for_key(dg.AssetKey(asset.split("/")))
        made = construct_dagster_k8s_job(
            DagsterK8sJobConfig(job_image="disent:1", dagster_home="/state"),
            ["dagster", "api", "execute_step"],
            "step",
            get_user_defined_k8s_config(definition.op.tags),
        )
        return ApiClient().sanitize_for_serialization(made)

    return job


@pytest.mark.parametrize("asset", KINDS)
def test_a_step_is_a_valid_job_that_asks_for_its_memory_and_gpu_and_never_starts_a_second_pod(jobs, asset):
    job = jobs(asset)
    kubernetes_validate.validate(job, "1.32", strict=True)
    memory, gpus = KINDS[asset]
    [container] = job["spec"]["template"]["spec"]["containers"]
    resources = container["resources"]
    assert resources["requests"] == {"cpu": "1", "memory": f"{memory}Mi"}
    assert resources["limits"] == {"memory": f"{memory}Mi"} | ({"nvidia.com/gpu": "1"} if gpus else {})
    assert job["spec"]["backoffLimit"] == 0
    tolerated = {toleration["key"] for toleration in job["spec"]["template"]["spec"].get("tolerations", ())}
    assert tolerated == ({"nvidia.com/gpu", "disent/spot"} if gpus else set())


def test_job_resources_follow_the_environment(jobs, monkeypatch):
    monkeypatch.setenv("DISENT_GPU", "0")
    monkeypatch.setenv("DISENT_MEMORY", "2.5")
    [container] = jobs("heads/scratch/dream_head")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "20480Mi"}
