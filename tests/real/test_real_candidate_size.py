"""The largest Candidate on a real kube-apiserver: it is stored, its status is, and one that is larger is not.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd."""

from __future__ import annotations

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import CANDIDATES, MOST_BYTES
from controlplane.kube.kinds import ObjectRef, Request
from controlplane.runtime.writes import WriteFailure, says_no
from tests.candidates.test_size import AT, sized
from tests.real.test_real_candidate_pods import asked
from tests.real.test_real_scheduler import WHY, Real, kubeconfig, real

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]


async def test_the_largest_one_takes_a_status_and_a_larger_one_is_not_stored(real: Real) -> None:
    await asked(real, "large", sized(MOST_BYTES))
    said = {"phase": "Bound", "message": "x" * 1024, "podStatus": {"message": "x" * 48 * 1024}}
    ref = ObjectRef(CANDIDATES, "default", "large-1")
    shown = await real.api.write(Request("patch", ref, {"status": said}, subresource="status"))
    assert shown["status"]["phase"] == "Bound"
    with pytest.raises(ApiError) as failed:
        await asked(real, "larger", sized(MOST_BYTES + 128 * 1024))
    found = failed.value
    assert says_no(WriteFailure(1, found.status, found.reason, found.message, AT, "CandidateRequested"))
