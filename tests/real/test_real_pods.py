"""Pods and groups of pods as jobs on a real kube-apiserver, with the shipped webhook, and with no Kueue there: they are
gated, let run, deleted where they have to stop, and replaced; by processes of which each is killed at some moment.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd, and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's CRDs.
No kubelet and no controller of Kubernetes runs there: a test plays them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import yaml

from controlplane.kube.kinds import Json
from tests.clusters import pki
from tests.deploy.manifests import one, render
from tests.real.fleet import MANAGEMENT, Fleet, fleet, until
from tests.real.pair import WHY
from tests.real.test_real_jobframework import queue, says
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
GATE, MANAGED = {"name": "kueue.x-k8s.io/admission"}, "kueue.x-k8s.io/managed"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("pods"), (MANAGEMENT,)) as found:
        found.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(queue("cq", "3")))
        yield found


@pytest.fixture(scope="module")
def hook(servers: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    return hooked(servers, tmp_path_factory.mktemp("hook"))


def hooked(servers: Fleet, folder: Path) -> tuple[Path, int]:
    """Have the shipped configuration, which leads to this machine; return where the certificate is, and the port."""
    port = realserver.free_port()
    pki.make(folder, "IP:127.0.0.1")
    found = one(render("deploy/multikueue-webhook"), "MutatingWebhookConfiguration")
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    for each in found["webhooks"]:
        path = each["clientConfig"].pop("service")["path"]
        each["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(found))
    return folder, port


@contextmanager
def process(
    servers: Fleet, url: str, folder: Path, hook: tuple[Path, int], **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Have `controlplane run` in a process of its own, which is killed at the end."""
    certificates, port = hook
    environment = {
        **os.environ,
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_DATABASE_ROLE": "controlplane_service",
        "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(servers.path),
        "CONTROLPLANE_QUOTA_MODE": "builtin",
        "CONTROLPLANE_MULTIKUEUE_KINDS": "batch/job,pod",
        "CONTROLPLANE_HTTP_PORT": str(realserver.free_port()),
        "CONTROLPLANE_HTTP_ADDRESS": "127.0.0.1",
        "CONTROLPLANE_WEBHOOK_CERTIFICATE": str(certificates / "server.crt"),
        "CONTROLPLANE_WEBHOOK_KEY": str(certificates / "server.key"),
        "CONTROLPLANE_WEBHOOK_ADDRESS": "127.0.0.1",
        "CONTROLPLANE_WEBHOOK_PORT": str(port),
        **more,
    }
    with (folder / "log").open("ab") as log:
        found = subprocess.Popen([sys.executable, "-m", "controlplane", "run"], env=environment, stdout=log, stderr=log)
        try:
            until("the webhook", lambda: _answers(servers) or found.poll() is not None)
            assert found.poll() is None, (folder / "log").read_text()[-3000:]
            yield found
        finally:
            found.kill()
            found.wait(60)


def _answers(servers: Fleet) -> bool:
    made = servers.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=yaml.safe_dump(pod("probe")))
    return GATE in (json.loads(made)["spec"].get("schedulingGates") or ())


def pod(name: str, *, group: str = "", total: int = 2, cpu: str = "1", queue: str = "team") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue, **({GROUP: group} if group else {})}
    metadata = {"name": name, "labels": labels, "annotations": {TOTAL: str(total)} if group else {}}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create(servers: Fleet, *pods: Json) -> None:
    servers.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(pods))


def get(servers: Fleet, name: str) -> Json:
    return servers.get("pod", name) or {}


def gated(servers: Fleet, name: str) -> bool:
    return bool(get(servers, name)["spec"].get("schedulingGates"))


def runs(servers: Fleet, name: str, phase: str = "Running", context: str = MANAGEMENT) -> None:
    """What scheduler and kubelet do."""
    if "nodeName" not in (servers.get("pod", name, context=context) or {})["spec"]:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "node-1"}}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        servers.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding), context=context)
    words = ("patch", "pod", name, "--subresource=status", "--type=merge", "--patch")
    servers.kubectl(*words, json.dumps({"status": {"phase": phase}}), context=context)


def workload_of(servers: Fleet, name: str) -> Json:
    found = json.loads(servers.kubectl("get", "workloads", "--output", "json"))["items"]
    mine = [each for each in found if name in [ref["name"] for ref in each["metadata"].get("ownerReferences", ())]]
    return mine[0] if len(mine) == 1 else {}


def deactivate(servers: Fleet, workload: Json) -> None:
    name = workload["metadata"]["name"]
    servers.kubectl("patch", "workload", name, "--type=merge", "--patch", '{"spec": {"active": false}}')


