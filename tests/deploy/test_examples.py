"""The examples fit together: names that refer to something, jobs that MultiKueue may dispatch."""

from __future__ import annotations

import re

from tests.deploy.manifests import ROOT, documents, one, render

QUEUE = "kueue.x-k8s.io/queue-name"


def test_the_check_leads_to_every_cluster() -> None:
    objects = render("examples/management")
    check, config = one(objects, "AdmissionCheck"), one(objects, "MultiKueueConfig")
    assert check["spec"]["controllerName"] == "kueue.x-k8s.io/multikueue"
    assert check["spec"]["parameters"]["name"] == config["metadata"]["name"]
    clusters = {item["metadata"]["name"] for item in objects if item["kind"] == "MultiKueueCluster"}
    assert set(config["spec"]["clusters"]) == clusters
    asked = one(objects, "ClusterQueue")["spec"]["admissionChecksStrategy"]["admissionChecks"]
    assert asked == [{"name": check["metadata"]["name"]}]


def test_both_sides_have_the_queue_and_only_one_asks_the_check() -> None:
    management, worker = render("examples/management"), render("examples/worker")
    for objects in (management, worker):
        queue = one(objects, "LocalQueue")
        assert queue["spec"]["clusterQueue"] == one(objects, "ClusterQueue")["metadata"]["name"]
        assert (queue["metadata"]["namespace"], queue["metadata"]["name"]) == ("default", "user-queue")
        flavors = [
            flavor["name"]
            for group in one(objects, "ClusterQueue")["spec"]["resourceGroups"]
            for flavor in group["flavors"]
        ]
        assert flavors == [one(objects, "ResourceFlavor")["metadata"]["name"]]
    assert "admissionChecksStrategy" not in one(worker, "ClusterQueue")["spec"]


def test_kubectl_apply_k_and_apply_f_mean_the_same() -> None:
    for side in ("management", "worker"):
        by_file = [
            item for path in sorted((ROOT / "examples" / side).glob("*.yaml")) for item in documents(path.read_text())
        ]
        names = sorted((item["kind"], item["metadata"]["name"]) for item in by_file)
        assert names == sorted((item["kind"], item["metadata"]["name"]) for item in render(f"examples/{side}"))


def test_the_manager_s_quota_is_that_of_its_workers() -> None:
    management, worker = render("examples/management"), render("examples/worker")
    count = len(one(management, "MultiKueueConfig")["spec"]["clusters"])

    def quota(objects: list[dict]) -> dict[str, int]:
        resources = one(objects, "ClusterQueue")["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        return {entry["name"]: int(str(entry["nominalQuota"]).removesuffix("Gi")) for entry in resources}

    assert quota(management) == {name: count * each for name, each in quota(worker).items()}


def test_twenty_jobs_of_which_one_fails() -> None:
    jobs = documents((ROOT / "examples/demo/jobs.yaml").read_text())
    assert [job["metadata"]["name"] for job in jobs] == [f"train-{number:02d}" for number in range(20)]
    failing = [job for job in jobs if job["metadata"]["annotations"].get("simulation.controlplane/outcome") == "fail"]
    assert len(failing) == 1
    for job in jobs:
        assert (job["apiVersion"], job["kind"], job["metadata"]["namespace"]) == ("batch/v1", "Job", "default")
        assert job["metadata"]["labels"][QUEUE] == "user-queue"
        assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        assert job["spec"]["suspend"] is True
        assert re.fullmatch(r"[2-4]s", job["metadata"]["annotations"]["simulation.controlplane/duration"])
        requests = job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert requests["cpu"] in ("1", "2")
