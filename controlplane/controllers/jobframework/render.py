"""Makes of an open write the request that carries it out.

In: the state of a job, the decision, the bodies that it names, the time. Out: `Request`; `Obsolete` if what it was
decided on is gone. Pure. Jobs are changed by merge patches with the UID and, but for the one that suspends, the version
that was seen. What is written to a Workload's status is in `render_status`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.announce import Reporter, notice
from controlplane.controllers.jobframework.names import STOPPING, max_execution
from controlplane.controllers.jobframework.parts import GroupRole
from controlplane.controllers.jobframework.pod_events import PodStartDecided, PodWrite
from controlplane.controllers.jobframework.pod_sets import info_of, with_tolerations
from controlplane.controllers.jobframework.render_pods import members_references, render_pod, role_pod_sets
from controlplane.controllers.jobframework.render_sets import PROVISIONING, set_workload
from controlplane.controllers.jobframework.render_slices import grown_pod_sets, slice_notes, with_counts
from controlplane.controllers.jobframework.render_status import render_status, workload_place
from controlplane.controllers.jobframework.set_events import SetHoldDecided, SetWorkloadCreationDecided
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.job_kinds.base import JobKind, merged
from controlplane.job_kinds.generic_job import RUNTIME
from controlplane.kube.kinds import Json, ObjectRef, Request
from controlplane.kube.kueue_names import GATED_BY, JOB_UID_LABEL, MAX_EXECUTION, RESOURCE_IN_USE
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.requests import Obsolete, body_in, merge_diff
from controlplane.kube.workload_owners import GROUP_WORKLOAD


def bodies_needed(state: QueuedJobState, decision: events.JobWrite) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    match decision:
        case events.JobStartDecided() | PodStartDecided():
            return [decision.body]
        case SetWorkloadCreationDecided():
            return [decision.body]
        case events.JobWorkloadCreationDecided() | events.JobWorkloadUpdateDecided():
            more: Sequence[str] = ()
            if isinstance(decision, events.JobWorkloadCreationDecided):
                more = (decision.of, *decision.annotations.values())
            needed = (decision.body, *more, decision.runtime, *(role.body for role in decision.roles))
            return list(dict.fromkeys(one for one in needed if one))
        case events.JobStopDecided():
            return [decision.body, *([decision.spec] if decision.spec else [])]
        case events.JobWorkloadFinishDecided() | events.JobQuotaReleaseDecided() | SetHoldDecided():
            found = state.workloads.get(decision.uid)
            return [found.status] if found is not None else []
        case _:
            return []


def render(
    state: QueuedJobState,
    place: ObjectRef,
    decision: events.JobWrite,
    bodies: Mapping[str, bytes],
    adapter: JobKind,
    now: datetime,
    identity: str,
) -> Request:
    """Return the request of a write; `place` is the job's, or that of the pod which it is to, `adapter` that of its
    kind."""
    match decision:
        case PodWrite():
            return render_pod(place, decision, bodies, now)
        case events.JobNoticeDecided():
            return notice(place, decision, Reporter(identity=identity, integration=adapter.integration), now)
        case events.JobStartDecided() | events.JobStopDecided():
            return _of_job(state, place, decision, bodies, adapter)
        case events.JobDeletionDecided():
            return Request("delete", place, uid=decision.uid, resource_version=decision.resource_version)
        case events.JobWorkloadCreationDecided():
            return _creation(place, decision, bodies, adapter)
        case SetWorkloadCreationDecided():
            return Request("create", workload_place(place, decision), set_workload(place, decision, bodies, adapter))
        case events.JobWorkloadUpdateDecided():
            return _update(place, decision, bodies, adapter)
        case events.JobWorkloadRemovalDecided():
            return Request("delete", workload_place(place, decision), uid=decision.uid)
        case events.JobWorkloadReleaseDecided():
            return _patch(place, decision, {"metadata": {"finalizers": decision.finalizers or None}})
        case _:
            return render_status(state, place, decision, bodies, now)


def _patch(place: ObjectRef, decision: events.JobWrite, body: Json) -> Request:
    version = decision.resource_version
    return Request("patch", workload_place(place, decision), body, uid=decision.uid, resource_version=version)


# --- the Workload ----------------------------------------------------------------------------------------------------


def _creation(
    place: ObjectRef, decision: events.JobWorkloadCreationDecided, bodies: Mapping[str, bytes], adapter: JobKind
) -> Request:
    body = body_in(bodies, decision.body)
    job = _job(place, decision, bodies)
    notes = {name: value for name, value in body["annotations"].items() if name.startswith(PROVISIONING)}
    if gate := body["annotations"].get(GATED_BY):
        notes[GATED_BY] = gate
    notes |= _named(body["annotations"], decision.annotation_keys)
    notes |= {key: body_in(bodies, ref)["annotations"][key] for key, ref in decision.annotations.items()}
    notes |= slice_notes(decision.slice)
    metadata: Json = {"finalizers": [RESOURCE_IN_USE]}
    copied = _named(body["labels"], decision.label_keys)
    if decision.members:
        notes[GROUP_WORKLOAD] = "true"
        if decision.labels:
            metadata["labels"] = dict(decision.labels)
        metadata["ownerReferences"] = members_references(decision.members)
    else:
        metadata["labels"] = {**copied, JOB_UID_LABEL: decision.job_uid}
        metadata["ownerReferences"] = [owner_reference(place, adapter, decision.job_uid)]
    if notes:
        metadata["annotations"] = notes
    queue = {"queueName": decision.queue} if decision.queue else {}
    spec = {**queue, **_priority(decision), **_spec(job, adapter, decision.roles, bodies)}
    if decision.of:
        spec["podSets"] = grown_pod_sets(body_in(bodies, decision.of), decision.pods, decision.slice)
    elif decision.slice is not None:
        spec["podSets"] = with_counts(spec, decision.pods)
    label = None if decision.members else (JOB_UID_LABEL, decision.job_uid)
    return Request("create", workload_place(place, decision), {"metadata": metadata, "spec": spec}, owner_label=label)


def _named(found: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {key: found[key] for key in keys if key in found}


def _job(
    place: ObjectRef,
    decision: events.JobWorkloadCreationDecided | events.JobWorkloadUpdateDecided,
    bodies: Mapping[str, bytes],
) -> Json:
    """Return a job as its adapter reads it, with what its pods rest on."""
    body = body_in(bodies, decision.body)
    metadata = {"name": place.name, "labels": body["labels"], "annotations": body["annotations"]}
    resting = {RUNTIME: body_in(bodies, decision.runtime)} if decision.runtime else {}
    return {**body, "metadata": metadata, **resting}


def owner_reference(place: ObjectRef, adapter: JobKind, uid: str) -> Json:
    """Return the reference with which a job controls its Workload."""
    return {
        "apiVersion": adapter.kind.api_version,
        "kind": adapter.kind.kind,
        "name": place.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _spec(job: Json, adapter: JobKind, roles: Sequence[GroupRole], bodies: Mapping[str, bytes]) -> Json:
    limit = max_execution((job["metadata"].get("labels") or {}).get(MAX_EXECUTION))
    made: Json = {"podSets": role_pod_sets(roles, bodies, adapter) if roles else adapter.workload_pod_sets(job)}
    if limit is not None:
        made["maximumExecutionTimeSeconds"] = limit
    return made


def _priority(decision: events.JobWorkloadCreationDecided | events.JobWorkloadUpdateDecided) -> Json:
    made: Json = {"priority": decision.priority}
    named = decision.priority_class
    if named.name:
        made["priorityClassRef"] = {"group": named.group, "kind": named.kind, "name": named.name}
    return made


def _update(
    place: ObjectRef, decision: events.JobWorkloadUpdateDecided, bodies: Mapping[str, bytes], adapter: JobKind
) -> Request:
    match decision.what:
        case "queue":
            return _patch(place, decision, {"spec": {"queueName": decision.queue or None}})
        case "priority":
            return _patch(place, decision, {"spec": {"priorityClassRef": None} | _priority(decision)})
        case "gate":
            return _patch(place, decision, {"metadata": {"annotations": {GATED_BY: decision.gated_by or None}}})
        case "counts":
            return _patch(
                place, decision, {"spec": {"podSets": with_counts(body_in(bodies, decision.body), decision.pods)}}
            )
        case "owner":
            owner = owner_reference(place, adapter, decision.job_uid)
            body = {"labels": {JOB_UID_LABEL: decision.job_uid}, "ownerReferences": [*decision.references, owner]}
            return _patch(place, decision, {"metadata": body})
        case "references":
            return _patch(place, decision, {"metadata": {"ownerReferences": decision.references}})
        case "members":
            owners = [*decision.references, *members_references(decision.members)]
            return _patch(place, decision, {"metadata": {"ownerReferences": owners}})
    job = _job(place, decision, bodies)
    spec = {
        "priorityClassRef": None,
        "maximumExecutionTimeSeconds": None,
        "queueName": decision.queue or None,
        "active": decision.active,
        **_priority(decision),
        **_spec(job, adapter, decision.roles, bodies),
    }
    return _patch(place, decision, {"spec": spec})


# --- the job ---------------------------------------------------------------------------------------------------------


def _of_job(
    state: QueuedJobState,
    place: ObjectRef,
    decision: events.JobStartDecided | events.JobStopDecided,
    bodies: Mapping[str, bytes],
    adapter: JobKind,
) -> Request:
    if state.job is None or state.job.uid != decision.uid:
        raise Obsolete("the job is gone")
    job = body_in(bodies, decision.body)
    version = decision.resource_version
    if isinstance(decision, events.JobStartDecided):
        prepares = decision.step == "prepare"
        started = started_spec(job, decision.pod_sets, adapter, {} if prepares else adapter.started())
        body: Json = {"spec": merge_diff(job["spec"], started)}
    elif decision.step == "reset":
        status = {"status": {"startTime": None}}
        return Request("patch", place, status, subresource="status", uid=decision.uid, resource_version=version)
    else:
        body, version = _stopped(job, decision, bodies, adapter)
    return Request("patch", place, body, uid=decision.uid, resource_version=version)


def started_spec(job: Json, infos: Sequence[events.PodSetInfo], adapter: JobKind, started: Json | None = None) -> Json:
    """Return the spec of a job that starts, its templates with what their pod sets were admitted with. `started`: the
    part that lets it start, if not all that the kind says.
    """
    spec = merged(copy.deepcopy(job["spec"]), adapter.started() if started is None else started)
    counts = {info.name: info.count for info in infos}
    named = {"metadata": {"annotations": job["annotations"], "labels": job["labels"]}, "spec": spec}
    if adapter.infos_apart:
        return merged(spec, adapter.with_infos(named, [info_of(one) for one in infos]))
    templates = [
        _injected(copy.deepcopy(template), info) for template, info in zip(adapter.templates(named), infos, strict=True)
    ]
    spec = merged(spec, adapter.counted(named, counts))
    return merged(spec, adapter.with_templates(templates, {"spec": spec}))


def _injected(template: Json, info: events.PodSetInfo) -> Json:
    metadata, spec = template.setdefault("metadata", {}), template.setdefault("spec", {})
    for field, values in (("annotations", info.annotations), ("labels", info.labels)):
        if values:
            metadata[field] = {**(metadata.get(field) or {}), **values}
    if info.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info.node_selector}
    if info.tolerations:
        spec["tolerations"] = with_tolerations(spec.get("tolerations") or (), info.tolerations)
    there = list(spec.get("schedulingGates") or ())
    more = [{"name": one} for one in info.gates if {"name": one} not in there]
    if more:
        spec["schedulingGates"] = [*there, *more]
    return template


def _stopped(
    job: Json, decision: events.JobStopDecided, bodies: Mapping[str, bytes], adapter: JobKind
) -> tuple[Json, str]:
    """Return the patch that suspends a job or restores its templates, and the version that it holds for. What suspends
    holds for any: a job that runs changes all the time."""
    steps = adapter.stops_by_steps and not decision.quiet
    body: Json = {}
    if decision.step == "suspend":
        body["spec"] = adapter.stopped(job)
        if steps:
            body["metadata"] = {"annotations": {STOPPING: "true"}}
            return body, ""
    elif STOPPING in job["annotations"]:
        body["metadata"] = {"annotations": {STOPPING: None}}
    if decision.spec or (decision.step == "restore" and adapter.changes_at_rest):
        spec = merged(copy.deepcopy(job["spec"]), body.get("spec", {}))
        workload = body_in(bodies, decision.spec) if decision.spec else {}
        restored = restored_spec(job, spec, workload, adapter)
        if difference := merge_diff(job["spec"], restored):
            body["spec"] = difference
    return body, "" if decision.step == "suspend" else decision.resource_version


def restored_spec(job: Json, spec: Json, workload: Json, adapter: JobKind) -> Json:
    """Return a job's spec with the templates as its Workload has them; as it is if their number differs."""
    named = {"metadata": {"annotations": job["annotations"], "labels": job["labels"]}, "spec": spec}
    if adapter.infos_apart:
        return merged(spec, adapter.with_infos(named, ()))
    originals = {str(one["name"]): one for one in workload.get("podSets") or ()}
    templates = adapter.templates(named)
    if len(originals) != len(templates):
        return spec
    counts = {name: int(one["count"]) for name, one in originals.items()}
    back = [
        _as_was(copy.deepcopy(template), stored_template(one["template"]), adapter.generated_labels)
        for template, one in zip(templates, originals.values(), strict=True)
    ]
    spec = merged(spec, adapter.counted(named, counts))
    made = copy.deepcopy(spec)
    part = adapter.with_templates(back, {"spec": made})
    return merged(made, part)


def _as_was(template: Json, original: Json, generated: tuple[str, ...]) -> Json:
    metadata, spec = template.setdefault("metadata", {}), template.setdefault("spec", {})
    kept = {name: value for name, value in (metadata.get("labels") or {}).items() if name in generated}
    was: Json = original["metadata"]
    _put(metadata, "annotations", was.get("annotations"))
    _put(metadata, "labels", {**(was.get("labels") or {}), **kept})
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        _put(spec, field, original["spec"].get(field))
    return template


def _put(place: Json, field: str, value: Any) -> None:
    if value:
        place[field] = value
    else:
        place.pop(field, None)
