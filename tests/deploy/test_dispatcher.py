"""Who may nominate clusters, by the admission policies that are shipped: asked of a real kube-apiserver.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's
CRDs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane.kube.kinds import Json
from tests.deploy.manifests import ROOT, render
from tests.real.pair import condition, kubeconfig_of
from tests.real.test_real_service import ADMISSION, workload
from tests.simulation.contract import realserver

CRDS = os.environ.get("CONTROLPLANE_TEST_CRDS", "")
WHY = (
    realserver.missing()
    or ("" if CRDS else "CONTROLPLANE_TEST_CRDS is not set")
    or ("" if shutil.which("kubectl") else "kubectl is not there")
)
real = pytest.mark.skipif(bool(WHY), reason=WHY)
SERVICE = "system:serviceaccount:kueue-system:controlplane"
SOMEBODY = "system:serviceaccount:team:writer"


def test_the_policies_are_about_one_field_and_bound() -> None:
    objects = {(item["kind"], item["metadata"]["name"]): item for item in render("deploy/dispatcher")}
    for kind, name in (("Validating", "controlplane-nominate"), ("Mutating", "controlplane-clear-nomination")):
        policy, binding = objects[f"{kind}AdmissionPolicy", name], objects[f"{kind}AdmissionPolicyBinding", name]
        assert binding["spec"]["policyName"] == name
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert all("nominatedClusterNames" in str(policy["spec"][part]) for part in ("matchConditions",))


class Cluster:
    """A real API server with Kueue's Workload and the policies; everything is asked of it by kubectl."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]

    def run(self, *words: str, stdin: str = "", user: str = "") -> subprocess.CompletedProcess[str]:
        impersonated = [f"--as={user}"] if user else []
        return subprocess.run(
            [*self._kubectl, *impersonated, *words], input=stdin, capture_output=True, text=True, check=False
        )

    def do(self, *words: str, stdin: str = "", within: float = 0.0) -> str:
        """Run kubectl, again and again for `within` seconds: a server that is ready serves not everything yet."""
        deadline = time.monotonic() + within
        while (done := self.run(*words, stdin=stdin)).returncode and time.monotonic() < deadline:
            time.sleep(0.2)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def patch(self, user: str, status: Json) -> str:
        """Patch the Workload's status as a user; return what the server had against it, "" if nothing."""
        words = ("patch", "workload", "w", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        deadline = time.monotonic() + 60
        while "There can be a delay" in (said := self.run(*words, user=user).stderr) and time.monotonic() < deadline:
            time.sleep(0.2)  # a mutating policy needs the schema of the CRD, which is published a while after it
        return said.strip()

    def status(self) -> Json:
        found: Json = json.loads(self.do("get", "workload", "w", "-o", "json"))["status"]
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("dispatcher")
    with realserver.running(folder) as server:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(server, folder)))
        made = Cluster(path)
        made.do(
            "apply",
            "--validate=false",
            "--server-side",
            "-f",
            str(next(Path(CRDS).glob("*_workloads.yaml"))),
            within=60,
        )
        made.do("get", "workloads", within=60)
        made.do("apply", "--validate=false", "-k", str(ROOT / "deploy/dispatcher"), within=60)
        role = {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["workloads", "workloads/status"],
            "verbs": ["get", "patch"],
        }
        objects: list[Json] = [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "w"},
                "rules": [role],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "w"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "w"},
                "subjects": [
                    {"kind": "ServiceAccount", "namespace": "team", "name": "writer"},
                    {"kind": "ServiceAccount", "namespace": "kueue-system", "name": "controlplane"},
                ],
            },
        ]
        made.do("apply", "--validate=false", "-f", "-", stdin=yaml.safe_dump_all(objects))
        yield made


@pytest.fixture
def stored(cluster: Cluster) -> Iterator[Cluster]:
    """A Workload with quota, and policies that are in force."""
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **workload({"metadata": {"uid": "u"}})}
    body["metadata"] = {"name": "w", "namespace": "default"}
    cluster.do("apply", "--validate=false", "-f", "-", stdin=yaml.safe_dump(body))
    assert (
        cluster.patch("", {"admission": ADMISSION, "conditions": [condition("QuotaReserved", "QuotaReserved")]}) == ""
    )
    deadline = time.monotonic() + 60
    while "may not nominate" not in cluster.patch(SOMEBODY, {"nominatedClusterNames": ["a"]}):
        assert time.monotonic() < deadline, "the policy never came into force"
        cluster.patch(SERVICE, {"nominatedClusterNames": None})
        time.sleep(0.2)
    yield cluster
    cluster.do("delete", "workload", "w")


@real
def test_who_may_write_a_status_may_not_nominate_for_that(stored: Cluster) -> None:
    refused = stored.patch(SOMEBODY, {"nominatedClusterNames": ["a"]})
    assert f"status.nominatedClusterNames: {SOMEBODY} may not nominate clusters" in refused
    assert stored.patch(SERVICE, {"nominatedClusterNames": ["a", "b"]}) == ""
    assert "may not nominate" in stored.patch(SOMEBODY, {"nominatedClusterNames": ["a", "c"]})
    assert stored.patch(SOMEBODY, {"nominatedClusterNames": ["a"]}) == "", "taking a name away is no nomination"
    assert stored.status()["nominatedClusterNames"] == ["a"]


@real
def test_a_nomination_goes_with_the_choice_and_with_an_eviction(stored: Cluster) -> None:
    assert stored.patch(SERVICE, {"nominatedClusterNames": ["a"]}) == ""
    assert stored.patch(SOMEBODY, {"clusterName": "a"}) == ""
    found = stored.status()
    assert (found["clusterName"], found.get("nominatedClusterNames")) == ("a", None)
    assert stored.patch(SOMEBODY, {"clusterName": None}) == ""
    assert stored.patch(SERVICE, {"nominatedClusterNames": ["a"]}) == ""
    evicted = [condition("QuotaReserved", "QuotaReserved"), condition("Evicted", "Preempted")]
    assert stored.patch(SOMEBODY, {"conditions": evicted}) == ""
    assert "nominatedClusterNames" not in stored.status()
