"""Makes of an object that an API server showed the narrow event that is recorded of it.

In: cluster, incarnation, the change. Out: events on their streams with their bodies and their identity; none for
objects that are not ours to know. An object that does not fit its API becomes `ObservationRefused` and nothing else:
the stream goes on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.multikueue import flavors, objects, observations, observe_jobs
from controlplane.controllers.multikueue.spec_keys import spec_key
from controlplane.job_kinds.base import MADE_FOR, JobKind
from controlplane.kube import fields, kinds
from controlplane.kube.conditions import conditions_of
from controlplane.kube.fields import UNFIT, BadValue
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, QUEUE_LABEL
from controlplane.log.event import Body, Event, NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

_MOST_CLUSTERS = 20
_LONGEST_IDENTITY = 64  # characters of what a copy says that it was made for: a UID has 36
_Built = tuple[str, Event, tuple[Body, ...]]
_Copy = TypeVar("_Copy", observations.CloneObserved, observations.RemoteJobObserved)
Queue = observations.ClusterQueueObserved | observations.LocalQueueObserved


def workload_stream(namespace: str, name: str) -> str:
    """Return the stream of a Workload and all its copies."""
    return f"workload/{namespace}/{name}"


def job_stream(kind: str, namespace: str, name: str) -> str:
    """Return the stream of the user's job; `kind` as in `Kind.name`."""
    return f"job/{kind}/{namespace}/{name}"


def local_queue_stream(namespace: str, name: str) -> str:
    """Return the stream of a LocalQueue of the management cluster."""
    return f"localqueue/{namespace}/{name}"


