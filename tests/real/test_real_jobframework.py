"""Jobs and their Workloads on a real kube-apiserver: the Workloads that the service makes of jobs are those that
Kueue's own manager makes of them, to the byte; and a job runs and ends by the service alone, with no Kueue there.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd, `CONTROLPLANE_TEST_CRDS` a folder with the CRDs, and
`CONTROLPLANE_TEST_KUEUE` Kueue's manager. No controller of Kubernetes runs there: a test plays the Job controller."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import Json
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.real.fleet import MANAGEMENT, WHY_NOT, Fleet, fleet, until
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
OF_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "deletionTimestamp")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("jobs"), (MANAGEMENT,)) as found:
        yield found


@contextmanager
def serving(servers: Fleet, url: str, **multikueue: Any) -> Iterator[None]:
    """Have the service decide on quota and jobs, in a thread of its own."""
    config = parse_kubeconfig(yaml.safe_dump(servers.kubeconfigs[MANAGEMENT]).encode())

    async def open_management() -> Transport:
        return Transport("@management", config)

    settings = Settings()
    settings = msgspec.structs.replace(
        settings,
        quota=msgspec.structs.replace(settings.quota, mode="builtin"),
        leader=msgspec.structs.replace(settings.leader, identity="real"),
    )
    ready: list[Callable[[], None]] = []

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        ready.append(lambda: loop.call_soon_threadsafe(stop.set))
        database = Database(url, "controlplane_service")
        service = Service(settings, ports_of(database), open_management, metrics=Metrics(), health=Health())
        await service.run(stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="service")
    thread.start()
    try:
        yield
    finally:
        until("the service", lambda: ready)
        ready[0]()
        thread.join(60)
        assert not thread.is_alive()


def container(**more: Any) -> Json:
    requests = {"cpu": "1000m", "memory": "0.5Gi"}
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    return {"name": "c", "image": "busybox", "env": env, "resources": {"requests": requests}, **more}


def template(**more: Any) -> Json:
    return {"spec": {"restartPolicy": "Never", "containers": [container()], **more}}


def job(name: str, *, annotations: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {**QUEUE, **(labels or {})}, "annotations": annotations or {}},
        "spec": {"suspend": True, "template": template(), **spec},
    }


def job_set(name: str, *, labels: Json | None = None, **spec: Any) -> Json:
    replicated = [
        {"name": "Driver".lower(), "replicas": 1, "template": {"spec": {"template": template()}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {
                "spec": {"parallelism": 3, "completions": 2, "template": template(tolerations=[{"operator": "Exists"}])}
            },
        },
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {**QUEUE, **(labels or {})}},
        "spec": {"suspend": True, "replicatedJobs": replicated, **spec},
    }


TAS = "kueue.x-k8s.io/podset-required-topology"
RICH = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"note": "told", TAS: "rack"}},
    "spec": {
        "restartPolicy": "OnFailure",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "gold",
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}, {"name": "w", "emptyDir": {}}],
        "initContainers": [container(name="init")],
        "containers": [
            container(
                ports=[{"containerPort": 80}],
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
                readinessProbe={"tcpSocket": {"port": 80}},
                args=[],
                securityContext={},
                env=[{"name": name, "value": value} for name, value in (("A", "1"), ("B", "2"), ("A", "3"))],
            )
        ],
        "affinity": {"podAntiAffinity": {}},
    },
}
JOBS: dict[str, Json] = {
    "plain": job("plain"),
    "sized": job("sized", parallelism=4, completions=3, completionMode="Indexed"),
    "rich": job("rich", template=RICH, parallelism=2),
    "labelled": job(
        "labelled",
        labels={"kueue.x-k8s.io/priority-class": "high", "kueue.x-k8s.io/max-exec-time-seconds": "90", "o": "p"},
        annotations={
            "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60",
            "kueue.x-k8s.io/admission-gated-by": "example.com/gate",
            "other": "annotation",
        },
    ),
    "partial": job("partial", parallelism=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}),
    "long": job("l" * 60),
    "set": job_set("set"),
    "set-labelled": job_set("set-labelled", labels={"kueue.x-k8s.io/priority-class": "high"}),
}


def prepare(servers: Fleet) -> None:
    classes = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
            "description": "",
        },
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 7},
    ]
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(classes))


def workloads(servers: Fleet) -> list[Json]:
    found: list[Json] = json.loads(servers.kubectl("get", "workloads", "--output", "json"))["items"]
    return found


def workload_of(servers: Fleet, name: str) -> Json | None:
    found = [one for one in workloads(servers) if one["metadata"]["ownerReferences"][0]["name"] == name]
    return found[0] if len(found) == 1 else None


def plain(workload: Json) -> Json:
    """A Workload without what the API server adds to it, or what is written to its status."""
    metadata = {key: value for key, value in workload["metadata"].items() if key not in OF_THE_SERVER}
    return {"metadata": metadata, "spec": workload["spec"]}


def let_go(servers: Fleet) -> None:
    """Delete all Workloads, with nobody there who would hold them."""
    for one in workloads(servers):
        name = one["metadata"]["name"]
        servers.kubectl("patch", "workload", name, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')
        servers.kubectl("delete", "workload", name, "--ignore-not-found")


def test_workloads_are_those_of_kueues_own_manager(servers: Fleet, database_url: str) -> None:
    prepare(servers)
    names = {made["metadata"]["name"] for made in JOBS.values()}
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(JOBS.values()))
    with servers.kueue(MANAGEMENT, FRAMEWORKS):
        until("Kueue's Workloads", lambda: all(workload_of(servers, name) for name in names))
    theirs = {name: plain(workload_of(servers, name) or {}) for name in names}
    let_go(servers)
    with serving(servers, database_url):
        until("our Workloads", lambda: all(workload_of(servers, name) for name in names))
    ours = {name: plain(workload_of(servers, name) or {}) for name in names}
    for name in sorted(names):
        assert json.dumps(ours[name], sort_keys=True, indent=1) == json.dumps(theirs[name], sort_keys=True, indent=1), (
            name
        )
    servers.kubectl("delete", "jobs,jobsets", "--all")
    let_go(servers)


def queue(name: str, cpu: str) -> list[Json]:
    api = "kueue.x-k8s.io/v1beta2"
    quota = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "8Gi"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "spot", "resources": quota}]}]
    flavor = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "spot"}, "spec": flavor},
        {
            "apiVersion": api,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"resourceGroups": groups, "namespaceSelector": {}},
        },
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"clusterQueue": name},
        },
    ]


def says(obj: Json | None, type_: str) -> Json:
    conditions = (obj or {}).get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == type_), {})


def test_jobs_run_and_end_with_no_kueue_there(servers: Fleet, database_url: str, tmp_path: Path) -> None:
    prepare(servers)
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([*queue("cq", "3"), job("first", parallelism=2)]))
    with serving(servers, database_url):
        first = until("the first", lambda: (one := servers.get("job", "first")) and not one["spec"]["suspend"] and one)
        pod = first["spec"]["template"]
        assert pod["spec"]["nodeSelector"] == {"pool": "spot"}
        assert pod["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
        servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job("second", parallelism=2, suspend=False)))
        until("the second", lambda: (servers.get("job", "second") or {})["spec"]["suspend"])
        waits = until("its reason", lambda: (one := workload_of(servers, "second")) and says(one, "QuotaReserved"))
        assert waits["status"] == "False"
        at = "2026-01-01T00:00:00Z"
        servers.job_status(MANAGEMENT, "first", {"startTime": at, "active": 2, "ready": 2})
        done: Json = {"status": "True", "reason": "CompletionsReached", "lastProbeTime": at, "lastTransitionTime": at}
        conditions = [{**done, "type": kind, "message": "all done"} for kind in ("SuccessCriteriaMet", "Complete")]
        ended = {"active": 0, "ready": 0, "succeeded": 2, "completionTime": at, "conditions": conditions}
        servers.job_status(MANAGEMENT, "first", ended)
        finished = until("its end", lambda: says(workload_of(servers, "first"), "Finished"))
        assert (finished["reason"], finished["message"]) == ("Succeeded", "all done")
        until("the second's turn", lambda: not (servers.get("job", "second") or {})["spec"]["suspend"])
        until("the finalizer", lambda: "finalizers" not in (workload_of(servers, "first") or {})["metadata"])
        _preempted(servers, at)
        told = json.loads(servers.kubectl("get", "events.events.k8s.io", "--output", "json"))["items"]
        of_jobs = {one["reason"] for one in told if one["regarding"]["kind"] == "Job"}
        assert {"CreatedWorkload", "Started", "Stopped", "FinishedWorkload"} <= of_jobs


@contextmanager
def process(servers: Fleet, url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have `controlplane run` in a process of its own, which is killed at the end."""
    environment = {
        **os.environ,
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_DATABASE_ROLE": "controlplane_service",
        "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(servers.path),
        "CONTROLPLANE_QUOTA_MODE": "builtin",
        "CONTROLPLANE_HTTP_PORT": str(realserver.free_port()),
        "CONTROLPLANE_HTTP_ADDRESS": "127.0.0.1",
    }
    with (folder / "log").open("ab") as log:
        found = subprocess.Popen([sys.executable, "-m", "controlplane", "run"], env=environment, stdout=log, stderr=log)
        try:
            yield found
        finally:
            found.kill()
            found.wait(60)


