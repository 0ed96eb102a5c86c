"""kubectl against the simulated server: the verbs that a person at a demo tries first.

CONTROLPLANE_TEST_KUBECTL names another kubectl than the one that is found: 1.20 and 1.32 have been tried."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from controlplane.clock import SystemClock
from controlplane.kube.kinds import EVENTS, JOBS, NODES, PODS, SECRETS, WORKLOADS, Json
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.shown_pods import ShownPods, node_named
from controlplane.simulation.kinds.base import CONFIG_MAPS
from tests.simulation.store_kit import new_store
from tests.support.waiting import PATIENCE

KUBECTL = os.environ.get("CONTROLPLANE_TEST_KUBECTL") or shutil.which("kubectl")


def _minor() -> int:
    """Return the minor version of kubectl 1; a large one where there is none."""
    if KUBECTL is None:
        return 99
    said = subprocess.run([KUBECTL, "version", "--client", "-o", "json"], capture_output=True, check=True).stdout
    return int(json.loads(said)["clientVersion"]["minor"].rstrip("+"))


OLD = _minor() < 24  # says some things in other words
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

MANIFEST = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w1, namespace: default, labels: {team: red}}
spec: {queueName: main, podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, image: IMAGE}]}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j1, namespace: default}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE}]}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: west}
spec: {clusterSource: {kubeConfig: {location: west, locationType: Secret}}}
"""


@pytest.fixture
def store() -> Store:
    return new_store()


