"""Groups of pods that are dispatched to a worker where Kueue's own manager has them: nothing of a group stays there
once it has ended or was taken back, and another one of its name may come.

Runs where `KUBEBUILDER_ASSETS`, `CONTROLPLANE_TEST_CRDS` and `CONTROLPLANE_TEST_KUEUE` say where things are. No kubelet
and no controller of Kubernetes runs there: a test plays them. On the management cluster this service decides about
quota, so that there is no Kueue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane.job_kinds.gated import HELD
from tests.real.fleet import WHY_NOT, WORKER, Fleet, fleet, until
from tests.real.test_real_jobframework import says
from tests.real.test_real_pods import create, hooked, pod, process, runs

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("groups")) as found:
        found.examples()
        with found.kueue(WORKER, ("batch/job", "pod")):
            yield found


@pytest.fixture(scope="module")
def hook(servers: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    return hooked(servers, tmp_path_factory.mktemp("hook"))


def submitted(servers: Fleet, *names: str) -> dict[str, str]:
    """Submit a group of two once the webhook knows the queue; return the UIDs of its pods on the worker once Kueue lets
    them run there."""
    probe = yaml.safe_dump(pod("probe", queue="user-queue"))
    asked = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    until("the webhook's gate", lambda: HELD in servers.kubectl(*asked, stdin=probe))
    names = names or ("a", "b")
    create(servers, *(pod(name, group="g", queue="user-queue") for name in names))

    def let_run() -> dict[str, str]:
        found = [servers.get("pod", name, context=WORKER) for name in names]
        ready = [one for one in found if one is not None and not one["spec"].get("schedulingGates")]
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in ready} if len(ready) == len(found) else {}

    return until("the copies are let run", let_run)


def left_on_worker(servers: Fleet) -> list[str]:
    found = json.loads(servers.kubectl("get", "pods,workloads", "--output", "json", context=WORKER))["items"]
    return [one["metadata"]["name"] for one in found]


def stops(servers: Fleet, name: str) -> None:
    """Play the kubelet of a pod on the worker that is being deleted: it has ended, and may be removed at once."""
    until("its deletion", lambda: "deletionTimestamp" in (servers.get("pod", name, context=WORKER) or {})["metadata"])
    runs(servers, name, "Failed", context=WORKER)
    servers.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false", context=WORKER)


def phase(servers: Fleet, name: str) -> str:
    return str((servers.get("pod", name) or {}).get("status", {}).get("phase"))


def test_a_group_ends_and_another_one_of_its_name_comes(
    servers: Fleet, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    with process(servers, database_url, tmp_path, hook):
        first = submitted(servers)
        for name in first:
            runs(servers, name, context=WORKER)
        until("that it runs", lambda: [phase(servers, name) for name in first] == ["Running", "Running"])
        for name in first:
            runs(servers, name, "Succeeded", context=WORKER)
        until("its end", lambda: says(servers.get("workload", "g"), "Finished").get("reason") == "Succeeded")
        until("that nothing of it is on the worker", lambda: not left_on_worker(servers))
        assert [phase(servers, name) for name in first] == ["Succeeded", "Succeeded"]
        servers.kubectl("delete", "pods", "a", "b", "--grace-period=0", "--force")
        servers.kubectl("delete", "workload", "g")  # as the garbage collector would
        second = submitted(servers)
        assert not set(first.values()) & set(second.values())
        runs(servers, "a", context=WORKER)
        until("that it runs", lambda: phase(servers, "a") == "Running")
        servers.kubectl("delete", "pods", "a", "b", "--grace-period=0", "--wait=false")
        servers.kubectl("delete", "workload", "g", "--wait=false")
        stops(servers, "a")
        until("that nothing of it is on the worker", lambda: not left_on_worker(servers))
        until("that nothing of it is here", lambda: not servers.get("pod", "a") and not servers.get("workload", "g"))


def test_a_group_whose_copies_somebody_deletes_on_the_worker_runs_in_other_pods(
    servers: Fleet, hook: tuple[Path, int], database_url: str, tmp_path: Path
) -> None:
    with process(servers, database_url, tmp_path, hook):
        submitted(servers)
        runs(servers, "a", context=WORKER)
        servers.kubectl("delete", "workload", "g", "--wait=false", context=WORKER)
        servers.kubectl("delete", "pod", "a", "--grace-period=0", "--wait=false", context=WORKER)
        stops(servers, "a")
        waits = ("WaitingForReplacementPods", "True")
        until("the wait", lambda: says(servers.get("workload", "g"), waits[0]).get("status") == waits[1])
        second = submitted(servers, "c", "d")
        until("that the others are let go", lambda: not (servers.get("pod", "a") or servers.get("pod", "b")))
        for name in second:
            runs(servers, name, context=WORKER)
            runs(servers, name, "Succeeded", context=WORKER)
        until("its end", lambda: says(servers.get("workload", "g"), "Finished").get("reason") == "Succeeded")
        until("that nothing of it is on the worker", lambda: not left_on_worker(servers))
