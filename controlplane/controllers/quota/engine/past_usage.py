"""How much tenants used in the past: the part of `State` that is asked for it.

In: LocalQueues by namespace and name. Out: numbers that order them, in units or as shares of the quota that there
is."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from controlplane.controllers.quota.engine.amounts import Requests, summed
from controlplane.controllers.quota.engine.candidates import UsedBy
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import USAGE_BASED, ClusterQueue
from controlplane.controllers.quota.engine.queues import PendingQueues
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.snapshot import QuotaSnapshot
from controlplane.controllers.quota.engine.usage_history import UsageHistory


class PastUsage:
    """See the module."""

    settings: EngineSettings
    snapshot: QuotaSnapshot
    queues: PendingQueues
    history: UsageHistory
    _fleet_quota: Mapping[str, Decimal] | None = None

    def used_by(self) -> UsedBy | None:
        """Return what tells the past usage of a workload's LocalQueue, None if that never counts."""
        if self.settings.admission_fair_sharing is None:
            return None

        def used(info: Info) -> float | None:
            queue = self.snapshot.queues.get(info.cluster_queue)
            if queue is None or not self.by_usage(queue.spec):
                return None
            return self.usage_of(info.workload.local_queue)

        return used

    def by_usage(self, spec: ClusterQueue) -> bool:
        """Whether the past usage of LocalQueues orders the workloads of a ClusterQueue."""
        return self.settings.admission_fair_sharing is not None and spec.admission_mode == USAGE_BASED

    def usage_of(self, local_queue: str) -> float:
        """Return what the tenant of a LocalQueue used, divided by the weight of that, by its namespace and name: in
        units, or as a share of what there is in all."""
        queue, sharing = self.queues.local.get(local_queue), self.settings.admission_fair_sharing
        fleet = self.fleet_quota() if sharing is not None and sharing.dominant else None
        return self.history.usage(local_queue, 1.0 if queue is None else queue.fair_weight, fleet)

    def dominant_resource(self, local_queue: str) -> str:
        """Return the resource of which the tenant of a LocalQueue used the largest share, "" where that is not what
        counts."""
        sharing = self.settings.admission_fair_sharing
        if sharing is None or not sharing.dominant:
            return ""
        return next((name for name, share in self.history.shares(local_queue, self.fleet_quota()) if share), "")

    def fleet_quota(self) -> Mapping[str, Decimal]:
        """Return the nominal quota of all ClusterQueues and Cohorts together, by resource, in units."""
        if self._fleet_quota is None:
            of_queues = [queue.spec.quotas for queue in self.snapshot.queues.values()]
            cohorts = [spec for _, _, spec in self.snapshot.cohorts_with_specs() if spec is not None]
            total: Requests = {}
            for quotas in (*of_queues, *(spec.quotas for spec in cohorts)):
                for (_, resource), quota in quotas.items():
                    total[resource] = total.get(resource, 0) + quota.nominal
            self._fleet_quota = in_units(total)
        return self._fleet_quota

    def measure_by(self, fleet_quota: Mapping[str, Decimal] | None) -> None:
        """Take shares of what another state has in all, of which this one is a part; None: of what this one has now."""
        self._fleet_quota = fleet_quota

    def entry_penalty(self, info: Info, spec: ClusterQueue) -> Mapping[str, Decimal]:
        """Return what a workload counts for in the usage of its LocalQueue once it has quota; nothing where that does
        not count."""
        if not self.by_usage(spec):
            return {}
        asked = summed(pod_set.requests for pod_set in info.pod_sets)
        if self.settings.ignore_undeclared:
            asked = {name: amount for name, amount in asked.items() if spec.group_of(name) is not None}
        return self.history.penalty(in_units(asked))


def in_units(requests: Requests) -> dict[str, Decimal]:
    """Return requests in units: cpu in cores."""
    return {name: Decimal(amount) / 1000 if name == "cpu" else Decimal(amount) for name, amount in requests.items()}