class Kubectl:
    def __init__(self, home: Path) -> None:
        self.home = home

    async def __call__(self, *words: str, stdin: str = "", status: int = 0) -> str:
        """Run kubectl, assert its exit status, and return what it printed, errors included."""
        return await _ended(await self.start(*words), stdin, status)

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start kubectl; its errors are among what it prints."""
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL, "--kubeconfig", str(self.home / "kubeconfig"), *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip


async def _ended(process: asyncio.subprocess.Process, stdin: str = "", status: int = 0) -> str:
    """Return what a process prints until it ends, and assert its exit status."""
    async with asyncio.timeout(60):
        output, _ = await process.communicate(stdin.encode())
    assert process.returncode == status, output.decode()
    return output.decode()


@pytest.fixture
async def api_server(store: Store) -> AsyncIterator[SimulatedApiServer]:
    server = SimulatedApiServer(store, token="sesame")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def kubectl(api_server: SimulatedApiServer, tmp_path: Path) -> Kubectl:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(api_server.kubeconfig(for_kubectl=True)))
    return Kubectl(tmp_path)


def lines(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


async def test_apply_is_repeatable_and_delete_cleans_up(kubectl: Kubectl, store: Store) -> None:
    first = MANIFEST.replace("IMAGE", "one")
    assert (await kubectl("apply", "-f", "-", stdin=first)).count(" created") == 3
    assert (await kubectl("apply", "-f", "-", stdin=first)).count(" unchanged") == 3
    changed = await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("IMAGE", "two"))
    assert (changed.count(" configured"), changed.count(" unchanged")) == (2, 1)
    assert (
        store.get(WORKLOADS, "default", "w1")["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["image"]
        == "two"
    )
    applied = await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=first)
    assert applied.count("serverside-applied") == 3
    assert (await kubectl("delete", "-f", "-", stdin=first)).count("deleted") == 3
    assert "No resources found" in await kubectl("get", "workloads,jobs,multikueueclusters")


async def test_get_prints_kueues_columns(kubectl: Kubectl, store: Store) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    status = {"conditions": [{"type": "Admitted", "status": "True"}], "admission": {"clusterQueue": "cq"}}
    store.patch(WORKLOADS, "default", "w1", {"status": status}, subresource="status")
    assert lines(await kubectl("get", "kwl")) == [
        ["NAME", "QUEUE", "RESERVED", "IN", "ADMITTED", "FINISHED", "AGE"],
        ["w1", "main", "cq", "True", "0s"],
    ]
    assert lines(await kubectl("get", "mkc"))[0] == ["NAME", "CONNECTED", "AGE"]
    assert lines(await kubectl("get", "jobs"))[0] == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert (await kubectl("get", "kwl", "-l", "team=red", "-o", "name")).split() == ["workload.kueue.x-k8s.io/w1"]
    assert (await kubectl("get", "kwl", "w1", "-o", "jsonpath={.spec.queueName}")) == "main"
    assert "NotFound" in await kubectl("get", "kwl", "none", status=1)


async def _watched_by(server: SimulatedApiServer, count: int) -> None:
    """Wait until so many watches are open."""
    async with asyncio.timeout(PATIENCE):
        while server.open_watches != count:
            await asyncio.sleep(0.01)


async def test_patch_label_and_wait(kubectl: Kubectl, store: Store, api_server: SimulatedApiServer) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "labeled" in await kubectl("label", "job", "j1", "tier=gold")
    assert "annotated" in await kubectl("annotate", "kwl", "w1", "note=x")
    assert "patched" in await kubectl("patch", "job", "j1", "-p", '{"spec":{"parallelism":2}}')
    assert "patched" in await kubectl("patch", "kwl", "w1", "--type=merge", "-p", '{"spec":{"active":false}}')
    refused = await kubectl("patch", "kwl", "w1", "-p", '{"spec":{"active":true}}', status=1)
    assert ("UnsupportedMediaType" if OLD else "not supported") in refused
    found = store.get(WORKLOADS, "default", "w1")
    assert (found["metadata"]["annotations"]["note"], found["spec"]["active"]) == ("x", False)
    waiting = asyncio.create_task(kubectl("wait", "kwl/w1", "--for=condition=Finished", "--timeout=30s"))
    await _watched_by(api_server, 1)
    finished = {"status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    store.patch(WORKLOADS, "default", "w1", finished, subresource="status")
    assert "condition met" in await waiting
    await _watched_by(api_server, 0)
    gone = asyncio.create_task(kubectl("wait", "kwl/w1", "--for=delete", "--timeout=30s"))
    await _watched_by(api_server, 1)
    store.delete(WORKLOADS, "default", "w1")
    await gone


@pytest.mark.deep
async def test_describe_shows_events(kubectl: Kubectl, store: Store) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    workload = store.get(WORKLOADS, "default", "w1")
    metadata = workload["metadata"]
    store.create(
        EVENTS,
        {
            "metadata": {"name": "w1.1", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/dispatcher",
            "reportingInstance": "one",
            "action": "Dispatch",
            "reason": "Dispatched",
            "type": "Normal",
            "note": "offered to west",
            "regarding": {
                "apiVersion": WORKLOADS.api_version,
                "kind": "Workload",
                "name": "w1",
                "namespace": "default",
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        },
    )
    described = await kubectl("describe", "kwl", "w1")
    assert ["Queue", "Name:", "main"] in lines(described)
    assert "offered to west" in described
    assert "example.com/dispatcher" in described
    shown = ["Parallelism:", "1"] if OLD else ["Suspend:", "true"]
    assert shown in lines(await kubectl("describe", "job", "j1"))
    (heads, event) = lines(await kubectl("get", "events"))
    assert heads == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert event[1:] == ["Normal", "Dispatched", "workload/w1", "offered", "to", "west"]
    assert re.fullmatch(r"[0-9a-z]+", event[0]), "how long ago it was, also of an event with an eventTime alone"
    assert "w1.1" in await kubectl("get", "events", "-o", "wide")


async def test_discovery_lists_what_is_served(kubectl: Kubectl) -> None:
    listed = await kubectl("api-resources", "--api-group=kueue.x-k8s.io", "-o", "name")
    assert "workloads.kueue.x-k8s.io" in listed.split()
    assert "v1.36.0-simulated" in await kubectl("version")


async def test_get_all_is_what_a_real_server_has_in_it(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    named = [row[0] for row in lines(await kubectl("get", "all")) if row and row[0] != "NAME"]
    assert named == ["job.batch/j1"]
    if not OLD:  # it cannot be asked for them
        listed = await kubectl("api-resources", "--categories=all", "-o", "name")
        assert set(listed.split()) == {"pods", "jobs.batch"}


async def test_what_kubectl_sends_in_protobuf_is_created(kubectl: Kubectl, store: Store) -> None:
    """`kubectl create` has typed clients, which send built-in kinds in protobuf."""
    for words in (
        ("namespace", "team"),
        ("configmap", "c", "--from-literal=a=b", "-n", "team"),
        ("secret", "generic", "s", "--from-literal=a=b", "-n", "team"),
        ("job", "j", "--image=busybox", "-n", "team", "--", "echo", "hi"),
    ):
        assert "created" in await kubectl("create", *words)
    assert store.get(CONFIG_MAPS, "team", "c")["data"] == {"a": "b"}
    assert store.get(SECRETS, "team", "s")["data"] == {"a": "Yg=="}
    spec = store.get(JOBS, "team", "j")["spec"]
    assert (spec["parallelism"], spec["template"]["spec"]["restartPolicy"]) == (1, "Never")
    container = {"name": "j", "image": "busybox", "command": ["echo", "hi"], "resources": {}}
    assert spec["template"]["spec"]["containers"] == [container]
    assert "deleted" in await kubectl("delete", "namespace", "team")
    assert lines(await kubectl("get", "ns", "--no-headers")) == [
        ["default", "Active", "0s"],
        ["kube-system", "Active", "0s"],
    ]


@pytest.mark.deep
async def test_explain_tells_of_built_in_and_custom_kinds(kubectl: Kubectl) -> None:
    spec = await kubectl("explain", "job.spec")
    assert ["parallelism", "<integer>"] in lines(spec)
    assert "How many pods may run at once" in spec
    assert ["requests", "<map[string]Quantity>"] in lines(
        (await kubectl("explain", "job.spec.template.spec.containers.resources")).replace(
            "map[string]string", "map[string]Quantity"
        )
    )
    assert "LocalQueue" in await kubectl("explain", "workload.spec.queueName")
    assert ["nominalQuota", "<>"] in [
        [words[0], "<>"]
        for words in lines(await kubectl("explain", "cq.spec.resourceGroups.flavors.resources"))
        if words
    ]
    assert 'field "nothing" does not exist' in await kubectl("explain", "job.spec.nothing", status=1)


async def test_a_field_that_is_not_there_is_refused(kubectl: Kubectl, store: Store) -> None:
    """By kubectl itself, or by the server that it asks to be strict."""
    said = await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("suspend: true", "suspnd: true"), status=1)
    assert 'unknown field "' in said
    assert "suspnd" in said
    assert "j1" not in [record.name for record in store.records(JOBS)]
    said = await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("queueName", "queuName"), status=1)
    assert "queuName" in said


@pytest.mark.deep
async def test_logs_of_a_job_are_those_of_its_pod(kubectl: Kubectl, store: Store) -> None:
    await kubectl("create", "job", "j", "--image=busybox", "--", "sleep", "5")
    pods = _shown_pods(store)
    _play(store, {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}, pods)
    assert await kubectl("logs", "job/j") == "simulated: nothing runs here; the image is busybox, the command sleep 5\n"
    following = await kubectl.start("logs", "-f", "--tail=1", "--timestamps", "job/j")
    assert following.stdout is not None
    first = (await following.stdout.readline()).decode()
    conditions = [{"type": "Complete", "status": "True"}]
    _play(store, {"active": 0, "ready": 0, "succeeded": 1, "conditions": conditions}, pods)
    (last,) = (await _ended(following)).splitlines()
    assert (first.split()[0], last.split(" ", 1)[1]) == ("2026-01-01T00:00:00Z", "simulated: ended with exit code 0")
    (pod,) = [record.name for record in store.records(PODS)]
    assert "Completed" in await kubectl("get", "pods")
    assert "is not valid for pod" in await kubectl("logs", pod, "-c", "other", status=1)
    described = await kubectl("describe", "pod", pod)
    assert "Controlled By:  Job/j" in described
    assert ["Exit", "Code:", "0"] in lines(described)


async def test_what_needs_a_container_is_refused_with_the_reason(kubectl: Kubectl, store: Store) -> None:
    await kubectl("create", "job", "j", "--image=busybox")
    _play(store, {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}, _shown_pods(store))
    (pod,) = [record.name for record in store.records(PODS)]
    for words in (["exec", pod, "--", "ls"], ["attach", pod], ["port-forward", pod, "8080:80"]):
        said = await kubectl(*words, status=1)
        assert f"pod {pod} is simulated: nothing runs in it, so it takes no {words[0]}" in said, words
    assert 'pods "nowhere" not found' in await kubectl("exec", "nowhere", "--", "ls", status=1)


async def test_a_pod_that_somebody_deletes_is_followed_by_another(kubectl: Kubectl, store: Store) -> None:
    await kubectl("create", "job", "j", "--image=busybox")
    pods = _shown_pods(store)
    _play(store, {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}, pods)
    (before,) = [record.name for record in store.records(PODS)]
    await kubectl("delete", "pod", before)
    pods.drain()
    (after,) = store.records(PODS)
    assert after.name != before
    assert after.obj["status"]["phase"] == "Running"
    _play(
        store, {"active": 0, "ready": 0, "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}, pods
    )
    assert [record.obj["status"]["phase"] for record in store.records(PODS)] == ["Succeeded"]


@pytest.mark.deep
async def test_nodes_are_shown_as_kubectl_shows_them(kubectl: Kubectl, store: Store) -> None:
    made = node_named("n1", {"cpu": "4", "memory": "16Gi"}, "v1.36.0", "2026-01-01T00:00:00Z")
    store.create(NODES, {"metadata": made["metadata"], "spec": made["spec"]})
    store.patch(NODES, "", "n1", {"status": made["status"]}, subresource="status")
    assert [line[:3] for line in lines(await kubectl("get", "nodes"))] == [
        ["NAME", "STATUS", "ROLES"], ["n1", "Ready", "<none>"],
    ]  # fmt: skip
    assert ["cpu:", "4"] in lines(await kubectl("describe", "node", "n1"))
    await kubectl("cordon", "n1")
    assert "Ready,SchedulingDisabled" in await kubectl("get", "node", "n1")
    await kubectl("create", "job", "j", "--image=busybox")
    view = View(store, [JOBS, PODS])
    view.start()
    _play(store, {"active": 1, "ready": 1}, ShownPods("pods", view, SystemClock(), "n1"))
    assert ["n1"] in [line[-1:] for line in lines(await kubectl("get", "pods", "-o", "wide"))]


async def test_a_job_that_runs_elsewhere_has_no_pods(kubectl: Kubectl, store: Store) -> None:
    spec = "spec: {managedBy: kueue.x-k8s.io/multikueue, "
    await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("spec: {suspend: true, ", spec))
    pods = _shown_pods(store)
    status = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
    store.patch(JOBS, "default", "j1", {"status": status}, subresource="status")
    pods.drain()
    assert store.records(PODS) == []


def _shown_pods(store: Store) -> ShownPods:
    view = View(store, [JOBS, PODS])
    view.start()
    return ShownPods("pods", view, SystemClock())


def _play(store: Store, status: Json, pods: ShownPods) -> None:
    store.patch(JOBS, "default", "j", {"status": status}, subresource="status")
    pods.drain()


async def test_everybody_may_do_everything_unless_a_rule_says_otherwise(
    kubectl: Kubectl, api_server: SimulatedApiServer
) -> None:
    assert await kubectl("auth", "can-i", "create", "jobs.batch") == "yes\n"
    api_server.access.allows = lambda user, right: (
        (user, right.verb, right.target)
        != (
            "kubernetes-admin",
            "patch",
            "workloads.kueue.x-k8s.io/status",
        )
    )
    asked = ["auth", "can-i", "patch", "workloads.kueue.x-k8s.io"]
    assert await kubectl(*asked) == "yes\n"
    said = await kubectl(*asked, "--subresource=status", "-n", "default", status=1)
    assert said.startswith("no - kubernetes-admin may not patch")
