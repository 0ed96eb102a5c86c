"""Tells which Workloads and jobs of the management cluster concern a service that shares it with services of other
logs.

In: what an API server showed, and what is known of queues, checks and Workloads. Out: whether it is recorded; and, when
a queue leads to us that did not, that the kinds have to be listed again. What is not known to lead elsewhere concerns
us: a queue or a check that is not in view yet, an object that cannot be read. So does what the log has something of
already."""

from __future__ import annotations

from controlplane.controllers.multikueue import objects
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observe import job_stream, workload_stream
from controlplane.job_kinds.base import JobKind
from controlplane.kube import fields
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.log.event import Recorded
from controlplane.runtime.controller import ObjectChange

_LEADS = ("admissioncheck/", "clusterqueue/", "localqueue/")


class OwnObjects:
    """`_recorded` has the streams that something was recorded on and that are not known to have ended: the log may not
    have it yet. `_elsewhere` has the LocalQueues, by namespace and name, of which something was not recorded."""

    def __init__(self, index: WorkloadIndex) -> None:
        self._index = index
        self._adapters = {adapter.kind: adapter for adapter in index.policy.adapters.values()}
        self._recorded: set[str] = set()
        self._elsewhere: set[tuple[str, str]] = set()
        self._missed = False

    def concerns_us(self, change: ObjectChange) -> bool:
        """Whether something that the management cluster showed is to be recorded."""
        adapter = self._adapters.get(change.kind)
        if adapter is None and change.kind != WORKLOADS:
            return True
        namespace, name = str(meta(change.object).get("namespace", "")), str(meta(change.object)["name"])
        own = workload_stream(namespace, name)
        stream = own if adapter is None else job_stream(change.kind.name, namespace, name)
        known = stream in self._recorded or self._is_known(stream, namespace, name)
        if change.gone:
            self._recorded.discard(stream)
            return known
        if known or change.unreadable or self._is_ours(change.object, adapter, namespace):
            self._recorded.add(stream)
            return True
        return False

    def fold(self, recorded: Recorded) -> None:
        """Take note of where queues lead, after the index has."""
        if self._elsewhere and recorded.stream.startswith(_LEADS):
            here = {queue for queue in self._elsewhere if self._index.leads_to_us(*queue) is not False}
            self._elsewhere -= here
            self._missed |= bool(here)

    def take_missed(self) -> bool:
        """Return whether something that was not recorded may concern us by now; it is listed again, and said once."""
        missed, self._missed = self._missed, False
        return missed

    def _is_known(self, stream: str, namespace: str, name: str) -> bool:
        """Whether the log has something of a Workload, or of a job or a Workload of it: what it has is kept up to
        date."""
        index = self._index
        there = stream in index.workloads or index.has_job(stream)
        return there or (stream.startswith("workload/") and index.unread.hides(namespace, name))

    def _is_ours(self, obj: Json, adapter: JobKind | None, namespace: str) -> bool:
        try:
            if adapter is None:
                queue = fields.text(fields.section(obj, "spec"), "queueName", "spec")
                found = self._checked_by_us(obj)
            else:
                queue = str(fields.section(meta(obj), "labels").get(QUEUE_LABEL, ""))
                found = adapter.managed_by(obj) == self._index.policy.controller_name
        except UNFIT:  # it is recorded as one that could not be read
            return True
        if found or self._index.leads_to_us(namespace, queue) is not False:
            return True
        self._elsewhere.add((namespace, queue))
        return False

    def _checked_by_us(self, obj: Json) -> bool:
        """Whether a Workload has a check of ours, or one that was not seen yet."""
        checks = (self._index.checks.get(one.name) for one in objects.checks(fields.section(obj, "status")))
        return any(one is None or one.controller_name == self._index.policy.controller_name for one in checks)
