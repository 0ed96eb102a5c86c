"""Readiness gates on a real kube-apiserver: what a source says of them stays in the Candidate, comes to the Pod that is
bound, and goes from it.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd. The scheduler has the rights of deploy/scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.controllers.candidates.objects import CANDIDATES, stamp
from controlplane.kube.kinds import PODS, Json, ObjectRef, Request
from tests.real.test_real_candidate_pods import asked, comes_to, invited
from tests.real.test_real_scheduler import WHY, Real, kubeconfig, real, until

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
GATE = "example.com/registered"


def stands(kind: str, status: str) -> Json:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": "Done", "message": "it is", "lastTransitionTime": at}


async def test_what_the_source_says_of_a_gate_comes_to_the_pod(real: Real) -> None:
    await real.node("gates", cpu="4")
    await invited(real)
    spec = {"containers": [{"name": "c", "image": "i"}], "readinessGates": [{"conditionType": GATE}]}
    await asked(real, "gated", {"metadata": {"name": "gated"}, "spec": spec}, conditions=[])
    ref = ObjectRef(CANDIDATES, "default", "gated-1")
    assert (await real.api.get(CANDIDATES, "default", "gated-1"))["spec"]["conditions"] == []
    await comes_to(real, "gated", "Reserved")
    lease = stamp(datetime.now(UTC) + timedelta(seconds=30))
    permit = {"number": 1, "kind": "Bind", "reservation": 1, "until": lease}
    await real.api.write(Request("patch", ref, {"spec": {"permit": permit}}))
    await comes_to(real, "gated", "Bound")
    for status in ("False", "True"):
        said = [stands(GATE, status), stands("Ready", "True")]
        await real.api.write(Request("patch", ref, {"spec": {"conditions": said}}))

        async def has(wanted: str = status) -> bool:
            shown = (await real.api.get(PODS, "default", "gated-1"))["status"].get("conditions") or []
            assert "Ready" not in {one["type"] for one in shown}
            return stands(GATE, wanted).items() <= next((one for one in shown if one["type"] == GATE), {}).items()

        await until(has)

    async def has_not() -> bool:
        shown = (await real.api.get(PODS, "default", "gated-1"))["status"].get("conditions") or []
        return GATE not in {one["type"] for one in shown}

    await real.api.write(Request("patch", ref, {"spec": {"conditions": []}}))
    await until(has_not)