def test_a_process_that_is_killed_at_any_moment_doubles_nothing(
    servers: Fleet, database_url: str, tmp_path: Path
) -> None:
    """Each process is killed after it has decided more than the one before: some of it is written by then, some is
    not."""
    prepare(servers)
    servers.kubectl("delete", "jobs", "--all")
    let_go(servers)
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(queue("cq", "3")))
    names = [f"killed-{at}" for at in range(6)]
    servers.kubectl(
        "apply", "-f", "-", stdin=yaml.safe_dump_all([job(name, suspend=at % 2 == 0) for at, name in enumerate(names)])
    )

    def decided(count: int) -> bool:
        with psycopg.connect(database_url, autocommit=True) as connection:
            query = "SELECT count(*) FROM audit.events WHERE stream LIKE 'jobframework/job/%' AND type LIKE '%Decided'"
            (found,) = connection.execute(query).fetchone() or (0,)
        return int(found) >= count

    for count in (1, 3, 7, 10):
        with process(servers, database_url, tmp_path) as running:
            until(f"{count} decisions", lambda count=count: decided(count) or running.poll() is not None)
            assert running.poll() is None, (tmp_path / "log").read_text()[-3000:]
    with process(servers, database_url, tmp_path):
        until("a Workload each", lambda: all(workload_of(servers, name) for name in names))
        until("three that run", lambda: len(_running(servers, names)) == 3)
        until("the others wait", lambda: all(_settled(servers, name) for name in names))
    told = json.loads(servers.kubectl("get", "events.events.k8s.io", "--output", "json"))["items"]
    for name in names:
        made = [one for one in told if one["regarding"]["name"] == name and one["reason"] == "CreatedWorkload"]
        assert len(made) <= 1
    with psycopg.connect(database_url, autocommit=True) as connection:
        query = (
            "SELECT stream, count(DISTINCT data ->> 'uid') FROM audit.events WHERE type = 'JobWorkloadObserved' "
            "GROUP BY 1"
        )
        assert dict(connection.execute(query).fetchall()) == {
            f"jobframework/job/jobs.batch/default/{name}": 1 for name in names
        }


