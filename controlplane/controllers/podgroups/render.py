"""Makes of an open write the request that carries it out, and the Kubernetes Event about it.

In: the decision, what it was based on, the time. Out: `controlplane.kube.kinds.Request`. Pure. Patches are merge
patches that name only our fields, with the UID and resourceVersion that the decision saw; a creation carries the
owner's UID in a label, so that "already exists" is success only for a group of the same owner. The
PodGroup CRD has no status subresource: its status is patched with the rest."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.podgroups import events, rules
from controlplane.controllers.podgroups.condition import CONDITION, wanted_condition
from controlplane.controllers.podgroups.membership import OWNER_LABEL
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, GROUP_NAME, POD_GROUPS, PODS, owner_reference
from controlplane.controllers.podgroups.observe import PROBLEM_NOTE, RULES_NOTE
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.kube.requests import event_about, timestamp
from controlplane.runtime.streams import object_of

_KINDS: dict[str, Kind] = {"Pod": PODS, "PodGroup": POD_GROUPS, "ConfigMap": CONFIG_MAPS}


def place_of(stream: str, decision: events.GroupWrite) -> ObjectRef:
    """Return the object that a write is to."""
    if decision.WHAT == "ConfigMap":
        return ObjectRef(CONFIG_MAPS, rules.NAMESPACE, rules.NAME)
    return ObjectRef(_KINDS[decision.WHAT], *object_of(stream))


def render(
    stream: str,
    decision: events.GroupWrite,
    seen: events.GroupObserved | None,
    problem: bool,
    *,
    block: bool,
    now: datetime,
) -> Request | None:
    """Return the request of a write; None if what it was based on is gone. `problem`: the pod carries a note of
    ours.
    """
    ref = place_of(stream, decision)
    match decision:
        case events.GroupCreationDecided():
            mark = (OWNER_LABEL, decision.owner.uid)
            return Request("create", ref, _group(ref, decision, block=block), owner_label=mark)
        case events.GroupUpdateDecided():
            resources = {**decision.min_resources, **dict.fromkeys(decision.dropped)}
            spec: Json = {"minMember": decision.min_member, **({"minResources": resources} if resources else {})}
            return _patch(ref, decision, {"spec": spec})
        case events.GroupStatusDecided():
            return _patch(ref, decision, {"status": _status(decision, seen, now)}) if seen is not None else None
        case events.MembershipDecided():
            notes: Json = {GROUP_NAME: decision.group, **({PROBLEM_NOTE: None} if problem else {})}
            return _patch(ref, decision, {"metadata": {"annotations": notes}})
        case events.MemberWarned():
            return _patch(ref, decision, {"metadata": {"annotations": {PROBLEM_NOTE: str(decision.warning)}}})
        case events.RulesNoted():
            return _patch(ref, decision, {"metadata": {"annotations": {RULES_NOTE: decision.note or None}}})
    return None


def _patch(ref: ObjectRef, decision: events.GroupWrite, body: Json) -> Request:
    return Request("patch", ref, body, uid=decision.uid, resource_version=decision.resource_version)


def _group(ref: ObjectRef, decision: events.GroupCreationDecided, *, block: bool) -> Json:
    spec: Json = {"minMember": decision.min_member}
    if decision.min_resources:
        spec["minResources"] = decision.min_resources
    if decision.queue:
        spec["queue"] = decision.queue
    if decision.priority_class:
        spec["priorityClassName"] = decision.priority_class
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "namespace": ref.namespace,
            "name": ref.name,
            "labels": {OWNER_LABEL: decision.owner.uid},
            "ownerReferences": [owner_reference(decision.owner, block=block)],
        },
        "spec": spec,
    }


def _status(decision: events.GroupStatusDecided, seen: events.GroupObserved, now: datetime) -> Json:
    """Return the status: our phase and numbers; of the conditions, all of others' and the one that is ours."""
    kept = [one for one in seen.conditions if one.get("type") != CONDITION]
    status, reason, message = wanted_condition(decision.warnings)
    before = next((one for one in seen.conditions if one.get("type") == CONDITION), {})
    if status:
        changed = before.get("status") != status
        entry = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(now) if changed else before.get("lastTransitionTime", timestamp(now)),
        }
        kept.append(entry)
    conditions: Json = {"conditions": kept} if kept != seen.conditions else {}
    if decision.conditions_only:
        return conditions
    return {
        "phase": decision.phase,
        "running": decision.running,
        "succeeded": decision.succeeded,
        "failed": decision.failed,
        **conditions,
    }


def announcement(
    stream: str, decision: events.GroupWrite, uid: str, position: int, identity: str, now: datetime
) -> Request | None:
    """Return the Event that tells the user of something odd; None if nothing was.

    Its name is made of the decision's position, so that an Event that is sent twice is refused the second time.
    """
    match decision:
        case events.MembershipDecided() if decision.warnings:
            reason, note = str(decision.warnings[0].oddity), "; ".join(str(one) for one in decision.warnings)
        case events.MemberWarned():
            reason, note = str(decision.warning.oddity), str(decision.warning)
        case events.RulesNoted() if decision.note:
            reason, note = str(decision.reason), decision.note
        case _:
            return None
    regarding, suffix = place_of(stream, decision), f"{position:x}"
    return event_about(regarding, uid, "Warning", reason, note, suffix, identity, now, action="ResolvePodGroup")
