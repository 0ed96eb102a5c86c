"""What decisions about a job rest on beside its own stream: flavors, priority classes, the jobs that it belongs to, and
the settings.

In: the events of those, in the log's order. Out: lookups. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.unread import UnreadObjects
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, Kind
from controlplane.log.event import Recorded
from controlplane.values import Value

NESTED_AT_MOST = 10


class JobFrameworkPolicy(Value):
    """The settings. `adapters`: the kinds that are reconciled. `pods_ready`: the condition PodsReady is written.
    `after_deactivated`: how long after its Workload was deactivated a job is deleted; None for never. `label_keys`:
    labels of a job that its Workload gets too, and `annotation_keys` the annotations. `parents`: the kinds whose pods
    wait in their place. `namespaces`: the label selector of those whose jobs are looked after, "" for all;
    `manages_all`: jobs that name no queue wait too, but for those in `never`."""

    adapters: Mapping[Kind, JobKind] = {}
    parents: Mapping[Kind, JobKind] = {}
    namespaces: str = ""
    manages_all: bool = False
    never: frozenset[str] = frozenset({"kube-system", "kueue-system"})
    pods_ready: bool = False
    after_deactivated: timedelta | None = None
    label_keys: tuple[str, ...] = ()
    annotation_keys: tuple[str, ...] = ()

    @property
    def asks_namespaces(self) -> bool:
        """Whether it depends on namespaces who is looked after."""
        return self.manages_all or bool(self.namespaces)

    def may_manage(self, namespace: str) -> bool:
        """Whether jobs of a namespace may be looked after that name no queue."""
        return self.manages_all and namespace not in self.never


class WorkloadPriority(Value):
    """A Workload's priority, and the class that it comes from."""

    value: int = 0
    class_name: events.PriorityClassName = events.PriorityClassName()


class ClassMissing(LookupError):  # noqa: N818
    """A priority class is not there; `of_workloads`: it is a WorkloadPriorityClass."""

    def __init__(self, name: str, *, of_workloads: bool) -> None:
        super().__init__(name)
        self.name, self.of_workloads = name, of_workloads


class Catalog:
    """Flavors by name, and priority classes by kind and name; `at`: where in the log each was seen last."""

    def __init__(self) -> None:
        self.flavors: dict[str, events.JobFlavorObserved] = {}
        self.classes: dict[tuple[str, str], events.JobPriorityClassObserved] = {}
        self.at: dict[tuple[str, str], int] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a flavor or a class. What is gone is so by its UID."""
        event = recorded.event
        match event:
            case events.JobFlavorObserved():
                self.flavors[event.name] = event
                self.at[RESOURCE_FLAVORS.name, event.name] = recorded.position
            case events.JobPriorityClassObserved():
                self.classes[event.kind, event.name] = event
                self.at[event.kind, event.name] = recorded.position
            case events.JobFlavorGone():
                flavor = self.flavors.get(event.name)
                if flavor is not None and flavor.uid == event.uid:
                    del self.flavors[event.name], self.at[RESOURCE_FLAVORS.name, event.name]
            case events.JobPriorityClassGone():
                found = self.classes.get((event.kind, event.name))
                if found is not None and found.uid == event.uid:
                    del self.classes[event.kind, event.name], self.at[event.kind, event.name]

    def priority(self, job: events.QueuedJobObserved) -> WorkloadPriority:
        """Return the priority that a job asks for; `ClassMissing` if its class is not there (`ExtractPriority` in
        kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go).
        """
        if job.priority_class:
            return self._named(WORKLOAD_PRIORITY_CLASSES, job.priority_class)
        if job.pod_priority_class:
            return self._named(PRIORITY_CLASSES, job.pod_priority_class)
        defaults = [
            one for (kind, _), one in self.classes.items() if kind == PRIORITY_CLASSES.name and one.global_default
        ]
        if not defaults:
            return WorkloadPriority()
        return _priority(PRIORITY_CLASSES, min(defaults, key=lambda one: (one.value, one.name)))

    def _named(self, kind: Kind, name: str) -> WorkloadPriority:
        found = self.classes.get((kind.name, name))
        if found is None:
            raise ClassMissing(name, of_workloads=kind == WORKLOAD_PRIORITY_CLASSES)
        return _priority(kind, found)


def _priority(kind: Kind, found: events.JobPriorityClassObserved) -> WorkloadPriority:
    return WorkloadPriority(
        value=found.value, class_name=events.PriorityClassName(group=kind.group, kind=kind.kind, name=found.name)
    )


class Ancestor(Value):
    """The topmost job with a queue that a job belongs to. `known`: its owner was seen, or needs no queue; `admitted`:
    its Workload that is not finished is; `position`: of what was seen of it last."""

    known: bool = True
    found: bool = False
    too_deep: bool = False
    admitted: bool = False
    position: int = 0


class JobContext(Protocol):
    """What `decide` asks beside the job's own state."""

    policy: JobFrameworkPolicy
    catalog: Catalog
    unread: UnreadObjects

    def sized(self, job: events.QueuedJobObserved) -> events.QueuedJobObserved:
        """Return a job that runs with the sizes of the one that is made of it, where that has them."""

    def ancestor(self, job: events.QueuedJobObserved) -> Ancestor:
        """Return what a job belongs to."""

    def selected(self, namespace: str) -> bool:
        """Return whether jobs of a namespace are looked after."""

    def manages(self, namespace: str) -> bool:
        """Return whether jobs of a namespace are looked after that name no queue."""

    def free_workload(self, namespace: str, name: str) -> events.JobWorkloadObserved | None:
        """Return a Workload that no job owns, None if there is none of this name."""

    def workload(self, namespace: str, name: str) -> events.JobWorkloadObserved | None:
        """Return the Workload of a name, None if none is known."""

    def named_workload(self, namespace: str, name: str) -> str:
        """Return the stream of the Workload of a name, "" if none is known."""