def _running(servers: Fleet, names: Sequence[str]) -> set[str]:
    return {name for name in names if not (servers.get("job", name) or {})["spec"]["suspend"]}


def _settled(servers: Fleet, name: str) -> bool:
    """Whether a job runs if its Workload is admitted, and only then."""
    admitted = says(workload_of(servers, name), "Admitted").get("status") == "True"
    return admitted is not (servers.get("job", name) or {})["spec"]["suspend"]


def _preempted(servers: Fleet, at: str) -> None:
    """The second is deactivated by its user while it runs: it stops, and gives its quota back once its pods are
    gone."""
    servers.job_status(MANAGEMENT, "second", {"startTime": at, "active": 2, "ready": 2})
    name = (workload_of(servers, "second") or {})["metadata"]["name"]
    servers.kubectl("patch", "workload", name, "--type=merge", "--patch", '{"spec": {"active": false}}')
    until("the stop", lambda: (servers.get("job", "second") or {})["spec"]["suspend"])
    assert says(workload_of(servers, "second"), "QuotaReserved")["status"] == "True"
    servers.job_status(MANAGEMENT, "second", {"active": 0, "ready": 0})
    until("the quota", lambda: says(workload_of(servers, "second"), "QuotaReserved")["status"] == "False")
    stopped = servers.get("job", "second") or {}
    assert "startTime" not in stopped["status"]
    assert "nodeSelector" not in stopped["spec"]["template"]["spec"]
    assert "kueue.x-k8s.io/stopping" not in stopped["metadata"].get("annotations", {})
