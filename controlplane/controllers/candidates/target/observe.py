"""From an object that the target's own API server showed to the event that is recorded of it.

In: the change. Out: events on candidates' streams (`candidate/NS/NAME`) and on invitations' (`invitation/NS/NAME`). A
Candidate is written by another cluster: what does not fit, or has a label that only we set, is refused with the field
that is wrong, and the others go on."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from controlplane.controllers.candidates import constraints, objects, readiness
from controlplane.controllers.candidates.objects import (
    CANDIDATE_SOURCES,
    CANDIDATES,
    PODS,
    SCALE_UP,
    SOURCE_LABEL,
    SOURCE_UID,
    TEMPLATE,
)
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.observations import Built, event_of
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.amendment import CHANGEABLE, CONTAINERS, changeable_of
from controlplane.controllers.candidates.target.changes import of_group
from controlplane.controllers.candidates.target.state import candidate_stream
from controlplane.kube import fields, pod_security
from controlplane.kube.candidate_pods import SOURCE, is_candidates
from controlplane.kube.conditions import Condition, conditions_of
from controlplane.kube.fields import BadValue, Misfit, number, section, text
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.log.event import NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

_SAID = 800  # characters of what a level forbids
_MOST_NOTED = 1 << 17  # bytes of what is noted of a template beside its hash
_UID = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]{0,61}[0-9A-Za-z])?")
_CREDENTIALS = ("serviceAccountToken", "podCertificate")  # by which a pod is known as its ServiceAccount


def invitation_stream(namespace: str, name: str) -> str:
    """Return the stream of a CandidateSource."""
    return f"invitation/{namespace}/{name}"


def observe(change: ObjectChange, now: datetime) -> NewEvent | None:
    """Return the event of one change, or None for what concerns nobody."""
    kind, obj = change.kind, change.object
    return event_of(
        change,
        now,
        lambda: _gone(kind, obj) if change.gone else _seen(kind, change.whole()),
        lambda error: _leaving(kind, obj, error) or _refused(change.cluster, kind, obj, error),
    )


def _seen(kind: Kind, obj: Json) -> Built | None:
    if kind == CANDIDATES:
        return candidate(obj)
    if kind == PODS:
        return pod(obj) if is_candidates(meta(obj)) else None
    if kind == CANDIDATE_SOURCES:
        spec = section(obj, "spec")
        event = events.InvitationObserved(
            **fields.identity(obj),
            cluster=text(spec, "cluster", "spec"),
            user=text(spec, "user", "spec"),
            most=number(spec, "maxCandidates", "spec"),
            priority_classes=fields.strings(spec, "priorityClasses", "spec"),
            service_accounts=fields.strings(spec, "serviceAccounts", "spec"),
            pod_security=_level(spec),
            follow=_follow(spec),
        )
        return invitation_stream(event.namespace, event.name), event, ()
    return None


def _follow(spec: Json) -> list[str]:
    kinds = fields.strings(spec, "follow", "spec")
    for kind in kinds:
        if kind not in objects.ALLOWED:
            raise Misfit("spec.follow[]", kind, f"one of {', '.join(objects.ALLOWED)}")
    return sorted(set(kinds))


def _level(spec: Json) -> str:
    level = text(spec, "podSecurity", "spec")
    if level and level not in pod_security.LEVELS:
        raise Misfit("spec.podSecurity", level, f"one of {', '.join(pod_security.LEVELS)}")
    return level


def _gone(kind: Kind, obj: Json) -> Built | None:
    metadata = meta(obj)
    last = {
        "namespace": str(metadata.get("namespace", "")),
        "name": str(metadata["name"]),
        "uid": str(metadata.get("uid", "")),
    }
    if kind == CANDIDATES:
        return candidate_stream(last["namespace"], last["name"]), events.CandidateVanished(**last), ()
    if kind == PODS:
        return candidate_stream(last["namespace"], last["name"]), events.CandidatePodGone(**last), ()
    if kind == CANDIDATE_SOURCES:
        return invitation_stream(last["namespace"], last["name"]), events.InvitationGone(**last), ()
    return None


def candidate(obj: Json) -> Built:
    """Return the event of a Candidate; `Misfit` if it does not fit."""
    spec = section(obj, "spec")
    whole = section(spec, "template", "spec")
    template, pod_spec = body_of(whole), section(whole, "spec", "spec.template")
    reason, message = "", ""
    asks: Json = {}
    permit: objects.PermitSpec | None = None
    try:
        permit = objects.permission(obj)
        reason, message = _problem(obj, whole, pod_spec)
        if not reason and (large := objects.oversize(template)):
            reason, message = TargetReason.POD_TOO_LARGE, large
        asks = _asks(whole, pod_spec)
        asks["gates"] = readiness.said_of(readiness.gates_of(pod_spec), conditions_of(spec, "spec"))
        asks["gates_told"] = spec.get("conditions") is not None
    except fields.UNFIT as error:
        # What cannot be judged is not let through.
        reason, message = reason or TargetReason.INVALID_POD, message or _named(error)
    status = section(obj, "status")
    said = section(status, "podStatus", "status")
    stored = body_of(said) if said else None
    event = events.CandidateObserved(
        **fields.identity(obj),
        origin=objects.origin(obj),
        template=template.ref,
        problem=reason,
        problem_message=message,
        permit=permit,
        withdrawn=number(spec, "withdrawn", "spec"),
        least=number(spec, "minMember", "spec"),
        scale_up=fields.flag(spec, "scaleUp", "spec") if spec.get("scaleUp") is not None else None,
        **asks,
        finalizers=fields.strings(meta(obj), "finalizers", "metadata"),
        reported=reported(status),
        pod_status=stored.ref if stored is not None else "",
        conditions=[
            Condition(
                type=text(entry, "type", "status.conditions[]"),
                status=text(entry, "status", "status.conditions[]"),
                last_transition_time=text(entry, "lastTransitionTime", "status.conditions[]"),
            )
            for entry in fields.items(status, "conditions", "status")
        ],
    )
    bodies = (template,) if stored is None else (template, stored)
    return candidate_stream(event.namespace, event.name), _with_source(event, obj), bodies


def _with_source(event: events.CandidateObserved, obj: Json) -> events.CandidateObserved:
    uid = _source_uid(obj) if of_group(event) else ""
    return msgspec.structs.replace(event, source_uid=uid) if uid else event


def _source_uid(obj: Json) -> str:
    """Return which cluster a Candidate says to be made by, "" if it does not: a UID, or what stands for anything else,
    since streams are named by it."""
    said = text(section(meta(obj), "annotations", "metadata"), SOURCE_UID, "metadata.annotations")
    return said if not said or _UID.fullmatch(said) else body_of({"uid": said}).ref[:32]


def _named(error: Exception) -> str:
    """Return what does not fit, by the field of the Candidate that it is in."""
    said = str(error)
    return said if said.startswith(("spec.template", "spec.permit", "spec.conditions")) else f"spec.template.{said}"


def _asks(whole: Json, pod_spec: Json) -> Json:
    """Return what a template asks for that an invitation has to allow: as whom it runs, and what the levels of pod
    security forbid.
    """
    annotations = section(section(whole, "metadata", "spec.template"), "annotations", "spec.template.metadata")
    # The older name of the field counts where the newer is empty, as in the API server's own conversion.
    account = text(pod_spec, "serviceAccountName", "spec") or text(pod_spec, "serviceAccount", "spec") or "default"
    projected = [section(volume, "projected", "spec.volumes[]") for volume in fields.items(pod_spec, "volumes", "spec")]
    sources = [source for one in projected for source in fields.items(one, "sources", "spec.volumes[].projected")]
    return {
        "changeable": _noted(changeable_of(section(whole, "metadata", "spec.template"), pod_spec)),
        "fixed": _fixed(pod_spec),
        "priority_class": text(pod_spec, "priorityClassName", "spec"),
        "account": account,
        "token": any(source.get(kind) is not None for source in sources for kind in _CREDENTIALS),
        "beyond_baseline": "; ".join(pod_security.forbidden_by_baseline(annotations, pod_spec))[:_SAID],
        "beyond_restricted": "; ".join(pod_security.forbidden_by_restricted(pod_spec))[:_SAID],
    }


def _noted(found: events.Changeable) -> events.Changeable:
    """Return what a Pod can follow a change of, as far as the log has room for it at each change of a Candidate."""
    if len(msgspec.json.encode(found)) > _MOST_NOTED:
        said = f"its labels, annotations, images and tolerations are too many to be noted ({_MOST_NOTED} bytes)"
        raise BadValue("spec.template", said)
    return found


def _fixed(pod_spec: Json) -> str:
    """Return the hash of what of a PodSpec no API server lets be changed once the Pod is there."""
    kept = {field: value for field, value in pod_spec.items() if field not in CHANGEABLE}
    for field in CONTAINERS:
        listed = fields.items(pod_spec, field, "spec.template.spec")
        if listed:
            kept[field] = [{name: value for name, value in one.items() if name != "image"} for one in listed]
    return body_of(kept).ref


def _problem(obj: Json, whole: Json, pod_spec: Json) -> tuple[str, str]:
    """Return why the template cannot become a Pod."""
    origin = objects.origin(obj)
    label = section(meta(obj), "labels", "metadata").get(SOURCE_LABEL)
    if label != origin.cluster:
        return (
            TargetReason.FORGED_ANNOTATION,
            f'label {SOURCE_LABEL} says "{label}" and spec.source.cluster "{origin.cluster}": they have to be the same',
        )
    head = section(whole, "metadata", "spec.template")
    for field in ("labels", "annotations"):
        forged = sorted(k for k in section(head, field, "spec.template.metadata") if _reserved(k))
        if forged:
            where = f"spec.template.metadata.{field}[{forged[0]}]"
            return TargetReason.FORGED_ANNOTATION, f"{where}: only the target's scheduler sets it; leave it out"
    if text(pod_spec, "nodeName", "spec.template.spec"):
        return TargetReason.INVALID_POD, "spec.template.spec.nodeName: the target chooses the node; leave it out"
    wrong = constraints.problem(pod_spec)
    return (TargetReason.INVALID_POD, f"spec.template.{wrong}") if wrong else ("", "")


def _reserved(key: str) -> bool:
    return objects.ours(key) and key not in objects.OPTIONS


def reported(status: Json) -> events.Reported:
    """Return what a Candidate's status says."""
    reservation = section(status, "reservation", "status")
    return events.Reported(
        phase=text(status, "phase", "status"),
        reservation=number(reservation, "number", "status.reservation"),
        node=text(reservation, "node", "status.reservation"),
        score=number(reservation, "score", "status.reservation"),
        expires=objects.instant(reservation, "expires", "status.reservation"),
        acknowledged=number(status, "acknowledged", "status"),
        tried=number(status, "tried", "status"),
        preemptable=fields.flag(status, "preemptable", "status"),
        reason=text(status, "reason", "status"),
        message=text(status, "message", "status"),
        pod=text(section(status, "pod", "status"), "name", "status.pod"),
        bound_by=number(status, "boundBy", "status"),
        sequence=number(status, "sequence", "status"),
        follows=fields.strings(status, "follows", "status"),
        gates=readiness.are_applied(status),
    )