class WorkloadObserver:
    """Builds the events of MultiKueue's kinds. `adapters` by GVK; `controller_name` is the managedBy that makes a job
    ours.

    `stream_of_job(cluster, uid)` tells where a job's copy was recorded: of one that vanished unseen only the name is
    known. `queue(stream)` is a ClusterQueue or LocalQueue as the log has it: its status changes with every Workload,
    and little of it is decided on. `is_known(stream)` tells whether the log has a job, or a Workload of it: what
    becomes of it concerns us also when it names another controller. `identities`: that of the management cluster, and
    those that the log's one had before; none where it cannot be read, and None before it was asked for. `labelled`:
    jobs are recorded with their labels; `queued`: ClusterQueues with their checks, and LocalQueues; `flavored`: what
    Workloads take, and the queues of workers."""

    def __init__(
        self,
        adapters: Mapping[str, JobKind],
        controller_name: str,
        stream_of_job: Callable[[str, str], str],
        queue: Callable[[str], Queue | None] = lambda stream: None,
        *,
        is_known: Callable[[str], bool] = lambda stream: False,
        identities: Callable[[], Sequence[str] | None] = lambda: (),
        labelled: bool = False,
        queued: bool = False,
        flavored: bool = False,
    ) -> None:
        self._worker_queues = flavors.QueueObserver(flavored=flavored)
        self._labelled = labelled
        self._queue, self._offered = queue, dict[str, tuple[str, Queue]]()
        self._stream_of_job, self._is_known, self._identities = stream_of_job, is_known, identities
        self._adapters = {adapter.kind: adapter for adapter in adapters.values()}
        self._controller = controller_name
        self._named: dict[Kind, tuple[Callable[[Json], _Built], Callable[[Json], tuple[str, Event]]]] = {
            kinds.WORKLOADS: (
                functools.partial(_workload, flavored=flavored),
                lambda obj: (_workload_of(obj), observations.WorkloadGone(**_last(obj))),
            ),
            kinds.ADMISSION_CHECKS: (
                _check,
                lambda obj: (f"admissioncheck/{_name(obj)}", observations.AdmissionCheckGone(**_last(obj))),
            ),
            kinds.CLUSTER_QUEUES: (
                functools.partial(_queue, queued=queued),
                lambda obj: (f"clusterqueue/{_name(obj)}", observations.ClusterQueueGone(**_last(obj))),
            ),
            kinds.LOCAL_QUEUES: (
                _local_queue,
                lambda obj: (_local_queue_of(obj), observations.LocalQueueGone(**_last(obj))),
            ),
            kinds.MULTIKUEUE_CONFIGS: (
                _config,
                lambda obj: (f"multikueueconfig/{_name(obj)}", observations.MultiKueueConfigGone(**_last(obj))),
            ),
            kinds.MULTIKUEUE_CLUSTERS: (
                _cluster,
                lambda obj: (cluster_stream(_name(obj)), observations.MultiKueueClusterGone(**_last(obj))),
            ),
        }
        if not queued:
            del self._named[kinds.LOCAL_QUEUES]

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of one change, or None for what concerns nobody."""
        cluster, kind, obj = change.cluster, change.kind, change.object
        try:
            if cluster != MANAGEMENT and kind in flavors.KINDS:
                built = self._worker_queues.built(change)
            else:
                built = self._gone(cluster, kind, obj) if change.gone else self._seen(cluster, kind, change.whole())
        except UNFIT as error:
            built = _refused(cluster, kind, obj, error)
        if built is None:
            return None
        stream, event, bodies = built
        if isinstance(event, observations.Configuration) and change.manager:
            event = msgspec.structs.replace(event, manager=change.manager)
        if isinstance(event, Queue) and self._unchanged(change.incarnation, stream, event):
            return None
        if isinstance(event, (observations.ClusterQueueGone, observations.LocalQueueGone)):
            self._offered.pop(stream, None)
        return change.observed(stream, event, now, bodies)

    def _unchanged(self, incarnation: str, stream: str, event: Queue) -> bool:
        """Whether a queue shows nothing else that is decided on than it did last, in the same incarnation of the
        cluster.

        What was handed out last counts, since the log may not have it yet; and the log counts, since it may have
        refused that. So each process records every queue once, and what comes after a restart or a restore is never
        taken for known."""
        before = self._offered.get(stream)
        self._offered[stream] = (incarnation, event)
        recorded = self._queue(stream)
        return (
            before is not None
            and recorded is not None
            and before[0] == incarnation
            and _decided_on(before[1]) == _decided_on(event) == _decided_on(recorded)
        )

    def _seen(self, cluster: str, kind: Kind, obj: Json) -> _Built | None:
        adapter = self._adapters.get(kind)
        if adapter:  # before the adapter looks at it: what does not fit is named by its field
            fields.section(obj, "spec")
            conditions_of(fields.section(obj, "status"))
        if cluster == MANAGEMENT:
            if adapter:
                if not self._concerns_us(adapter, obj):
                    return None
                job, bodies = observe_jobs.users_job(adapter, obj, labelled=self._labelled)
                return job_stream(job.kind, job.namespace, job.name), job, bodies
            return self._named[kind][0](obj) if kind in self._named else None
        if kind == kinds.WORKLOADS:
            clone = self._marked(_clone(obj), obj)
            return workload_stream(clone.namespace, clone.name), clone, ()
        if adapter is None or self._is_made(cluster, kind, obj):
            return None
        copied, bodies = observe_jobs.copied_job(adapter, obj)
        return workload_stream(copied.namespace, copied.prebuilt), self._marked(copied, obj), bodies

    def _marked(self, copy: _Copy, obj: Json) -> _Copy:
        """Return an observation of a copy, which notes of one that it does not say that it was made for us. In a log
        that is new all are nobody's as long as it is not known who we are (`known_as` has the rest of it)."""
        identities = self._identities()
        said = fields.section(meta(obj), "annotations").get(MADE_FOR, "")
        if identities is not None and (not identities or said == identities[0]):
            return copy
        another = said if isinstance(said, str) and said not in (identities or ()) else ""
        return msgspec.structs.replace(copy, unmarked=True, made_for=another[:_LONGEST_IDENTITY])

    def _gone(self, cluster: str, kind: Kind, obj: Json) -> _Built | None:
        adapter = self._adapters.get(kind)
        if cluster == MANAGEMENT:
            if adapter:
                if "labels" in meta(obj) and not adapter.marked(obj):
                    return None  # of what went while nobody looked, the name alone is shown
                last = _last(obj)
                return (
                    job_stream(kind.name, last["namespace"], last["name"]),
                    observations.JobGone(kind=kind.name, **last),
                    (),
                )
            if kind not in self._named:
                return None
            stream, event = self._named[kind][1](obj)
            return stream, event, ()
        if kind == kinds.WORKLOADS:
            return _workload_of(obj), observations.CloneGone(**_last(obj)), ()
        return None if adapter is None or self._is_made(cluster, kind, obj) else self._copy_gone(cluster, kind, obj)

    def _copy_gone(self, cluster: str, kind: Kind, obj: Json) -> _Built | None:
        last = _last(obj)
        bound = observe_jobs.prebuilt(obj)
        stream = workload_stream(last["namespace"], bound) if bound else self._stream_of_job(cluster, last["uid"])
        if not stream and ORIGIN_LABEL in fields.section(meta(obj), "labels"):
            # It was refused, for it names no Workload, and that is perhaps not folded yet.
            stream = refused_stream(cluster, kind, last["namespace"], last["name"])
        return (stream, observations.RemoteJobGone(kind=kind.name, **last), ()) if stream else None

    def _is_made(self, cluster: str, kind: Kind, obj: Json) -> bool:
        """Whether something on a worker is no copy, and was never recorded as one."""
        uid = str(meta(obj).get("uid", ""))
        return observe_jobs.is_made_of_another(kind, obj) and not self._stream_of_job(cluster, uid)

    def _concerns_us(self, adapter: JobKind, obj: Json) -> bool:
        if adapter.home_selector:
            return adapter.marked(obj)  # what is watched of it is narrowed already
        named = adapter.managed_by(obj) == self._controller or QUEUE_LABEL in fields.section(meta(obj), "labels")
        return named or self._is_known(job_stream(adapter.kind.name, str(meta(obj).get("namespace", "")), _name(obj)))


