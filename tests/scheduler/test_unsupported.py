"""What a pod asks for that is not implemented is a reason not to bind it, said in the words that the pod shows."""

from __future__ import annotations

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from tests.scheduler.objects import node, pod


def test_a_pod_with_resource_claims_is_refused() -> None:
    asked = pod("new", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    combined = answer(read({"id": "q", "pod": asked, "nodes": [node("n"), node("m")]}))["combined"]
    assert combined["feasible"] == []
    for status in combined["filter"].values():
        assert status["plugin"] == "DynamicResources"
        assert status["reasons"] == ["pod asks for spec.resourceClaims, which this scheduler does not allocate"]
