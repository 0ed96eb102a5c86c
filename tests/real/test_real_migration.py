"""docs/howto/migrate-from-kueue.md: Kueue's own MultiKueue dispatches, Controlplane takes over with jobs running, and
gives them back. On real kube-apiservers with Kueue's own managers; the chart is installed by Helm.

Runs where `KUBEBUILDER_ASSETS`, `CONTROLPLANE_TEST_CRDS` and `CONTROLPLANE_TEST_KUEUE` say where things are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import yaml

from controlplane.kube.kinds import Json
from tests.deploy.charts import HELM
from tests.deploy.manifests import ROOT
from tests.real.fleet import MANAGEMENT, WORKER, Fleet, until
from tests.real.operator import WHY, Operator, Page, operator_of

pytestmark = pytest.mark.skipif(bool(WHY) or HELM is None, reason=WHY or "helm is not there")
part = partial(Page, "howto/migrate-from-kueue.md")
AT, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator_of(tmp_path_factory.mktemp("migration")) as found:
        for command in Page("howto/real-clusters.md", "2.").commands(to="kubectl"):
            found.types(command)
        found.environment["CONTROLPLANE_DATABASE_URL"] = found.database("controlplane_owner")
        found.types("controlplane db upgrade")
        secrets(found)
        (found.folder / "values.yaml").write_text("{}\n")
        (found.folder / "settings.yaml").write_text((ROOT / "deploy/base/settings.yaml").read_text())
        yield found


def secrets(operator: Operator) -> None:
    """What a fleet that Kueue serves has already: the worker's kubeconfig; and the database's URL."""
    text = yaml.safe_dump(operator.fleet.kubeconfigs[WORKER])
    (operator.folder / "kubeconfig").write_text(text)
    in_namespace = ("--namespace", "kueue-system", "create", "secret", "generic")
    operator.fleet.kubectl(*in_namespace, WORKER, f"--from-file=kubeconfig={operator.folder / 'kubeconfig'}")
    url = operator.database("controlplane_service")
    operator.fleet.kubectl(*in_namespace, "controlplane-database", f"--from-literal=url={url}")
    operator.environment["CONTROLPLANE_DATABASE_URL"] = url


def job(fleet: Fleet, name: str, cpu: int) -> None:
    """Submit a Job of a user."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    body: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    fleet.kubectl("create", "-f", "-", stdin=yaml.safe_dump(body))


def starts(fleet: Fleet, name: str) -> str:
    """Wait until a Job's copy was started by the worker's Kueue, play that a pod of it runs, and wait until that is
    told on the management cluster. Return the copy's UID."""

    def copy() -> Json | None:
        found = fleet.get("job", name, context=WORKER)
        return found if found is not None and found["spec"].get("suspend") is False else None

    uid: str = until(f"{name} is started", copy)["metadata"]["uid"]
    fleet.job_status(WORKER, name, {"active": 1, "ready": 1, "startTime": AT})
    until(f"{name} is told to run", lambda: status(fleet, name).get("active") == 1)
    return uid


def ends(fleet: Fleet, name: str) -> None:
    """Play that a Job's pod ends well, and wait until that is told and the copy is gone."""
    done = [
        {"type": kind, "status": "True", "lastTransitionTime": LATER} for kind in ("SuccessCriteriaMet", "Complete")
    ]
    ended = {"active": 0, "ready": 0, "succeeded": 1, "completionTime": LATER, "conditions": done}
    fleet.job_status(WORKER, name, ended)
    until(f"{name} is told to be complete", lambda: "Complete" in str(status(fleet, name)))
    until(f"the copy of {name} is gone", lambda: fleet.get("job", name, context=WORKER) is None)


def status(fleet: Fleet, name: str) -> Json:
    found = fleet.get("job", name)
    return (found or {}).get("status") or {}


def copies(fleet: Fleet) -> dict[str, str]:
    """Return the UIDs of the Jobs that are on the worker."""
    found = yaml.safe_load(fleet.kubectl("get", "jobs", "--output", "yaml", context=WORKER))["items"]
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def test_jobs_run_on_while_controlplane_takes_over_and_gives_back(operator: Operator) -> None:
    fleet = operator.fleet
    *before, install, connected, clusters, workloads, compare = part("Move").commands()
    looks = (connected, clusters, workloads)
    for name, folder in ((MANAGEMENT, "management"), (WORKER, "worker")):
        text = fleet.kubectl("kustomize", str(ROOT / "examples" / folder))
        fleet.kubectl("apply", "-f", "-", stdin=text, context=name)
    with ExitStack() as stack:
        stack.enter_context(fleet.kueue(WORKER))
        with fleet.kueue(MANAGEMENT, MultiKueue=True):
            job(fleet, "long", 4)
            job(fleet, "early", 1)
            running = starts(fleet, "long")
            starts(fleet, "early")
            ends(fleet, "early")
            job(fleet, "waiting", 6)
            until("the worker is asked", lambda: "job-waiting" in fleet.kubectl("get", "workloads", context=WORKER))
            for command in before:
                operator.types(command)
        with fleet.kueue(MANAGEMENT, MultiKueue=False):
            operator.types(install)
            service = operator.container("kueue-system", "deployment", "controlplane")
            with service.running():
                until("it is ready", service.ready)
                until("worker-a is connected", lambda: "True" in fleet.kubectl("get", "multikueuecluster", WORKER))
                for command in looks:
                    operator.types(command)
                assert operator.types(compare) == ""
                assert copies(fleet)["long"] == running
                told = operator.types("controlplane why default/long")
                assert WORKER in told, told
                ends(fleet, "long")
                kept = starts(fleet, "waiting")
            for command in part("And back").commands():
                operator.types(command)
        with fleet.kueue(MANAGEMENT, MultiKueue=True):
            job(fleet, "after", 1)
            starts(fleet, "after")
            assert copies(fleet)["waiting"] == kept
            ends(fleet, "waiting")
            ends(fleet, "after")
    assert {
        one: "Complete" in str(status(fleet, one)) for one in ("early", "long", "waiting", "after")
    } == dict.fromkeys(("early", "long", "waiting", "after"), True)