def test_a_pod_waits_runs_is_stopped_and_ends(
    servers: Fleet, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    create(servers, pod("before"))
    with process(servers, database_url, tmp_path, hook):
        until("a word about the pod that nobody gated", lambda: "PodNotManaged" in _told(servers, "before"))
        assert MANAGED not in get(servers, "before")["metadata"]["labels"]
        create(servers, pod("first", cpu="2"), pod("second", cpu="2"))
        until("the first", lambda: not gated(servers, "first"))
        found = get(servers, "first")
        assert found["metadata"]["labels"][MANAGED] == "true"
        assert found["metadata"]["finalizers"] == [MANAGED]
        assert found["spec"]["nodeSelector"] == {"pool": "spot"}
        assert {"key": "spot", "operator": "Exists"} in found["spec"]["tolerations"]
        assert found["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
        until("why the second waits", lambda: says(workload_of(servers, "second"), "QuotaReserved").get("status"))
        assert gated(servers, "second")
        runs(servers, "first")
        runs(servers, "first", "Succeeded")
        until("its end", lambda: says(workload_of(servers, "first"), "Finished").get("reason") == "Succeeded")
        until("the finalizers", lambda: "finalizers" not in get(servers, "first")["metadata"])
        until("the second's turn", lambda: not gated(servers, "second"))
        runs(servers, "second")
        deactivate(servers, workload_of(servers, "second"))
        stopped = until(
            "its deletion", lambda: (now := get(servers, "second")).get("metadata", {}).get("deletionTimestamp") and now
        )
        said = says(stopped, "TerminationTarget")
        assert said["reason"] == "WorkloadEvictedDueToDeactivated"
        until("its finalizer", lambda: "finalizers" not in get(servers, "second")["metadata"])
        servers.kubectl("delete", "pod", "second", "--grace-period=0", "--force")
        assert {"CreatedWorkload", "Started", "Stopped"} <= _told(servers, "second")
    servers.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


def test_a_group_survives_the_end_of_each_process(
    servers: Fleet, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    """Each process is killed after it has decided more than the one before: some of it is written by then, some is
    not."""
    with process(servers, database_url, tmp_path, hook):
        create(servers, pod("a", group="g"), pod("b", group="g"), pod("c", group="g"))
    for count in (1, 3, 5):
        with process(servers, database_url, tmp_path, hook) as running:
            until(
                f"{count} decisions", lambda count=count: _decided(database_url) >= count or running.poll() is not None
            )
    with process(servers, database_url, tmp_path, hook):
        left = until("two that run", lambda: _let_run(servers))
        assert len(left) == 2
        workload = workload_of(servers, left[0])
        assert workload["metadata"]["name"] == "g"
        assert workload["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true"
        role = get(servers, left[0])["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"]
        assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [(role, 2)]
        for name in left:
            runs(servers, name)
        runs(servers, left[0], "Failed")
        until(
            "the wait", lambda: says(workload_of(servers, left[1]), "WaitingForReplacementPods").get("status") == "True"
        )
        create(servers, pod("d", group="g"))
        until("the replacement", lambda: not gated(servers, "d"))
        until("that it is let go", lambda: "finalizers" not in get(servers, left[0])["metadata"])
        runs(servers, "d")
        for name in (left[1], "d"):
            runs(servers, name, "Succeeded")
        finished = until("its end", lambda: says(workload_of(servers, "d"), "Finished"))
        assert (finished["reason"], finished["message"]) == ("Succeeded", "Pods succeeded: 2/2.")
        until("all finalizers", lambda: "finalizers" not in get(servers, "d")["metadata"])
    with psycopg.connect(database_url, autocommit=True) as connection:
        query = (
            "SELECT type, count(*) FROM audit.events WHERE stream = 'jobframework/job/podgroups/default/g' GROUP BY 1"
        )
        found = dict(connection.execute(query).fetchall())
    assert (found["PodStartDecided"], found["PodDeletionDecided"]) == (3, 1)
    servers.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


def _let_run(servers: Fleet) -> list[str]:
    found = json.loads(servers.kubectl("get", "pods", "--selector", f"{GROUP}=g", "--output", "json"))["items"]
    names = [each["metadata"]["name"] for each in found if not each["spec"].get("schedulingGates")]
    return names if len(names) == len(found) == 2 else []


def _decided(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        query = (
            "SELECT count(*) FROM audit.events WHERE stream LIKE 'jobframework/job/podgroups/%' AND type LIKE "
            "'%Decided'"
        )
        (found,) = connection.execute(query).fetchone() or (0,)
    return int(found)


def _told(servers: Fleet, name: str) -> set[str]:
    told = json.loads(servers.kubectl("get", "events.events.k8s.io", "--output", "json"))["items"]
    return {each["reason"] for each in told if each["regarding"]["name"] == name}
