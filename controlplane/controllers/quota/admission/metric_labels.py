"""Keeps what the metrics of quota take from the labels and annotations of objects: their custom labels, and which
LocalQueues are reported.

In: objects as the management cluster shows them. Out: values by kind and name. Nothing is decided on them, and what
they mean is a matter of settings that may change: so they are not in the log. A process that leads is shown every
object once, and knows them from then on. What is gone keeps its values until its end is folded, since it is counted
until then."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.folded import FoldedAdmission
from controlplane.controllers.quota.admission.observe import SEEN
from controlplane.custom_labels import NO_LABELS, CustomLabels
from controlplane.kube import kinds
from controlplane.kube.kinds import Kind, meta
from controlplane.kube.selectors import EVERYTHING, LabelSelector
from controlplane.log.event import Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectObserved, ObjectVanished
from controlplane.values import Value

_KINDS = (kinds.CLUSTER_QUEUES, kinds.COHORTS, kinds.LOCAL_QUEUES, kinds.WORKLOADS)
_GONE: dict[type[ObjectVanished], Kind] = {
    events.AdmissionClusterQueueGone: kinds.CLUSTER_QUEUES,
    events.AdmissionCohortGone: kinds.COHORTS,
    events.AdmissionLocalQueueGone: kinds.LOCAL_QUEUES,
    events.AdmissionWorkloadGone: kinds.WORKLOADS,
}
_Place = tuple[str, str, str]
_Said = tuple[tuple[str, ...], bool]


class ShownLabels(Value):
    """What an object of a UID says: its values of the custom labels, and whether it is reported."""

    uid: str
    values: tuple[str, ...]
    reported: bool


class MetricLabels:
    """See the module. `selector`: which LocalQueues are reported."""

    GIVEN = ("custom", "_selector", "_followed", "_shown", "_complete")

    def __init__(self, custom: CustomLabels = NO_LABELS, selector: LabelSelector = EVERYTHING) -> None:
        self.custom, self._selector = custom, selector
        wanted = custom.kinds | (frozenset() if selector.everything else {kinds.LOCAL_QUEUES.kind})
        self._followed = tuple(kind for kind in _KINDS if kind.kind in wanted)
        self._shown: dict[_Place, ShownLabels] = {}
        self._complete = not self._followed

    def note(self, change: ObjectChange) -> None:
        """Take note of an object of the management cluster as it is shown."""
        if change.gone or change.kind not in self._followed:
            return
        metadata, kind = meta(change.object), change.kind.kind
        labels, annotations = _texts(metadata.get("labels")), _texts(metadata.get("annotations"))
        reported = kind != kinds.LOCAL_QUEUES.kind or self._selector.matches(labels)
        place = kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        self._shown[place] = ShownLabels(
            uid=change.uid, values=self.custom.values(kind, labels, annotations), reported=reported
        )

    def fold(self, recorded: Recorded) -> None:
        """Forget an object whose end is in the log; another one of its name may have been shown already."""
        event = recorded.event
        if not isinstance(event, ObjectVanished) or (kind := _GONE.get(type(event))) is None:
            return
        place = kind.kind, event.namespace, event.name
        if (shown := self._shown.get(place)) is not None and shown.uid == event.uid:
            del self._shown[place]

    def of(self, kind: Kind, namespace: str, name: str) -> tuple[str, ...]:
        """Return the values of an object's custom labels, "" each if it is not there."""
        shown = self._shown.get((kind.kind, namespace, name))
        return shown.values if shown is not None else self.custom.unknown(kind.kind)

    def reports(self, namespace: str, name: str) -> bool:
        """Return whether a LocalQueue is reported; of several that are selected by labels, one that is not there is
        not."""
        if self._selector.everything:
            return True
        shown = self._shown.get((kinds.LOCAL_QUEUES.kind, namespace, name))
        return shown is not None and shown.reported

    def knows_all(self, index: FoldedAdmission) -> bool:
        """Return whether everything has been shown once that anything is taken from, of what the log says is there."""
        if self._complete:
            return True
        objects = (
            one.observed for one in index.objects.values() if isinstance(one.observed, events.AdmissionQueueObserved)
        )
        workloads = (one.observed for one in index.workloads.values() if one.observed is not None)
        self._complete = all(self._knows(one) for one in chain(objects, workloads))
        return self._complete

    def _knows(self, seen: ObjectObserved) -> bool:
        kind = SEEN[type(seen)]
        return kind not in self._followed or (kind.kind, seen.namespace, seen.name) in self._shown


class CountedLabels:
    """The custom labels under which counters count: a queue's as they were at its last event that was folded. Once they
    have changed, its counters begin anew, as with Kueue (kubernetes-sigs/kueue
    pkg/controller/core/clusterqueue_controller.go, localqueue_controller.go, ff69552e)."""

    def __init__(self, labels: MetricLabels) -> None:
        self._labels = labels
        self._said: dict[tuple[str, str, str], _Said] = {}

    def of_cluster_queue(self, name: str) -> tuple[str, ...]:
        """Return the values of a ClusterQueue."""
        return self._known(kinds.CLUSTER_QUEUES, "", name)[0]

    def of_local_queue(self, namespace: str, name: str) -> tuple[str, ...] | None:
        """Return the values of a LocalQueue; None if it is not reported."""
        values, reported = self._known(kinds.LOCAL_QUEUES, namespace, name)
        return values if reported else None

    def of(self, kind: Kind, namespace: str, name: str) -> tuple[str, ...]:
        """Return the values of a Cohort or Workload, as it was shown last."""
        return self._labels.of(kind, namespace, name)

    def have_changed(self, kind: Kind, namespace: str, name: str) -> bool:
        """Return whether a queue that was seen again has other values than those that it was counted under, and count
        it under the new ones."""
        place, now = (kind.kind, namespace, name), self._now(kind, namespace, name)
        before = self._said.get(place, now)
        self._said[place] = now
        return before != now

    def forget(self, kind: Kind, namespace: str, name: str) -> None:
        """Forget a queue that is gone."""
        self._said.pop((kind.kind, namespace, name), None)

    def _known(self, kind: Kind, namespace: str, name: str) -> _Said:
        return self._said.setdefault((kind.kind, namespace, name), self._now(kind, namespace, name))

    def _now(self, kind: Kind, namespace: str, name: str) -> _Said:
        reported = kind != kinds.LOCAL_QUEUES or self._labels.reports(namespace, name)
        return self._labels.of(kind, namespace, name), reported


def _texts(found: object) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
