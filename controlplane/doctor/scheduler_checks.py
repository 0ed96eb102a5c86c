"""Judges the Leases by which the schedulers of other logs are kept away: whether the scheduler's account may use them.

In: `ClusterFacts`, and what each Lease is for. Out: findings, one for each Lease, by its name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.doctor.facts import ClusterFacts
from controlplane.doctor.findings import MANAGEMENT, Finding, FindingMaker, Unread
from controlplane.doctor.rights import LEASES_OF_SCHEDULER, NeededRight
from controlplane.kube.kinds import LEASES


def check(cluster: ClusterFacts, leases: Mapping[str, str]) -> list[Finding]:
    """Return what there is to say of the Leases that a scheduler may hold, by name, with what they are for."""
    place = FindingMaker(MANAGEMENT)
    asked = [(one, there) for one, there in cluster.rights if one.right.resource == LEASES.plural]
    if not asked:
        said = "none are kept (leader.leaseNamespace is empty), so another log's scheduler is not kept away"
        return [place.warning("leases", said, "set leader.leaseNamespace, the same for all schedulers of the cluster")]
    made = [one for one in asked if not one[0].right.name]
    return [
        _of_lease(place, name, what, [one for one in asked if one[0].right.name == name] + made)
        for name, what in leases.items()
    ]


def _of_lease(place: FindingMaker, name: str, what: str, asked: Sequence[tuple[NeededRight, bool | Unread]]) -> Finding:
    check, where = f"lease {name}", asked[0][0].right.namespace
    strange = next((there for _, there in asked if isinstance(there, Unread)), None)
    if strange is not None:
        return place.unknown(check, strange, "ask with `kubectl auth can-i`")
    lacking = [one.right.verb for one, there in asked if not there]
    if not lacking:
        return place.ok(check, f"it may be held in {where}: it is for {what}")
    said = (
        f"it may not {', '.join(lacking)} the Lease {name} in {where}, so the scheduler of another log is not kept from "
        f"{what}"
    )
    add = f"add its name to {LEASES_OF_SCHEDULER} (the chart does so for scheduler.profiles), and apply it"
    return place.warning(check, said, add)