def _name(obj: Json) -> str:
    return str(meta(obj)["name"])


def _workload_of(obj: Json) -> str:
    return workload_stream(str(meta(obj).get("namespace", "")), _name(obj))


def _last(obj: Json) -> dict[str, str]:
    metadata = meta(obj)
    return {
        "namespace": str(metadata.get("namespace", "")),
        "name": str(metadata["name"]),
        "uid": str(metadata.get("uid", "")),
    }


def _workload(obj: Json, *, flavored: bool = False) -> _Built:
    spec, status = fields.section(obj, "spec"), fields.section(obj, "status")
    identity = objects.identity(obj)
    template, applied = objects.template(obj), objects.applied(status)
    assigned = objects.assignments(status)
    delayed = [str(a.get("name")) for a in assigned if a.get("delayedTopologyRequest") == "Pending"]
    event = observations.WorkloadObserved(
        **identity,
        owner=objects.owner(obj),
        queue_name=fields.text(spec, "queueName", "spec"),
        active=spec.get("active") is not False,
        priority=objects.priority(obj),
        template=template.ref,
        spec_key=spec_key(spec),
        conditions=conditions_of(status),
        checks=objects.checks(status),
        cluster_name=fields.text(status, "clusterName", "status"),
        nominated=fields.strings(status, "nominatedClusterNames", "status"),
        cluster_queue=fields.text(fields.section(status, "admission"), "clusterQueue", "status.admission"),
        delayed_topology=delayed,
        # Needed again only to flip one field in a list that a merge patch replaces as a whole.
        assignments=assigned if delayed else [],
        elastic=objects.elastic(obj),
        replaces=objects.replaces(obj),
        applied=applied.ref,
        size=objects.size(obj),
        owners=objects.owners(obj),
        component=objects.component(obj),
        requests=flavors.requests(status) if flavored else {},
    )
    return workload_stream(event.namespace, event.name), event, (template, applied)


