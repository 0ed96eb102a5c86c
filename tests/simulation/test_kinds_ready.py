"""What simulated clusters show of a job whose pods are ready is what Kueue takes for ready, and of one that is
suspended is not."""

from __future__ import annotations

import pytest

from controlplane.dst.scenes.workloads.manifests import KINDS, spec_of
from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.kinds import Json

AT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("name", sorted(KINDS))
def test_who_is_shown_as_ready_is_ready(name: str) -> None:
    adapter = INTEGRATIONS[KINDS[name]]
    metadata = {"namespace": "default", "name": "job", "uid": "u", "creationTimestamp": AT}
    job: Json = {"metadata": metadata, "spec": spec_of(KINDS[name], 2)}
    status: Json = {}
    adapter.show_started(job, status, AT, ready=True)
    job["status"] = status
    assert adapter.ready(job)
    drained = adapter.drained(status)
    adapter.show_suspended(job | {"status": drained}, drained, AT)
    assert not adapter.active(drained)
