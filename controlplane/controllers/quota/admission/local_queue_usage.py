"""Decides when the past usage of a LocalQueue is sampled, and says what its status tells of it.

In: what is known, the LocalQueue as it was seen, and the moment. Out: the next sample or when it is due, and the
status. As with Kueue a sample is due when an interval is over, and when a Workload is admitted, whose entry penalty it
settles (kubernetes-sigs/kueue pkg/controller/core/localqueue_controller.go, `reconcileConsumedUsage`, and
workload_controller.go, `updateAfsConsumedUsage`, main after v0.19.2). What the status of a LocalQueue tells that has no
sample yet is taken over: it is what Kueue's manager counted, or this service before its log was begun anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.queue_status import is_admitted, local_readiness, with_quota
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.workload_status import moment
from controlplane.controllers.quota.engine.amounts import Requests, add, summed
from controlplane.controllers.quota.engine.model import NO_STOP
from controlplane.controllers.quota.engine.parse_queues import consumed_resources
from controlplane.controllers.quota.engine.past_usage import in_units
from controlplane.controllers.quota.engine.usage_history import quantities
from controlplane.kube.kinds import Json
from controlplane.kube.requests import later, timestamp

if TYPE_CHECKING:
    from controlplane.controllers.quota.admission.index import AdmissionIndex
    from controlplane.controllers.quota.admission.worker_usage import WorkerUsage

_FIELD = "fairSharing"


class NextSample(NamedTuple):
    """A sample that is due, and the position in the log that it rests on; or when one is, None if none will be."""

    event: events.LocalQueueUsageSampled | None = None
    cause: int = 0
    due: datetime | None = None


def sample(
    index: AdmissionIndex, elsewhere: WorkerUsage, seen: events.AdmissionLocalQueueObserved, now: datetime
) -> NextSample:
    """Return the next sample of a LocalQueue; `elsewhere`: what is used on workers."""
    if index.engine.settings.admission_fair_sharing is None:
        return NextSample()
    key, history = _key(seen), index.engine.history
    if not history.known(key):
        told = quantities(consumed_resources(seen.status))
        taken = events.LocalQueueUsageSampled(reason=R.USAGE_TAKEN_OVER, sampled_at=now, consumed=told)
        return NextSample(taken)
    settled, soonest = _settled(index, key), history.soonest(key)
    if not settled and soonest is not None and (at := datetime.fromtimestamp(soonest, UTC)) > now:
        return NextSample(due=at)  # what is used is counted when it is asked for: that takes as long as it is much
    used = _used(index, elsewhere, seen)
    if settled:
        cause = max(index.workload(one).position for one in settled)
        return NextSample(_sample(index, key, used, now, R.PENALTY_SETTLED, settled), cause)
    due = history.due(key, used)
    if due is None or not _goes_on(index, seen):
        return NextSample()
    # Compared as a moment: as a float it may be later than itself by less than a clock tells.
    if (at := datetime.fromtimestamp(due, UTC)) > now:
        return NextSample(due=at)
    return NextSample(_sample(index, key, used, now, R.USAGE_SAMPLED, ()))


def told(index: AdmissionIndex, seen: events.AdmissionLocalQueueObserved, status: Json) -> None:
    """Let a status tell the last sample; it stays as it is where past usage does not count."""
    key, history = _key(seen), index.engine.history
    if index.engine.settings.admission_fair_sharing is None or not history.known(key):
        return
    consumed, updated = history.consumed(key)
    before = status.get(_FIELD) or {}
    said = {
        "consumedResources": {**_nothing(index, seen), **quantities(consumed)},
        "lastUpdate": timestamp(datetime.fromtimestamp(updated, UTC)),
    }
    # As with Kueue, nobody computes a share of a LocalQueue, and the field is required.
    status[_FIELD] = {"weightedShare": 0, **before, "admissionFairSharingStatus": said}


def rests_until(index: AdmissionIndex, seen: events.AdmissionLocalQueueObserved, changes: Json) -> datetime | None:
    """Return until when changes of a status are not written, None if they are: the past usage alone is no reason to
    write more often than it is sampled."""
    sharing = index.engine.settings.admission_fair_sharing
    if sharing is None or set(changes) != {_FIELD}:
        return None
    said = (seen.status.get(_FIELD) or {}).get("admissionFairSharingStatus") or {}
    last = moment(said.get("lastUpdate"))
    return later(last, sharing.sampling_interval) if last is not None else None


def _sample(
    index: AdmissionIndex, key: str, used: Mapping[str, Decimal], now: datetime, reason: R, settled: Sequence[str]
) -> events.LocalQueueUsageSampled:
    consumed = index.engine.history.sampled(key, used, now.timestamp(), settled)
    return events.LocalQueueUsageSampled(
        reason=reason,
        sampled_at=now,
        consumed=quantities(consumed),
        used=quantities(used),
        settled=list(settled),
    )


def _nothing(index: AdmissionIndex, seen: events.AdmissionLocalQueueObserved) -> dict[str, str]:
    """Return 0 for each resource of the ClusterQueue: Kueue tells of them though nothing was used, but for a past that
    never counts."""
    sharing = index.engine.settings.admission_fair_sharing
    node = index.engine.snapshot.queues.get(str(seen.spec.get("clusterQueue") or ""))
    if node is None or sharing is None or sharing.half_life == 0:
        return {}
    return {name: "0" for group in node.spec.groups for name in sorted(group.covered)}


def _key(seen: events.AdmissionLocalQueueObserved) -> str:
    return f"{seen.namespace}/{seen.name}"


def _goes_on(index: AdmissionIndex, seen: events.AdmissionLocalQueueObserved) -> bool:
    """Whether Kueue samples it: it is not stopped, and its ClusterQueue is active."""
    stopped = (seen.spec.get("stopPolicy") or NO_STOP) != NO_STOP
    return local_readiness(index, stopped=stopped, name=str(seen.spec.get("clusterQueue") or ""))[0] == "True"


def _used(
    index: AdmissionIndex, elsewhere: WorkerUsage, seen: events.AdmissionLocalQueueObserved
) -> dict[str, Decimal]:
    """Return what the admitted Workloads of a LocalQueue use now, in units, and those of its namesakes on workers."""
    node = index.engine.snapshot.queues.get(str(seen.spec.get("clusterQueue") or ""))
    dispatched: dict[str, Requests] = {}
    for info in with_quota(index, seen.namespace, seen.name, node):
        if is_admitted(index, info):
            of = dispatched.setdefault(_cluster_of(index, info.key), {})
            for (_, resource), amount in info.usage.items():
                of[resource] = add(of.get(resource, 0), amount)
    total = summed(dispatched.values())
    for cluster, used in elsewhere.of(_key(seen)).items():
        ours = dispatched.get(cluster, {})
        # What was dispatched there is in what the worker says, and is counted already.
        for resource, amount in used.items():
            total[resource] = add(total.get(resource, 0), max(0, amount - ours.get(resource, 0)))
    return in_units(total)


def _cluster_of(index: AdmissionIndex, key: str) -> str:
    """Return the worker that a Workload was dispatched to, "" if to none."""
    seen = index.workload(key).observed
    return str(seen.status.get("clusterName") or "") if seen is not None else ""


def _settled(index: AdmissionIndex, key: str) -> list[str]:
    """Return the Workloads that were admitted since the last sample, in a ClusterQueue where past usage counts."""
    found = []
    for name in index.engine.history.entered(key):
        info, state = index.engine.snapshot.workloads.get(name), index.workload(name)
        queue = index.engine.snapshot.queues.get(info.cluster_queue) if info is not None else None
        if info is None or queue is None or not index.engine.by_usage(queue.spec):
            continue
        # Who is finished or inactive has no penalty any more, so that who is admitted here is admitted for good.
        if state.reservation is None and state.observed is not None and is_admitted(index, info):
            found.append(name)
    return sorted(found)