def _clone(obj: Json) -> observations.CloneObserved:
    spec, status = fields.section(obj, "spec"), fields.section(obj, "status")
    owner = objects.owner(obj)
    return observations.CloneObserved(
        **objects.identity(obj),
        spec_key=spec_key(spec),
        active=spec.get("active") is not False,
        priority=objects.priority(obj),
        finalizers=objects.finalizers(obj),
        conditions=conditions_of(status),
        bound_to=owner.uid if owner else "",
        topology=[str(a.get("name")) for a in objects.assignments(status) if a.get("topologyAssignment")],
        size=objects.size(obj),
        gated=objects.gated(spec),
        gates=objects.gates(status),
        awaits=objects.awaited(status),
    )


def _check(obj: Json) -> _Built:
    spec = fields.section(obj, "spec")
    parameters = fields.section(spec, "parameters")
    event = observations.AdmissionCheckObserved(
        **objects.identity(obj),
        controller_name=fields.text(spec, "controllerName", "spec"),
        parameters={key: fields.text(parameters, key, "spec.parameters") for key in parameters},
        conditions=conditions_of(fields.section(obj, "status")),
    )
    return f"admissioncheck/{event.name}", event, ()


def _config(obj: Json) -> _Built:
    spec = fields.section(obj, "spec")
    event = observations.MultiKueueConfigObserved(
        **objects.identity(obj),
        clusters=_clusters(fields.strings(spec, "clusters", "spec")),
        quota_management=fields.text(spec, "quotaManagement", "spec"),
    )
    return f"multikueueconfig/{event.name}", event, ()


def _clusters(names: list[str]) -> list[str]:
    """Return the clusters of a MultiKueueConfig; an API server with Kueue's CRDs lets no others pass than these."""
    if len(names) > _MOST_CLUSTERS:
        raise BadValue("spec.clusters", f"{len(names)} clusters, and a Workload can be nominated to {_MOST_CLUSTERS}")
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise BadValue("spec.clusters", f'names "{double}" twice')
    return names


def _queue(obj: Json, *, queued: bool) -> _Built:
    event = observations.ClusterQueueObserved(
        **objects.identity(obj),
        execution_policy=objects.execution_policy(obj),
        checks=objects.queue_checks(obj) if queued else None,
    )
    return f"clusterqueue/{event.name}", event, ()


def _local_queue_of(obj: Json) -> str:
    return local_queue_stream(str(meta(obj).get("namespace", "")), _name(obj))


def _local_queue(obj: Json) -> _Built:
    spec = fields.section(obj, "spec")
    queue = fields.text(spec, "clusterQueue", "spec")
    return _local_queue_of(obj), observations.LocalQueueObserved(**objects.identity(obj), cluster_queue=queue), ()


def _decided_on(queue: Queue) -> tuple[str, object, bool]:
    """Return what of a queue something is decided on."""
    if isinstance(queue, observations.LocalQueueObserved):
        return queue.uid, queue.cluster_queue, queue.deleting
    return queue.uid, (queue.execution_policy, queue.checks), queue.deleting


def _cluster(obj: Json) -> _Built:
    source = fields.section(fields.section(obj, "spec"), "clusterSource")
    kubeconfig = fields.section(source, "kubeConfig")
    event = observations.MultiKueueClusterObserved(
        **objects.identity(obj),
        location=fields.text(kubeconfig, "location", "spec.clusterSource.kubeConfig"),
        location_type=fields.text(kubeconfig, "locationType", "spec.clusterSource.kubeConfig") or "Secret",
        cluster_profile=fields.text(
            fields.section(source, "clusterProfileRef"), "name", "spec.clusterSource.clusterProfileRef"
        ),
        labels=objects.labels(obj),
        conditions=conditions_of(fields.section(obj, "status")),
    )
    return cluster_stream(event.name), event, ()


def _refused(cluster: str, kind: Kind, obj: Json, error: Exception) -> _Built:
    body = body_of(obj)
    event = observations.ObservationRefused(**fields.refusal(kind, obj, error), object=body.ref)
    return refused_stream(cluster, kind, event.namespace, event.name), event, (body,)


def refused_stream(cluster: str, kind: Kind, namespace: str, name: str) -> str:
    """Return the stream of what is said of an object that cannot be read."""
    return f"refused/{cluster}/{kind.name}/{namespace}/{name}"
