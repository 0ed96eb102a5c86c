"""What a pod asks for that its profile leaves out is a reason not to bind it, said in the words that the pod shows."""

from __future__ import annotations

import pytest

from controlplane.controllers.scheduling.cycle import schedule
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.configuration import build
from controlplane.controllers.scheduling.framework.configuration import read as read_configuration
from controlplane.controllers.scheduling.unsupported import CLAIMED
from tests.scheduler.objects import node, pod

WITHOUT = {"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}


@pytest.mark.parametrize(("claims", "node_name"), [([{"name": "gpu", "resourceClaimName": "gpu"}], ""), ([], "n")])
def test_a_profile_without_dynamic_resources_binds_no_pod_that_needs_them(claims: list[object], node_name: str) -> None:
    (framework,) = build(read_configuration({"profiles": [WITHOUT]})).values()
    question = read({"id": "q", "pod": pod("new", resourceClaims=claims), "nodes": [node("n")]})
    found = schedule(framework, question.snapshot, question.pod)
    assert found.node == node_name
    assert (CLAIMED in found.status.reasons[0]) is bool(claims) if found.status.reasons else node_name