def pod(obj: Json) -> Built:
    """Return the event of a candidate's Pod; `Misfit` if it does not fit."""
    status = body_of(section(obj, "status"))
    owners, notes = (
        fields.items(meta(obj), "ownerReferences", "metadata"),
        section(meta(obj), "annotations", "metadata"),
    )
    owner = next((o for o in owners if o.get("controller") and o.get("kind") == CANDIDATES.kind), {})
    event = events.CandidatePodObserved(
        **fields.identity(obj),
        owner=text(owner, "uid", "metadata.ownerReferences[]"),
        node=text(section(obj, "spec"), "nodeName", "spec"),
        phase=text(section(obj, "status"), "phase", "status") or "Pending",
        status=status.ref,
        template=text(notes, TEMPLATE, "metadata.annotations"),
        scale_up=notes.get(SCALE_UP) != "false",
        source=text(notes, SOURCE, "metadata.annotations"),
        source_uid=text(notes, SOURCE_UID, "metadata.annotations"),
        gates=readiness.gates_said(section(obj, "spec"), section(obj, "status")),
        tolerations=fields.items(section(obj, "spec"), "tolerations", "spec"),
        stopped="deletionTimestamp" in meta(obj) and _ends_by_force(section(obj, "spec"), section(obj, "status")),
    )
    return candidate_stream(event.namespace, event.name), event, (status,)


