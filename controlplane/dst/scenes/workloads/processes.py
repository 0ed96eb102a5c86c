"""Says under which policy Workloads are dispatched in plans of an edition."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.job_kinds import adapters_for

POLICY = MultiKueuePolicy(
    adapters=adapters_for(["batch/job", "jobset.x-k8s.io/jobset"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
_JOBS_ONLY = msgspec.structs.replace(POLICY, adapters=adapters_for(["batch/job"]))


def policy_of(edition: int) -> MultiKueuePolicy:
    """Return the policy under which plans of an edition are played: the first one knows no JobSets."""
    return POLICY if edition > 1 else _JOBS_ONLY
