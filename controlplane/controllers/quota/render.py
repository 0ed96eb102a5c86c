"""Makes the requests of quota automation: merge patches of a ClusterQueue, each for the version that it rests on.

In: the ClusterQueue as it was seen, a decision, the time. Out: a request. Both lists are written whole, so that only
the version keeps what somebody else has changed in them meanwhile."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.quota import events
from controlplane.controllers.quota.aggregate import CONDITION
from controlplane.kube.conditions import Condition, condition_json
from controlplane.kube.kinds import CLUSTER_QUEUES, Json, ObjectRef, Request
from controlplane.kube.requests import timestamp


def request(queue: events.QuotaQueueObserved, decision: events.QuotaWrite, now: datetime) -> Request | None:
    """Return the request of a decision; None if the ClusterQueue is not the one that it was taken on."""
    if decision.resource_version != queue.resource_version:
        return None
    if isinstance(decision, events.QuotaConditionDecided):
        return _patch(queue, {"status": {"conditions": _conditions(queue, decision, now)}}, "status")
    assert isinstance(decision, events.QuotaDecided)
    resources = [{"name": name, "nominalQuota": amount} for name, amount in decision.resources.items()]
    group = {
        "coveredResources": queue.groups[0].covered,
        "flavors": [{"name": decision.flavor, "resources": resources}],
    }
    return _patch(queue, {"spec": {"resourceGroups": [group]}}, "")


def _patch(queue: events.QuotaQueueObserved, body: Json, subresource: str) -> Request:
    place = ObjectRef(CLUSTER_QUEUES, "", queue.name)
    version = queue.resource_version
    return Request("patch", place, body, subresource=subresource, uid=queue.uid, resource_version=version)


def _conditions(queue: events.QuotaQueueObserved, decision: events.QuotaConditionDecided, now: datetime) -> list[Json]:
    others = [condition_json(one) for one in queue.conditions if one.type != CONDITION]
    if not decision.status:
        return others
    before = next((one for one in queue.conditions if one.type == CONDITION), None)
    same = before is not None and before.status == decision.status
    made = Condition(
        type=CONDITION,
        status=decision.status,
        reason=decision.condition_reason,
        message=decision.message,
        last_transition_time=before.last_transition_time if before is not None and same else timestamp(now),
        observed_generation=decision.generation,
    )
    return [*others, condition_json(made)]
