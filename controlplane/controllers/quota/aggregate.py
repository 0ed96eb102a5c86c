"""Sums up the quota of a manager's ClusterQueue over its workers, as Kueue does
(kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/clusterqueue.go, ff69552e).

In: the ClusterQueue, its MultiKueueConfig, what each worker gives. Out: the quotas that it should have, or why there
are none, and the condition. Pure. What a worker gives are the nominal quotas of those of its ClusterQueues to which a
LocalQueue leads that has the namespace and name of one of the manager's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from controlplane.controllers.quota.events import QuotaConfigObserved, QuotaQueueObserved
from controlplane.kube.quantities import NANO, nanos, spell, to_milli

CONDITION = "MultiKueueManagerQuotaAutomation"
_NO_CONFIG = "The referenced MultiKueueConfig was not found."
_NOT_REQUESTED = "MultiKueue manager quota automation has not been requested."
_FLAVORS = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
_MISSING = "manager-side coveredResources is missing resources configured on workers: "
_AUTOMATED = "ClusterQueue quota is automatically managed based on MultiKueue workers."

_MOST = (2**63 - 1) * NANO
"""What a quantity is at most, in billionths: whoever reads a larger one has this."""

Amounts = Mapping[str, int]
"""Billionths by resource."""
Place = tuple[str, str]


class Automation(msgspec.Struct, frozen=True):
    """How quota automation of a ClusterQueue stands: the condition, and the quotas if there are any to set."""

    status: str
    reason: str
    message: str
    resources: dict[str, str] = {}


def share_of(
    wanted: Collection[Place], local_queues: Mapping[Place, str], queues: Mapping[str, Mapping[str, list[str]]]
) -> dict[str, int]:
    """Return what a worker gives: `local_queues` are its own with the ClusterQueue that each leads to, `queues` its
    ClusterQueues with their quotas."""
    reached = {queue for place, queue in local_queues.items() if place in wanted}
    share: dict[str, int] = {}
    for name in sorted(reached & queues.keys()):
        for resource, quotas in queues[name].items():
            share[resource] = min(_MOST, share.get(resource, 0) + sum(map(nanos, quotas)))
    return share


def total(shares: Iterable[Amounts]) -> dict[str, int]:
    """Return the sum of shares."""
    found: dict[str, int] = {}
    for share in shares:
        for resource, amount in share.items():
            found[resource] = min(_MOST, found.get(resource, 0) + amount)
    return found


def refusal(queue: QuotaQueueObserved, config: QuotaConfigObserved | None) -> Automation | None:
    """Return why the quota is not automated, as far as the workers have no part in it; None if it is."""
    if config is None:
        return Automation("False", "UnsupportedConfiguration", _NO_CONFIG)
    if config.management != "Automated":
        return Automation("False", "NotRequested", _NOT_REQUESTED)
    if len(queue.groups) != 1 or len(queue.groups[0].flavors) != 1:
        return Automation("False", "UnsupportedConfiguration", _FLAVORS)
    return None


def automation(queue: QuotaQueueObserved, given: Amounts) -> Automation:
    """Return the quotas of a ClusterQueue with one flavor by what its workers give together."""
    covered = queue.groups[0].covered
    missing = sorted(given.keys() - set(covered))
    if missing:
        return Automation("False", "UnsupportedConfiguration", f"{_MISSING}[{' '.join(missing)}]")
    resources = {name: spelled(name, given.get(name, 0)) for name in covered}
    return Automation("True", "QuotaAutomated", _AUTOMATED, resources)


def is_set(queue: QuotaQueueObserved, resources: Mapping[str, str]) -> bool:
    """Whether a ClusterQueue's one flavor has these quotas, in this order, and no limits."""
    found = queue.groups[0].flavors[0].resources
    return [(one.name, min(_MOST, nanos(one.nominal)), one.limited) for one in found] == [
        (name, nanos(amount), False) for name, amount in resources.items()
    ]


def spelled(resource: str, amount: int) -> str:
    """Return billionths as a quantity, rounded up to thousandths."""
    return spell(resource, to_milli(amount))
