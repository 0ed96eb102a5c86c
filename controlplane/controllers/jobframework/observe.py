"""Makes of an object that the management cluster showed the narrow event that jobs rest on.

In: a change. Out: stream, event and bodies; None for what concerns no job with a queue. An object that does not fit its
API becomes `JobInputRefused`: what was known of it counts on. Sources: kubernetes-sigs/kueue
pkg/controller/jobframework/utils.go, pkg/controller/constants/constants.go, ff69552e."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.names import STOPPING, WORD, job_stream, max_execution, workload_stream
from controlplane.controllers.jobframework.namespace_events import JobNamespaceGone, JobNamespaceObserved
from controlplane.controllers.jobframework.namespaces import STREAM as NAMESPACE_STREAM
from controlplane.controllers.jobframework.observe_pods import POD_GROUPS, is_group_workload, observed_pod, pod_stream
from controlplane.controllers.jobframework.observe_sets import observed_set
from controlplane.controllers.jobframework.parts import SliceFacts
from controlplane.controllers.jobframework.pod_events import QueuedPodGone
from controlplane.controllers.jobframework.pod_sets import pod_set_facts
from controlplane.controllers.jobframework.runtime_events import JobRuntimeGone, JobRuntimeObserved, runtime_key
from controlplane.controllers.jobframework.runtimes import STREAM, composed
from controlplane.controllers.jobframework.set_events import QueuedSetGone
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.pod import Pod
from controlplane.kube import fields, kinds
from controlplane.kube.conditions import Condition
from controlplane.kube.fields import UNFIT, flag, items, number, section, strings, text
from controlplane.kube.kinds import PODS, Json, Kind, ObjectRef, meta
from controlplane.kube.kueue_names import (
    GATED_BY,
    MAX_EXECUTION,
    MULTIKUEUE,
    ORIGIN_LABEL,
    PREBUILT,
    PRIORITY_CLASS,
    QUEUE_LABEL,
)
from controlplane.kube.slices import SLICE_NAME, is_elastic, replacement_for
from controlplane.kube.topologies import domains_of
from controlplane.log.event import Body, Event, body_of
from controlplane.runtime.controller import ObjectChange

CLASSES = (kinds.WORKLOAD_PRIORITY_CLASSES, kinds.PRIORITY_CLASSES)

_replace = msgspec.structs.replace

Built = tuple[str, Event, tuple[Body, ...]]


class JobObserver:
    """Makes the events; `adapters` are the kinds of job that are reconciled."""

    def __init__(self, policy: JobFrameworkPolicy) -> None:
        self.policy, adapters, parents = policy, policy.adapters, policy.parents
        self.adapters = adapters
        self._parents = {one.integration: one for one in parents.values()}
        self._sets = {kind: one for kind, one in parents.items() if one.grouped}
        self._owners = {(kind.group, kind.kind): kind for kind in adapters}
        self.runtimes = {kind: one for one in adapters.values() for kind in one.runtimes}

    def kind_of(self, owner: events.QueuedOwner) -> Kind | None:
        """Return the kind of an owner, None if jobs of it are not reconciled."""
        return self._owners.get((owner.api_version.rpartition("/")[0], owner.kind))

    def seen(self, change: ObjectChange, stream_of: Mapping[str, str]) -> Built | None:
        """Return stream, event and bodies of something seen; None if it concerns nobody. `stream_of` has the streams of
        the Workloads that were seen, by UID: of one that went while nobody looked, no more is known.
        """
        if change.cluster != MANAGEMENT:
            return None
        try:
            if change.gone:
                return self._gone(change, stream_of)
            return self._built(change.kind, change.whole())
        except UNFIT as error:
            return _refused(change, error)

    def _built(self, kind: Kind, obj: Json) -> Built | None:
        if isinstance(adapter := self.adapters.get(kind), Pod):
            return observed_pod(adapter, obj, self._parents, owned=self._is_owned(controller_of(obj)))
        if adapter is not None:
            return self._job(adapter, obj)
        if kind in self._sets:
            return None if self._is_owned(controller_of(obj)) else observed_set(self._sets[kind], obj)
        if kind == kinds.WORKLOADS:
            return self._workload(obj)
        if kind == kinds.RESOURCE_FLAVORS:
            return _place(kind, obj), _flavor(obj), ()
        if kind == kinds.NAMESPACES:
            return _namespace(obj) if self.policy.asks_namespaces else None
        if kind in self.runtimes:
            return _runtime(kind, self.runtimes[kind], obj)
        return (_place(kind, obj), _class(kind, obj), ()) if kind in CLASSES else None

    def _gone(self, change: ObjectChange, stream_of: Mapping[str, str]) -> Built | None:
        obj, kind = change.object, change.kind
        head = {
            "namespace": str(meta(obj).get("namespace") or ""),
            "name": str(meta(obj)["name"]),
            "uid": change.uid,
        }
        if isinstance(adapter := self.adapters.get(kind), Pod):
            # Of what went while nobody looked, the name alone is shown: the group is known by the UID.
            stream = stream_of.get(change.uid) or pod_stream(
                adapter, head["namespace"], head["name"], adapter.group(obj)
            )
            return stream, QueuedPodGone(**head, kind=kind.name), ()
        if kind in self.adapters or kind in self._sets:
            gone = events.QueuedJobGone if kind in self.adapters else QueuedSetGone
            return job_stream(kind.name, head["namespace"], head["name"]), gone(**head, kind=kind.name), ()
        if kind == kinds.WORKLOADS:
            stream = stream_of.get(change.uid) or self._stream_of_workload(obj)
            return (stream, events.JobWorkloadGone(**head), ()) if stream else None
        return self._gone_of_others(kind, obj, head)

    def _gone_of_others(self, kind: Kind, obj: Json, head: dict[str, str]) -> Built | None:
        """Return the end of what belongs to no job alone."""
        if kind == kinds.RESOURCE_FLAVORS:
            return _place(kind, obj), events.JobFlavorGone(**head), ()
        if kind == kinds.NAMESPACES:
            return NAMESPACE_STREAM + head["name"], JobNamespaceGone(**head), ()
        if kind in self.runtimes:
            key = runtime_key(ObjectRef(kind, head["namespace"], head["name"]))
            return STREAM + key, JobRuntimeGone(**head, kind=kind.name), ()
        return (_place(kind, obj), events.JobPriorityClassGone(**head, kind=kind.name), ()) if kind in CLASSES else None

    def _job(self, adapter: JobKind, obj: Json) -> Built | None:
        metadata, kind = meta(obj), adapter.kind
        labels, notes = section(metadata, "labels"), section(metadata, "annotations")
        owner = controller_of(obj)
        if adapter.skipped(obj) or not self._concerns(obj, owner):
            return None
        status = section(obj, "status")
        body = body_of({"labels": labels, "annotations": notes, "spec": section(obj, "spec")})
        outcome = adapter.outcome(status)
        event = events.QueuedJobObserved(
            **fields.identity(obj),
            kind=kind.name,
            generation=number(metadata, "generation", "metadata"),
            queue=str(labels.get(QUEUE_LABEL) or ""),
            prebuilt=str(notes.get(PREBUILT) or labels.get(PREBUILT) or ""),
            managed_by=adapter.managed_by(obj),
            priority_class=str(labels.get(PRIORITY_CLASS) or ""),
            max_execution_seconds=max_execution(labels.get(MAX_EXECUTION)),
            gated_by=str(notes.get(GATED_BY) or ""),
            owner=owner,
            suspended=adapter.suspended(obj),
            stopping=notes.get(STOPPING) == "true",
            started=bool(status.get("startTime")),
            elastic=adapter.sliced and is_elastic(obj) and (adapter.elastic or adapter.managed_by(obj) != MULTIKUEUE),
            active=adapter.active(status),
            refused=adapter.refused(status),
            end=events.JobEnding(success=outcome.success, message=outcome.message) if outcome else None,
            injected=adapter.injected(obj),
            body=body.ref,
        )
        if (runtime := adapter.runtime_of(obj)) is not None:
            head = {name: metadata[name] for name in ("namespace", "name") if name in metadata}
            unresolved = {"metadata": head, "spec": adapter.outlined(obj), "status": status}
            event = _replace(event, rests_on=runtime_key(runtime), unresolved=unresolved)
        else:
            event = self._sized(composed(event, adapter, obj), adapter, obj)
        return job_stream(kind.name, event.namespace, event.name), event, (body,)

    def _sized(self, event: events.QueuedJobObserved, adapter: JobKind, obj: Json) -> events.QueuedJobObserved:
        """Return an elastic job with the stream of the one that has its sizes, if that is another one."""
        by = adapter.sized_by(obj) if event.elastic else None
        if by is None:
            return event
        if by.kind not in self.adapters:
            told = (
                f"is made larger and smaller by its {by.kind.kind}, and jobs of the kind {by.kind.name} are not "
                "looked after"
            )
            return _replace(event, pod_sets=[], problem=event.problem or told)
        return _replace(event, sized_by=job_stream(by.kind.name, by.namespace, by.name)) if by.name else event

    def _is_owned(self, owner: events.QueuedOwner | None) -> bool:
        """Whether an owner is of a kind that is looked after."""
        return owner is not None and self.kind_of(owner) is not None

    def _concerns(self, obj: Json, owner: events.QueuedOwner | None) -> bool:
        """Whether a job is looked after, or may be: it has a queue, its namespace needs none, or it belongs to another
        job."""
        metadata = meta(obj)
        if section(metadata, "labels").get(QUEUE_LABEL) or self._is_owned(owner):
            return True
        return self.policy.may_manage(str(metadata.get("namespace") or ""))

    def _stream_of_workload(self, obj: Json) -> str:
        namespace, owner = str(meta(obj).get("namespace") or ""), controller_of(obj)
        name = str(meta(obj)["name"])
        if owner is None and is_group_workload(obj) and PODS in self.adapters:
            return job_stream(POD_GROUPS, namespace, name)
        if owner is None:
            return workload_stream(namespace, name)
        kind = self.kind_of(owner)
        return job_stream(kind.name, namespace, owner.name) if kind is not None else ""

    def _workload(self, obj: Json) -> Built | None:
        stream = self._stream_of_workload(obj)
        if not stream:
            return None
        metadata, spec, status = meta(obj), section(obj, "spec"), section(obj, "status")
        reference, admission = section(spec, "priorityClassRef", "spec"), section(status, "admission", "status")
        bodies, owner = (body_of(spec), body_of(status)), controller_of(obj)
        kind = self.kind_of(owner) if owner is not None else None
        outlined = self.adapters[kind].outlined_template if kind is not None else dict
        event = events.JobWorkloadObserved(
            **fields.identity(obj),
            generation=number(metadata, "generation", "metadata"),
            created=text(metadata, "creationTimestamp", "metadata"),
            owner=owner,
            references=items(metadata, "ownerReferences", "metadata") if owner is None else [],
            finalizers=strings(metadata, "finalizers", "metadata"),
            origin=ORIGIN_LABEL in section(metadata, "labels"),
            gated_by=str(section(metadata, "annotations").get(GATED_BY) or ""),
            queue=text(spec, "queueName", "spec"),
            active=spec.get("active") is not False,
            priority=number(spec, "priority", "spec") if "priority" in spec else None,
            priority_class=events.PriorityClassName(
                group=text(reference, "group", "spec.priorityClassRef"),
                kind=text(reference, "kind", "spec.priorityClassRef"),
                name=text(reference, "name", "spec.priorityClassRef"),
            ),
            max_execution_seconds=number(spec, "maximumExecutionTimeSeconds", "spec") or None,
            pod_sets=[
                pod_set_facts({**one, "template": outlined(section(one, "template", "spec.podSets[]"))})
                for one in items(spec, "podSets", "spec")
            ],
            conditions=_conditions(status),
            cluster_queue=text(admission, "clusterQueue", "status.admission"),
            assignments=[_assignment(one) for one in items(admission, "podSetAssignments", "status.admission")],
            checks=[_check(one) for one in items(status, "admissionChecks", "status")],
            reclaimable={
                text(one, "name", "status.reclaimablePods[]"): number(one, "count", "status.reclaimablePods[]")
                for one in items(status, "reclaimablePods", "status")
            },
            accumulated_seconds=number(status, "accumulatedPastExecutionTimeSeconds", "status"),
            unhealthy_nodes=[
                text(one, "name", "unhealthyNodes[]") for one in items(status, "unhealthyNodes", "status")
            ],
            slice=_slice(obj),
            spec=bodies[0].ref,
            status=bodies[1].ref,
        )
        return stream, event, bodies


def controller_of(obj: Json) -> events.QueuedOwner | None:
    """Return the owner reference that controls an object, None if none does."""
    for one in items(meta(obj), "ownerReferences", "metadata"):
        if one.get("controller") is True:
            where = "metadata.ownerReferences[]"
            return events.QueuedOwner(
                api_version=text(one, "apiVersion", where),
                kind=text(one, "kind", where),
                name=text(one, "name", where),
                uid=text(one, "uid", where),
            )
    return None


def _slice(obj: Json) -> SliceFacts | None:
    """Return which slice of an elastic job a Workload is, None if it is none."""
    if not is_elastic(obj):
        return None
    named = section(meta(obj), "annotations").get(SLICE_NAME) or meta(obj)["name"]
    return SliceFacts(name=str(named), replaces=replacement_for(obj))


def _conditions(status: Json) -> list[Condition]:
    where = "status.conditions[]"
    return [
        Condition(
            type=text(one, "type", where),
            status=text(one, "status", where),
            reason=text(one, "reason", where),
            message=text(one, "message", where),
            last_transition_time=text(one, "lastTransitionTime", where),
            observed_generation=number(one, "observedGeneration", where),
        )
        for one in items(status, "conditions", "status")
    ]


def _assignment(one: Json) -> events.PodSetAdmission:
    where = "status.admission.podSetAssignments[]"
    return events.PodSetAdmission(
        name=text(one, "name", where),
        count=number(one, "count", where) if one.get("count") is not None else None,
        flavors={name: str(flavor) for name, flavor in section(one, "flavors", where).items()},
        topology=one.get("topologyAssignment") is not None,
        domains=_domains(one),
    )


def _domains(one: Json) -> Json:
    found = section(one, "topologyAssignment", "status.admission.podSetAssignments[]")
    domains_of(found)  # what cannot be read is refused here, and not when pods are placed
    return found


def _check(one: Json) -> events.CheckUpdates:
    where = "status.admissionChecks[]"
    return events.CheckUpdates(
        name=text(one, "name", where),
        state=text(one, "state", where),
        message=text(one, "message", where),
        updates=items(one, "podSetUpdates", where),
    )


def _flavor(obj: Json) -> events.JobFlavorObserved:
    spec = section(obj, "spec")
    return events.JobFlavorObserved(
        **fields.identity(obj),
        node_labels={name: str(value) for name, value in section(spec, "nodeLabels", "spec").items()},
        tolerations=items(spec, "tolerations", "spec"),
    )


def _namespace(obj: Json) -> Built:
    labels = {name: str(value) for name, value in section(meta(obj), "labels").items()}
    event = JobNamespaceObserved(**fields.identity(obj), labels=labels)
    return NAMESPACE_STREAM + event.name, event, ()


def _runtime(kind: Kind, adapter: JobKind, obj: Json) -> Built:
    spec = section(obj, "spec")
    body = body_of(spec)
    event = JobRuntimeObserved(
        **fields.identity(obj), kind=kind.name, spec=adapter.outlined_runtime(spec), body=body.ref
    )
    return STREAM + runtime_key(ObjectRef(kind, event.namespace, event.name)), event, (body,)


def _class(kind: Kind, obj: Json) -> events.JobPriorityClassObserved:
    return events.JobPriorityClassObserved(
        **fields.identity(obj),
        kind=kind.name,
        value=number(obj, "value", "object"),
        global_default=flag(obj, "globalDefault", "object"),
    )


def _place(kind: Kind, obj: Json) -> str:
    word = "flavor" if kind == kinds.RESOURCE_FLAVORS else f"priorityclass/{kind.name}"
    return f"{WORD}/{word}/{meta(obj)['name']}"


def _refused(change: ObjectChange, error: Exception) -> Built:
    body, obj = body_of(change.object), change.object
    event = events.JobInputRefused(**fields.refusal(change.kind, obj, error), object=body.ref)
    return f"{WORD}/refused/{event.kind}/{event.namespace}/{event.name}", event, (body,)
