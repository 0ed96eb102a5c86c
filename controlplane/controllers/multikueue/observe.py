"""Makes of an object that an API server showed the narrow event that is recorded of it.

In: cluster, incarnation, the change. Out: events on their streams with their bodies and their identity; none for
objects that are not ours to know. An object that does not fit its API becomes `ObservationRefused` and nothing else:
the stream goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.multikueue import objects, observations
from controlplane.job_kinds.base import ORIGIN_LABEL, PREBUILT, QUEUE_LABEL, JobKind
from controlplane.kube import fields, kinds
from controlplane.kube.fields import UNFIT, Misfit
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.log.event import Body, Event, NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

_Built = tuple[str, Event, tuple[Body, ...]]


def workload_stream(namespace: str, name: str) -> str:
    """Return the stream of a Workload and all its copies."""
    return f"workload/{namespace}/{name}"


def job_stream(kind: str, namespace: str, name: str) -> str:
    """Return the stream of the user's job; `kind` as in `Kind.name`."""
    return f"job/{kind}/{namespace}/{name}"


class WorkloadObserver:
    """Builds the events of MultiKueue's kinds. `adapters` by GVK; `controller_name` is the managedBy that makes a job
    ours.

    `stream_of_job(cluster, uid)` tells where a job's copy was recorded: of one that vanished unseen only the name is
    known. `queue(name)` is a ClusterQueue as the log has it: its status changes with every Workload, and only its
    policy is decided on."""

    def __init__(
        self,
        adapters: Mapping[str, JobKind],
        controller_name: str,
        stream_of_job: Callable[[str, str], str],
        queue: Callable[[str], observations.ClusterQueueObserved | None] = lambda name: None,
    ) -> None:
        self._queue, self._offered = queue, dict[str, tuple[str, observations.ClusterQueueObserved]]()
        self._stream_of_job = stream_of_job
        self._adapters = {adapter.kind: adapter for adapter in adapters.values()}
        self._controller = controller_name
        self._named: dict[Kind, tuple[Callable[[Json], _Built], Callable[[Json], tuple[str, Event]]]] = {
            kinds.WORKLOADS: (_workload, lambda obj: (_workload_of(obj), observations.WorkloadGone(**_last(obj)))),
            kinds.ADMISSION_CHECKS: (
                _check,
                lambda obj: (f"admissioncheck/{_name(obj)}", observations.AdmissionCheckGone(**_last(obj))),
            ),
            kinds.CLUSTER_QUEUES: (
                _queue,
                lambda obj: (f"clusterqueue/{_name(obj)}", observations.ClusterQueueGone(**_last(obj))),
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

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of one change, or None for what concerns nobody."""
        cluster, kind, obj = change.cluster, change.kind, change.object
        try:
            built = self._gone(cluster, kind, obj) if change.gone else self._seen(cluster, kind, change.whole())
        except UNFIT as error:
            built = _refused(cluster, kind, obj, error)
        if built is None:
            return None
        stream, event, bodies = built
        if isinstance(event, observations.ClusterQueueObserved) and self._unchanged(change.incarnation, event):
            return None
        if isinstance(event, observations.ClusterQueueGone):
            self._offered.pop(event.name, None)
        return change.observed(stream, event, now, bodies)

    def _unchanged(self, incarnation: str, event: observations.ClusterQueueObserved) -> bool:
        """Whether a ClusterQueue shows nothing else that is decided on than it did last, in the same incarnation of the
        cluster.

        What was handed out last counts, since the log may not have it yet; and the log counts, since it may have
        refused that. So each process records every queue once, and what comes after a restart or a restore is never
        taken for known."""
        before = self._offered.get(event.name)
        self._offered[event.name] = (incarnation, event)
        recorded = self._queue(event.name)
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
            objects.conditions(fields.section(obj, "status"))
        if cluster == MANAGEMENT:
            if adapter:
                return _job(adapter, obj) if self._concerns_us(adapter, obj) else None
            return self._named[kind][0](obj) if kind in self._named else None
        if kind == kinds.WORKLOADS:
            return _clone(obj)
        return _remote_job(adapter, obj) if adapter else None

    def _gone(self, cluster: str, kind: Kind, obj: Json) -> _Built | None:
        adapter = self._adapters.get(kind)
        if cluster == MANAGEMENT:
            if adapter:
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
        if adapter is None:
            return None
        last = _last(obj)
        bound = prebuilt(obj)
        stream = workload_stream(last["namespace"], bound) if bound else self._stream_of_job(cluster, last["uid"])
        return (stream, observations.RemoteJobGone(kind=kind.name, **last), ()) if stream else None

    def _concerns_us(self, adapter: JobKind, obj: Json) -> bool:
        return adapter.managed_by(obj) == self._controller or QUEUE_LABEL in fields.section(meta(obj), "labels")


def prebuilt(obj: Json) -> str:
    """Return the Workload that a job's copy is bound to: annotation first, then label; "" if neither is there."""
    metadata = meta(obj)
    for place in ("annotations", "labels"):
        found = fields.section(metadata, place).get(PREBUILT)
        if found:
            return str(found)
    return ""


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


def _workload(obj: Json) -> _Built:
    spec, status = fields.section(obj, "spec"), fields.section(obj, "status")
    identity = objects.identity(obj)
    template = objects.template(obj)
    assigned = objects.assignments(status)
    delayed = [str(a.get("name")) for a in assigned if a.get("delayedTopologyRequest") == "Pending"]
    event = observations.WorkloadObserved(
        **identity,
        owner=objects.owner(obj),
        queue_name=fields.text(spec, "queueName", "spec"),
        active=spec.get("active") is not False,
        priority=objects.priority(obj),
        template=template.ref,
        spec_key=objects.spec_key(spec),
        conditions=objects.conditions(status),
        checks=objects.checks(status),
        cluster_name=fields.text(status, "clusterName", "status"),
        nominated=fields.strings(status, "nominatedClusterNames", "status"),
        cluster_queue=fields.text(fields.section(status, "admission"), "clusterQueue", "status.admission"),
        delayed_topology=delayed,
        # Needed again only to flip one field in a list that a merge patch replaces as a whole.
        assignments=assigned if delayed else [],
        elastic=objects.elastic(obj),
        replaces=objects.replaces(obj),
    )
    return workload_stream(event.namespace, event.name), event, (template,)


def _clone(obj: Json) -> _Built:
    spec, status = fields.section(obj, "spec"), fields.section(obj, "status")
    owner = objects.owner(obj)
    event = observations.CloneObserved(
        **objects.identity(obj),
        spec_key=objects.spec_key(spec),
        active=spec.get("active") is not False,
        priority=objects.priority(obj),
        finalizers=objects.finalizers(obj),
        conditions=objects.conditions(status),
        bound_to=owner.uid if owner else "",
        topology=[str(a.get("name")) for a in objects.assignments(status) if a.get("topologyAssignment")],
    )
    return workload_stream(event.namespace, event.name), event, ()


def _job(adapter: JobKind, obj: Json) -> _Built:
    status = fields.section(obj, "status")
    template, body = objects.template(obj), body_of(status)
    event = observations.JobObserved(
        **objects.identity(obj),
        kind=adapter.kind.name,
        managed_by=adapter.managed_by(obj),
        suspended=adapter.suspended(obj),
        finished=adapter.outcome(status) is not None,
        inactive=not adapter.active(status),
        says_suspended=any(c.type == "Suspended" and c.status == "True" for c in objects.conditions(status)),
        execution_policy=objects.execution_policy(obj),
        synced=_synced(adapter, obj),
        template=template.ref,
        status=body.ref,
    )
    return job_stream(event.kind, event.namespace, event.name), event, (template, body)


def _synced(adapter: JobKind, obj: Json) -> str:
    return body_of(adapter.synced_spec(obj)).ref if adapter.synced else ""


def _remote_job(adapter: JobKind, obj: Json) -> _Built:
    status = fields.section(obj, "status")
    body = body_of(status)
    identity = objects.identity(obj)
    bound = prebuilt(obj)
    if not bound:
        raise Misfit(f"metadata.annotations[{PREBUILT}]", None, f"a Workload's name beside the label {ORIGIN_LABEL}")
    event = observations.RemoteJobObserved(
        **identity,
        kind=adapter.kind.name,
        prebuilt=bound,
        suspended=adapter.suspended(obj),
        finished=adapter.outcome(status) is not None,
        inactive=not adapter.active(status),
        synced=_synced(adapter, obj),
        status=body.ref,
    )
    return workload_stream(event.namespace, bound), event, (body,)


def _check(obj: Json) -> _Built:
    spec = fields.section(obj, "spec")
    parameters = fields.section(spec, "parameters")
    event = observations.AdmissionCheckObserved(
        **objects.identity(obj),
        controller_name=fields.text(spec, "controllerName", "spec"),
        parameters={key: fields.text(parameters, key, "spec.parameters") for key in parameters},
        conditions=objects.conditions(fields.section(obj, "status")),
    )
    return f"admissioncheck/{event.name}", event, ()


def _config(obj: Json) -> _Built:
    event = observations.MultiKueueConfigObserved(
        **objects.identity(obj), clusters=fields.strings(fields.section(obj, "spec"), "clusters", "spec")
    )
    return f"multikueueconfig/{event.name}", event, ()


def _queue(obj: Json) -> _Built:
    event = observations.ClusterQueueObserved(**objects.identity(obj), execution_policy=objects.execution_policy(obj))
    return f"clusterqueue/{event.name}", event, ()


def _decided_on(queue: observations.ClusterQueueObserved) -> tuple[str, str, bool]:
    """Return what of a ClusterQueue something is decided on."""
    return queue.uid, queue.execution_policy, queue.deleting


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
        conditions=objects.conditions(fields.section(obj, "status")),
    )
    return cluster_stream(event.name), event, ()


def _refused(cluster: str, kind: Kind, obj: Json, error: Exception) -> _Built:
    body = body_of(obj)
    event = observations.ObservationRefused(**fields.refusal(kind, obj, error), object=body.ref)
    return f"refused/{cluster}/{kind.name}/{event.namespace}/{event.name}", event, (body,)
