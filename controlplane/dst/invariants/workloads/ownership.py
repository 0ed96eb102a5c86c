"""What does not carry our origin is not touched, and nothing is deleted that is not exactly what was decided on.

In: every write of the service as an API server carried it out, and the deletions that a store committed. Out: a
violation. On workers only Workloads and jobs with our origin are written, and deletes name the UID. On the management
cluster only statuses are written, at a resourceVersion, and Events created; with quota automation ClusterQueues too.
What a plan planted beside it stays."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.kinds import ADAPTERS, served_in
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, EVENTS, MULTIKUEUE_CLUSTERS, WORKLOADS, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store

_COPIES = (WORKLOADS, *ADAPTERS)
_STATUSES = (*_COPIES, ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS)
RULE = "only what is ours is written"


class OwnershipRules:
    """The origin that is ours, and the UIDs of what is planted. `quotas`: whether quota is automated."""

    def __init__(self, trace: Trace, origin: str, management: str, *, quotas: bool = False) -> None:
        self._trace, self._origin, self._management, self._quotas = trace, origin, management, quotas
        self.planted: dict[str, str] = {}

    def on_written(self, write: Written) -> None:
        """Look at a write that was carried out."""
        wrong = self._at_home(write) if write.cluster == self._management else self._on_worker(write)
        if wrong:
            what = f"{write.verb} {write.kind.kind} {write.name} on {write.cluster}"
            self._trace.violate(RULE, f"{what}: {wrong}")

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a deletion. What a worker's Kueue has made the Workload of a job goes with that job, whoever made
        it."""
        record = commit.record
        if commit.type != "DELETED" or record.uid not in self.planted:
            return
        if meta(record.obj).get("ownerReferences"):
            del self.planted[record.uid]
        else:
            self._trace.violate(RULE, f"{record.kind.kind} {record.name} on {cluster} was somebody else's")

    def only_in(self, workers: Iterable[Store]) -> None:
        """Forget what was planted and went with its cluster."""
        uids = {one.uid for store in workers for kind in (WORKLOADS, *served_in(store)) for one in store.records(kind)}
        for uid in [uid for uid in self.planted if uid not in uids]:
            del self.planted[uid]

    def _at_home(self, write: Written) -> str:
        if write.verb == "create":
            return "" if write.kind == EVENTS else "only Events are created here"
        if self._quotas and write.kind == CLUSTER_QUEUES and write.verb == "patch":
            return "" if write.resource_version else "without a resourceVersion"
        if write.verb == "delete" or write.kind not in _STATUSES or write.subresource != "status":
            return "only statuses are written here"
        return "" if write.resource_version else "without a resourceVersion"

    def _on_worker(self, write: Written) -> str:
        if write.kind not in _COPIES:
            return "not a kind that is dispatched"
        labels = (meta(write.body).get("labels") or {}) if write.before is None else write.before.labels
        if labels.get(ORIGIN_LABEL) != self._origin:
            return "it does not carry our origin"
        uid = write.before.uid if write.before is not None else ""
        if uid in self.planted:
            return "it is somebody else's"
        if write.verb == "delete" and write.uid != uid:
            return f"the precondition names the UID {write.uid or '(none)'}"
        if write.verb == "patch" and not write.resource_version:
            return "without a resourceVersion"
        return ""
