"""What a cycle decides: who gets quota, who is preempted for whom, and who waits for what.

Made by `cycle`, taken into account by `State.apply`. Every decision names the workload, its ClusterQueue, and how far
the search for flavors got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from controlplane.controllers.quota.engine.amounts import FlavorResource
from controlplane.controllers.quota.engine.info import Progress
from controlplane.controllers.quota.engine.model import QuotaAdmission


@dataclass(frozen=True, slots=True)
class Admit:
    """Quota is reserved for a workload. `checks`: the admission checks that it has to pass before it is admitted;
    `penalty`: what it counts for in the usage of its LocalQueue until that is sampled, in units. `second_pass`: it has
    the quota already, and `admission` has the topology assignment that it lacked, or another one in the place of nodes
    that failed: with its write `status.unhealthyNodes` is emptied. `replaces`: the slice whose place it takes, by
    namespace and name. `considered`: what of flavors does not have the quota, as Kueue tells it."""

    workload: str
    admission: QuotaAdmission
    checks: tuple[str, ...] = ()
    penalty: Mapping[str, Decimal] = field(default_factory=dict)
    second_pass: bool = False
    replaces: str = ""
    considered: str = ""

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue that has the quota."""
        return self.admission.cluster_queue


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that is preempted: the reason and message of its Preempted condition. `ongoing`: it is being
    evicted."""

    workload: str
    uid: str
    cluster_queue: str
    reason: str
    message: str
    ongoing: bool = False


@dataclass(frozen=True, slots=True)
class Inadmissible:
    """A workload waits. `reason` and `message` of its QuotaReserved condition; `requeue`: why it goes back into its
    queue.

    `wakes`: the number of the change that had woken its queue last when this was decided. `second_pass`: which try for
    a topology assignment of a workload that has quota has failed, 0 for one without; its conditions stay, it is tried
    once more after a while, and Kueue says it with the Event `SecondPassFailed`. `short_of`: of which resources of
    flavors quota has to be given back before it may fit, or be told something else; None if that is not all that is in
    its way.
    """

    workload: str
    cluster_queue: str
    reason: str
    message: str
    requeue: str
    progress: Progress | None = None
    wakes: int = 0
    second_pass: int = 0
    short_of: frozenset[FlavorResource] | None = None


@dataclass(frozen=True, slots=True)
class Preempt(Inadmissible):
    """A workload waits for others to be preempted."""

    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """An admitted workload is evicted, since nothing takes the place of its nodes that failed: the reason and message
    of its Evicted condition."""

    workload: str
    cluster_queue: str
    reason: str
    message: str


Decision = Admit | Inadmissible | Evict
