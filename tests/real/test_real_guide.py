"""docs/howto/real-clusters.md from end to end: every command of the page that an operator types, on real
kube-apiservers with Kueue's own managers, until a job has run on a worker. The test does what a kubelet and the Job
controllers would.

Runs where `KUBEBUILDER_ASSETS`, `CONTROLPLANE_TEST_CRDS` and `CONTROLPLANE_TEST_KUEUE` say where things are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import yaml

from controlplane.kube.kinds import Json
from tests.deploy.manifests import ROOT
from tests.real.fleet import MANAGEMENT, WORKER, until
from tests.real.node import Container
from tests.real.operator import WHY, Operator, Page, operator_of

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
JOB = "hello"
part = partial(Page, "howto/real-clusters.md")


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator_of(tmp_path_factory.mktemp("guide")) as found:
        yield found


def types(operator: Operator, commands: Iterable[str]) -> None:
    for command in commands:
        operator.types(command)


def test_the_page_leads_from_nothing_to_a_job_that_ran(operator: Operator) -> None:
    fleet = operator.fleet
    with ExitStack() as stack:
        # 1. Kueue on both, its own controller of MultiKueue off on the management cluster
        configuration = yaml.safe_load(part("1.").blocks("yaml")[0])
        stack.enter_context(fleet.kueue(MANAGEMENT, **configuration["featureGates"]))
        stack.enter_context(fleet.kueue(WORKER))
        database(operator)
        types(operator, part("3.").commands())
        types(operator, part("4.").commands(to="kubectl apply -k deploy/multikueue-webhook"))
        service = operator.container("kueue-system", "deployment", "controlplane")
        stack.enter_context(service.running())
        until(f"the service is ready: {service.log()}", service.ready)
        queues(operator)
        until("worker-a is connected", lambda: "True" in fleet.kubectl("get", "multikueuecluster", WORKER))
        assert WORKER in service.run("clusters")
        lease = ("-n", "kube-system", "get", "lease", "controlplane.kueue.x-k8s.io.multikueue", "-o", "yaml")
        until("its log keeps others away", lambda: "holderIdentity: main/" in fleet.kubectl(*lease))
        submit(operator, service)
        # And what the last part says: the objects stay, and Kueue's own may take them over.
        operator.types("kubectl delete -k deploy/base")
        assert fleet.get("job", JOB) is not None


def database(operator: Operator) -> None:
    """Step 2. The test does what the Job controller and a kubelet would."""
    types(operator, part("2.").commands(to="kubectl -n controlplane-migrate wait"))
    migration = operator.container("controlplane-migrate", "job", "controlplane-migrate")
    migration.run()
    at = "2026-01-01T00:00:00Z"
    done = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in ("SuccessCriteriaMet", "Complete")]
    patch = {"status": {"conditions": done, "startTime": at, "completionTime": at, "succeeded": 1}}
    words = ("patch", "job", "controlplane-migrate", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    operator.fleet.kubectl("-n", "controlplane-migrate", *words)
    operator.types(part("2.").commands()[-1])


def queues(operator: Operator) -> None:
    """Step 5, with the examples whose names the page tells the reader to change."""
    fleet = operator.fleet
    essential = part("5.").blocks("yaml")[0]
    fleet.kubectl("apply", "-f", "-", stdin=(ROOT / "examples/management/kueue.yaml").read_text())
    fleet.kubectl("apply", "-f", "-", stdin=essential)
    fleet.kubectl("apply", "-k", str(ROOT / "examples/worker"), context=WORKER)
    until("the check is active", lambda: active(fleet.get("admissioncheck", "multikueue")))
    until("the queue is active", lambda: active(fleet.get("clusterqueue", "cluster-queue")))
    for command in part("5.").commands()[:1]:
        operator.types(command)


def submit(operator: Operator, service: Container) -> None:
    """Step 6, and what the worker's Job controller does."""
    fleet = operator.fleet
    job: Json = yaml.safe_load(part("6.").blocks("yaml")[0])
    prefix = job["metadata"].pop("generateName")
    assert prefix == f"{JOB}-"
    job["metadata"]["name"] = JOB
    fleet.kubectl("create", "-f", "-", stdin=yaml.safe_dump(job))
    until("the worker's Kueue starts the copy", lambda: started(fleet.get("job", JOB, context=WORKER)))
    fleet.job_status(WORKER, JOB, {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"})
    until("the status comes back", lambda: (fleet.get("job", JOB) or {})["status"].get("active") == 1)
    findings = json.loads(service.run("doctor", "--output", "json"))
    # Which LocalQueues there are, the service's account may not read, since it has no need to.
    assert {one["name"]: one["result"] for one in findings if one["result"] != "ok"} == {
        "queues/local queues": "unknown"
    }
    at = "2026-01-01T00:00:10Z"
    ended = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in ("SuccessCriteriaMet", "Complete")]
    fleet.job_status(WORKER, JOB, {"active": 0, "ready": 0, "succeeded": 1, "completionTime": at, "conditions": ended})
    until("the job is complete here", lambda: "Complete" in str((fleet.get("job", JOB) or {})["status"]))
    until("nothing is left there", lambda: fleet.get("job", JOB, context=WORKER) is None)
    told = service.run("timeline", f"default/{JOB}")
    assert WORKER in told


def active(found: Json | None) -> bool:
    """Whether an object has the condition Active."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Active" and one["status"] == "True" for one in conditions)


def started(found: Json | None) -> bool:
    """Whether a Job is there and not suspended."""
    return found is not None and found["spec"].get("suspend") is False
