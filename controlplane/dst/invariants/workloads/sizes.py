"""The copy of an elastic job has the size of the job's last slice when it ends.

In: the ends of copies on workers, and the slices on the management cluster. Out: a violation. What was admitted a
moment ago may still be on its way, and while there is trouble it may be so for long; hence only what ends a while after
all trouble is looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from controlplane.dst.engine.trace import Trace
from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.kube.slices import ELASTIC_JOB
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kueue.common import parse_timestamp

RULE = "a copy has the size of its job's last slice"
_SETTLED = timedelta(minutes=1)


class SizeRules:
    """Looks at the ends of elastic jobs' copies. `looked` counts them."""

    def __init__(self, trace: Trace, now: Callable[[], datetime], management: Callable[[], Store]) -> None:
        self._trace, self._now, self._management = trace, now, management
        self._calm_since: datetime | None = None
        self.looked = 0

    def calm(self) -> None:
        """All trouble has ended."""
        self._calm_since = self._now()

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a change on a worker."""
        record = commit.record
        if record.kind != JOBS or not self._is_ours(record.obj) or not _ends(commit):
            return
        since = self._calm_since
        if since is None or self._now() - since < _SETTLED:
            return
        wanted = self._last_slice(str(meta(record.obj)["name"]))
        if wanted is None:
            return
        self.looked += 1
        has = record.obj["spec"].get("parallelism")
        if has != wanted:
            detail = f"{record.name} ends on {cluster} with {has} pods, its last slice has {wanted}"
            self._trace.violate(RULE, detail)

    def _is_ours(self, job: Json) -> bool:
        metadata = meta(job)
        elastic = (metadata.get("annotations") or {}).get(ELASTIC_JOB) == "true"
        return elastic and ORIGIN_LABEL in (metadata.get("labels") or {})

    def _last_slice(self, job: str) -> int | None:
        """Return how many pods the last slice of a job has; None if it was admitted a moment ago, or not at all: then
        the job has the size of one before."""
        slices = [record for record in self._management().records(WORKLOADS) if _is_slice_of(record, job)]
        if not slices:
            return None
        newest = max(slices, key=lambda record: str(meta(record.obj)["creationTimestamp"])).obj
        if not is_true(newest, "Admitted") or self._now() - _admitted_at(newest) < _SETTLED:
            return None
        return int(newest["spec"]["podSets"][0]["count"])


def _ends(commit: Commit) -> bool:
    outcome = INTEGRATIONS[JOBS].outcome
    before = commit.previous.obj.get("status") if commit.previous is not None else None
    now = commit.record.obj.get("status")
    return commit.type == "MODIFIED" and outcome(now or {}) is not None and outcome(before or {}) is None


def _is_slice_of(record: Record, job: str) -> bool:
    owners = meta(record.obj).get("ownerReferences") or ()
    return any(owner["name"] == job for owner in owners)


def _admitted_at(workload: Json) -> datetime:
    found = condition(workload, "Admitted")
    assert found is not None
    return parse_timestamp(found["lastTransitionTime"])
