"""The source pod's status as an API server takes it: a container that has ended is not said to run again, whatever its
next delegate says, and nothing of a delegate's cluster is said of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.source.delegate_status import mirrored, restarts_of
from controlplane.kube.kinds import Json
from tests.candidates.stage import Stage, pod

DONE: Json = {"terminated": {"exitCode": 0}}
FAILED: Json = {"terminated": {"exitCode": 1}}
RUNS: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
SPEC: Json = {
    "initContainers": [{"name": "init", "image": "i"}],
    "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
}


def says(stage: Stage, where: str, init: Json, c: Json, d: Json, phase: str = "Running", **more: Any) -> None:
    """Have the pod in a target say the states of its containers."""
    key, store = stage.only(where), stage.stores[where]
    of: Any = lambda name, state: {"name": name, "restartCount": 1, "ready": False, "state": state}  # noqa: E731
    status = {
        "phase": phase,
        "initContainerStatuses": [of("init", init)],
        "containerStatuses": [of("c", c), of("d", d)],
        **more,
    }
    pods = {**store["pods"], key: {**store["pods"][key], "status": status}}
    stage.stores[where] = {**store, "pods": pods}
    stage.target_turn(where)


def states(stage: Stage) -> dict[str, str]:
    """Return the state of each container that the source pod shows, by its list and name."""
    status = stage.home["pods"]["web"]["status"]
    return {
        f"{field[:4]}/{one['name']}": next(iter(one["state"]))
        for field in ("initContainerStatuses", "containerStatuses")
        for one in status.get(field, ())
    }


def moved(policy: str, *, phase: str = "Running") -> Stage:
    """Return a stage on which a pod has lost its delegate in a, of which two containers had ended, and is in b."""
    stage = Stage("a", "b")
    stage.home["pods"]["web"] = pod(spec={**SPEC, "restartPolicy": policy})
    stage.delegated("a")
    says(stage, "a", DONE, DONE if phase == "Running" else {"waiting": {}}, RUNS, phase)
    stage.settle()
    stage.lose_pod("a")
    return stage.moved("b")


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_containers_that_had_ended_run_again_in_the_next_cluster(policy: str) -> None:
    stage = moved(policy)
    says(stage, "b", RUNS, {"waiting": {}}, {"waiting": {}}, "Pending")
    stage.settle()
    assert states(stage) == {"init/init": "running", "cont/c": "waiting", "cont/d": "waiting"}
    says(stage, "b", DONE, RUNS, RUNS)
    stage.settle()
    assert states(stage) == {"init/init": "terminated", "cont/c": "running", "cont/d": "running"}
    assert stage.look() == []
    assert stage.requests() == {}


def test_one_that_had_not_started_and_never_restarts_is_initialized_again() -> None:
    stage = moved("Never", phase="Pending")
    says(stage, "b", RUNS, {"waiting": {}}, {"waiting": {}}, "Pending")
    stage.settle()
    assert states(stage)["init/init"] == "running"
    assert stage.look() == []


def test_one_that_failed_and_is_started_again_is_shown_at_once() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(spec={**SPEC, "restartPolicy": "OnFailure"})
    stage.delegated("a")
    says(stage, "a", DONE, FAILED, RUNS)
    stage.settle()
    says(stage, "a", DONE, RUNS, RUNS)
    stage.look()
    (request,) = [one for one in stage.requests().values() if one.subresource == "status"]
    assert [one["name"] for one in request.body["status"]["containerStatuses"]] == ["c", "d"]


def test_between_two_delegates_each_container_is_in_the_list_that_it_is_of() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(spec={**SPEC, "restartPolicy": "Always"})
    stage.delegated("a")
    says(stage, "a", DONE, RUNS, RUNS)
    stage.settle()
    stage.lose_pod("a")
    stage.settle()
    assert states(stage) == {"init/init": "waiting", "cont/c": "waiting", "cont/d": "waiting"}
    assert restarts_of(stage.home["pods"]["web"]["status"]) == {"init": 1, "c": 1, "d": 1}


def test_nothing_of_the_delegates_cluster_is_said_of_the_pod() -> None:
    """Its class of quality is that of its resources there, where defaults may differ: an API server refuses another."""
    delegate: Json = {
        "qosClass": "Burstable",
        "extendedResourceClaimStatus": {"resourceClaimName": "web-abc"},
        "startTime": "2026-01-01T00:00:00Z",
    }
    shown = mirrored(delegate, "Running", {"c"}, {}, with_network=True)
    assert shown == {"phase": "Running", "conditions": [], "startTime": "2026-01-01T00:00:00Z"}


def test_what_a_delegate_no_longer_says_is_not_said_of_the_pod() -> None:
    stage = Stage("a", "b", mirror_pod_ips=True)
    stage.home["pods"]["web"] = pod(spec={**SPEC, "restartPolicy": "Always"})
    stage.delegated("a")
    where = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "1.1.1.1", "reason": "NodeLost"}
    says(stage, "a", DONE, RUNS, RUNS, message="gone", **where)
    stage.settle()
    assert stage.home["pods"]["web"]["status"]["podIP"] == "10.0.0.1"
    stage.lose_pod("a")
    stage.settle()
    left = stage.home["pods"]["web"]["status"].keys()
    assert not left & {"podIP", "podIPs", "hostIP", "reason", "message"}