def _ends_by_force(spec: Json, status: Json) -> bool:
    """Whether a Pod that is being deleted has not come to its end by itself: a kubelet says that one has failed, or
    succeeded, before it is gone (kubernetes 1.27), also if its containers would be started again."""
    phase, policy = status.get("phase"), spec.get("restartPolicy") or "Always"
    return (policy == "Always" and phase in ENDED_PHASES) or (policy == "OnFailure" and phase == "Failed")


def _leaving(kind: Kind, obj: Json, error: Exception) -> Built | None:
    """Return the event of a Candidate that cannot be read and is being deleted, None if that cannot be read either."""
    try:
        if kind != CANDIDATES or "deletionTimestamp" not in meta(obj):
            return None
        finalizers = fields.strings(meta(obj), "finalizers", "metadata")
        event = events.UnreadCandidateDeleted(**fields.identity(obj), finalizers=finalizers, error=str(error))
    except fields.UNFIT:
        return None
    return candidate_stream(event.namespace, event.name), event, ()


def _refused(place: str, kind: Kind, obj: Json, error: Exception) -> Built:
    body = body_of(obj)
    event = events.TargetObservationRefused(**fields.refusal(kind, obj, error), object=body.ref)
    return f"refused/{place}/{kind.name}/{event.namespace}/{event.name}", event, (body,)
