"""What users submit, from the management cluster to a worker and back, with Kubernetes' own controllers and Kueue's
managers on both: Jobs, pods, groups of pods, a Deployment and a StatefulSet; and each runs once, whenever the service
is killed.

Runs where `KUBEBUILDER_ASSETS` names kube-controller-manager too, and `CONTROLPLANE_TEST_CRDS` and
`CONTROLPLANE_TEST_KUEUE` say where the rest is. Only the kubelet is played (`tests/real/kubelet.py`)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from controlplane.job_kinds.gated import HELD
from controlplane.kube.kinds import Json
from tests.real.fleet import CONTROLLERS, DEFAULTED, MANAGEMENT, WHY_NOT, WORKER, Fleet, fleet, until
from tests.real.kubelet import NODE, Kubelet, kubelet
from tests.real.test_real_jobframework import says
from tests.real.test_real_pods import create, hooked, pod, process

WHY = WHY_NOT or ("" if os.access(CONTROLLERS, os.X_OK) else "KUBEBUILDER_ASSETS has no kube-controller-manager")
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
SETTINGS = {
    "CONTROLPLANE_QUOTA_MODE": "kueue",
    "CONTROLPLANE_MULTIKUEUE_KINDS": "batch/job,pod,statefulset",
}


class Played:
    """Both clusters, and who plays their nodes."""

    def __init__(self, servers: Fleet, here: Kubelet, there: Kubelet) -> None:
        self.servers, self.here, self.there = servers, here, there


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with ExitStack() as stack:
        found = stack.enter_context(fleet(tmp_path_factory.mktemp("whole")))
        found.examples()
        for name in (MANAGEMENT, WORKER):
            found.node(name, NODE, "64")
            stack.enter_context(found.controllers(name))
            gates = {"MultiKueue": False} if name == MANAGEMENT else {}
            stack.enter_context(found.kueue(name, list(DEFAULTED), **gates))
        here, there = (stack.enter_context(kubelet(found, name)) for name in (MANAGEMENT, WORKER))
        yield Played(found, here, there)


@pytest.fixture(scope="module")
def hook(played: Played, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    return hooked(played.servers, tmp_path_factory.mktemp("hook"))


def template(policy: str = "Never", **labels: str) -> Json:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": labels}, "spec": {"restartPolicy": policy, "containers": [container]}}


def job(name: str, pods: int = 1) -> Json:
    spec = {"suspend": True, "backoffLimit": 0, "parallelism": pods, "completions": pods, "template": template()}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": QUEUE}, "spec": spec}


def served(kind: str, name: str, **spec: str) -> Json:
    """A Deployment or a StatefulSet of two pods."""
    more = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template("Always", app=name)}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": QUEUE},
        "spec": {**more, **spec},
    }


def ready(servers: Fleet) -> None:
    """Wait until the webhook knows where the queue leads."""
    probe, asked = yaml.safe_dump(pod("probe", queue="user-queue")), ("create", "--dry-run=server", "-o", "json")
    until("the webhook's gate", lambda: HELD in servers.kubectl(*asked, "-f", "-", stdin=probe))


def completed(servers: Fleet, name: str) -> bool:
    return bool(says(servers.get("job", name), "Complete"))


def phases(servers: Fleet, *names: str) -> set[str]:
    return {str((servers.get("pod", name) or {}).get("status", {}).get("phase")) for name in names}


def running(servers: Fleet, app: str, count: int) -> bool:
    """Whether so many pods of a set run on the worker, and no others are there."""
    found = json.loads(servers.kubectl("get", "pods", "-l", f"app={app}", "-o", "json", context=WORKER))["items"]
    return [one["status"].get("phase") for one in found] == ["Running"] * count


def scaled(servers: Fleet, name: str, replicas: int) -> bool:
    status = (servers.get("deployment", name) or {}).get("status", {})
    wanted = {"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas}
    return {key: status.get(key) for key in wanted} == wanted


def left_on_worker(servers: Fleet) -> list[str]:
    found = json.loads(servers.kubectl("get", "pods,jobs,workloads", "--output", "json", context=WORKER))["items"]
    return [f"{one['kind']} {one['metadata']['name']}" for one in found]


def test_each_kind_runs_there_and_shows_it_here(
    played: Played, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    servers = played.servers
    group = ("g-0", "g-1", "g-2")
    with process(servers, database_url, tmp_path, hook, **SETTINGS):
        ready(servers)
        create(servers, job("job", 3), pod("single", queue="user-queue"))
        create(servers, *(pod(name, group="g", total=3, queue="user-queue") for name in group))
        create(servers, served("Deployment", "d"), served("StatefulSet", "s", serviceName="s"))
        until("the Job", lambda: completed(servers, "job"))
        until("pod and group", lambda: phases(servers, "single", *group) == {"Succeeded"})
        until("the Deployment", lambda: scaled(servers, "d", 2) and running(servers, "d", 2))
        until("the StatefulSet", lambda: running(servers, "s", 2))
        servers.kubectl("scale", "deployment/d", "--replicas=3")
        until("more", lambda: scaled(servers, "d", 3) and running(servers, "d", 3))
        servers.kubectl("scale", "deployment/d", "--replicas=1")
        until("fewer", lambda: scaled(servers, "d", 1) and running(servers, "d", 1))
        servers.kubectl("rollout", "restart", "deployment/d")
        until(
            "a second revision", lambda: "2" in str((servers.get("deployment", "d") or {})["metadata"]["annotations"])
        )
        until("it is rolled out", lambda: scaled(servers, "d", 1) and running(servers, "d", 1))
        servers.kubectl("delete", "deployment/d", "statefulset/s", "pod/single", *(f"pod/{name}" for name in group))
        until("that nothing is there", lambda: not left_on_worker(servers))
        until("that no pod is here", lambda: not json.loads(servers.kubectl("get", "pods", "-o", "json"))["items"])
    assert not played.here.ran


def test_each_job_runs_once_however_often_the_service_is_killed(
    played: Played, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    servers, before = played.servers, set(played.there.ran)
    jobs = [f"once-{number}" for number in range(12)]
    groups = [(f"t{number}-0", f"t{number}-1") for number in range(4)]
    with process(servers, database_url, tmp_path, hook, **SETTINGS):
        ready(servers)
        create(servers, *map(job, jobs))
        for first, second in groups:
            name = first.partition("-")[0]
            create(servers, *(pod(one, group=name, queue="user-queue") for one in (first, second)))
    for seconds in (0.5, 2.5, 1.0, 3.0, 1.5):
        with process(servers, database_url, tmp_path, hook, **SETTINGS):
            time.sleep(seconds)
    with process(servers, database_url, tmp_path, hook, **SETTINGS):
        until("the Jobs", lambda: all(completed(servers, name) for name in jobs))
        until("the groups", lambda: phases(servers, *(name for pair in groups for name in pair)) == {"Succeeded"})
        until("that nothing is there", lambda: not left_on_worker(servers))
    ran = {name: uids for name, uids in played.there.ran.items() if name not in before}
    assert len(ran) == len(jobs) + 2 * len(groups)
    assert [name for name, uids in ran.items() if len(uids) != 1] == []
    assert not played.here.ran
