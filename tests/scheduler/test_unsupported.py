"""What a pod asks for that is not implemented is a reason not to bind it, said in the words that the pod shows."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.kinds import Json
from tests.scheduler.objects import node, pod
from tests.scheduler.test_preemption import running


def ask(asked: Json, pods: list[Json], claims: list[Json]) -> Json:
    """Return the default profile's answer."""
    line = {"id": "q", "pod": asked, "nodes": [node("n"), node("m")], "pods": pods, "persistentVolumeClaims": claims}
    return answer(read(line))


def claim(name: str, *modes: str, namespace: str = "default") -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"c-{name}", "annotations": BOUND},
        "spec": {"accessModes": list(modes), "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }


BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
USES: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def told(found: Json) -> set[str]:
    return {reason for status in found["combined"]["filter"].values() for reason in status["reasons"]}


def test_a_pod_with_resource_claims_is_refused() -> None:
    asked = pod("new", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    found = ask(asked, [], [])
    assert found["combined"]["feasible"] == []
    assert told(found) == {"pod asks for spec.resourceClaims, which this scheduler does not allocate"}
    assert {status["plugin"] for status in found["combined"]["filter"].values()} == {"DynamicResources"}


@pytest.mark.parametrize(
    ("modes", "used", "refused"),
    [
        (["ReadWriteOncePod"], True, True),
        (["ReadWriteOncePod"], False, False),
        (["ReadWriteOnce"], True, False),
        (["ReadWriteMany"], True, False),
    ],
)
def test_a_claim_for_one_pod_is_given_to_one(modes: list[str], used: bool, refused: bool) -> None:
    others = [running("first", "n", **USES)] if used else []
    found = ask(pod("new", **USES), others, [claim("data", *modes)])
    said = 'persistentvolumeclaim "data" has access mode ReadWriteOncePod and is used by pod default/first'
    assert (said in told(found)) == refused


def test_one_of_that_name_elsewhere_is_another() -> None:
    other = running("first", "n", **USES, meta={"name": "first", "namespace": "shop", "uid": "s"})
    claims = [claim("data", "ReadWriteOncePod"), claim("data", "ReadWriteOncePod", namespace="shop")]
    found = ask(pod("new", **USES), [other], claims)
    assert not any("ReadWriteOncePod" in reason for reason in told(found))
