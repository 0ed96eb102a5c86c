"""From an object that an API server showed, or that was read, to the narrow event that is recorded of it.

In: changes of pods, common owners, PodGroups and the rules' ConfigMap. Out: events with their streams; None for what
concerns nobody. An object that does not fit its API becomes `MemberRefused` and nothing else."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.podgroups import events, rules
from controlplane.controllers.podgroups.membership import Template, priority_class_of
from controlplane.controllers.podgroups.objects import (
    CONFIG_MAPS,
    POD_GROUPS,
    PODS,
    WATCHED_OWNERS,
    OwnerMisfit,
    OwnerReference,
    controller_of,
    identity,
    notes_of,
    owner_facts,
    pod_facts,
    section,
    text,
)
from controlplane.controllers.podgroups.phases import Stage
from controlplane.kube import fields
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.log.event import Event
from controlplane.runtime.controller import ObjectChange

#: Our notes on pods and on the ConfigMap; a condition has no other place there.
PROBLEM_NOTE, RULES_NOTE = "controlplane/podgroup-problem", "controlplane/podgroup-rules"


def observe(change: ObjectChange) -> tuple[str, Event] | None:
    """Return stream and event of something seen; None if it concerns nobody."""
    kind, obj = change.kind, change.object
    try:
        return _gone(change) if change.gone else _seen(kind, change.whole(), change.resource_version)
    except fields.UNFIT as error:
        return _refused(kind, obj, error)


def _seen(kind: Kind, obj: Json, version: str) -> tuple[str, Event] | None:
    if kind == PODS:
        return _member(obj)
    if kind in WATCHED_OWNERS:
        return _owner(kind, obj)
    if kind == POD_GROUPS:
        return _group(obj)
    if kind == CONFIG_MAPS and _is_rules(obj):
        return events.RULES_STREAM, _rules(obj, version)
    return None


def _gone(change: ObjectChange) -> tuple[str, Event] | None:
    kind, obj = change.kind, change.object
    metadata = meta(obj)
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    last: dict[str, Any] = {"uid": str(metadata.get("uid", "")), "resource_version": change.resource_version}
    if kind == PODS:
        return events.member_stream(namespace, name), events.MemberGone(**last)
    if kind in WATCHED_OWNERS:
        owner = OwnerReference(api_version=kind.api_version, kind=kind.kind, name=name, uid=last["uid"])
        return events.owner_stream(namespace, owner), events.OwnerGone(**last)
    if kind == POD_GROUPS:
        return events.group_stream(namespace, name), events.GroupGone(**last)
    if kind == CONFIG_MAPS and _is_rules(obj):
        return events.RULES_STREAM, events.RulesAccepted()
    return None


def _head(obj: Json) -> dict[str, Any]:
    metadata = meta(obj)
    return {
        "uid": identity(obj)[2],
        "resource_version": text(metadata, "resourceVersion", "metadata."),
        "deleting": "deletionTimestamp" in metadata,
    }


def _member(obj: Json) -> tuple[str, Event]:
    facts = pod_facts(obj)
    event = events.MemberObserved(
        **_head(obj),
        facts=facts,
        created=str(meta(obj).get("creationTimestamp") or ""),
        stage=_stage(obj),
        requests=Template.requests_of(obj),
        priority_class=priority_class_of(obj),
        problem=notes_of(obj).get(PROBLEM_NOTE, ""),
    )
    return events.member_stream(facts.namespace, facts.name), event


def _stage(obj: Json) -> Stage:
    """Return what a pod shows of its start; one that terminates on its node is still bound."""
    status = section(obj, "status")
    match status.get("phase"):
        case "Succeeded":
            return "Succeeded"
        case "Failed":
            return "Failed"
    if section(obj, "spec").get("nodeName"):
        return "Bound"
    conditions = status.get("conditions") or []
    unschedulable = any(
        one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("reason") == "Unschedulable"
        for one in conditions
    )
    return "Unschedulable" if unschedulable else "Pending"


def _owner(kind: Kind, obj: Json) -> tuple[str, Event]:
    namespace, name, uid = identity(obj)
    owner = OwnerReference(api_version=kind.api_version, kind=kind.kind, name=name, uid=uid)
    event = events.OwnerObserved(
        **_head(obj),
        namespace=namespace,
        owner=owner,
        facts=owner_facts(obj),
        template=Template.of(obj, kind.group, kind.kind, namespace),
    )
    return events.owner_stream(namespace, owner), event


def _group(obj: Json) -> tuple[str, Event]:
    namespace, name, _ = identity(obj)
    spec, status, owner = section(obj, "spec"), section(obj, "status"), controller_of(obj)
    event = events.GroupObserved(
        **_head(obj),
        namespace=namespace,
        name=name,
        created=str(meta(obj).get("creationTimestamp") or ""),
        owner_uid=owner.uid if owner else "",
        owner=str(owner) if owner else "",
        min_member=_number(spec, "minMember", "spec."),
        min_resources={key: str(value) for key, value in section(spec, "minResources", "spec.").items()},
        queue=text(spec, "queue", "spec."),
        phase=text(status, "phase", "status."),
        running=_number(status, "running", "status."),
        succeeded=_number(status, "succeeded", "status."),
        failed=_number(status, "failed", "status."),
        conditions=[one for one in status.get("conditions") or [] if isinstance(one, dict)],
    )
    return events.group_stream(namespace, name), event


def _number(obj: Json, field: str, where: str) -> int:
    found = obj.get(field)
    if found is None:
        return 0
    if isinstance(found, bool) or not isinstance(found, int):
        raise OwnerMisfit(f"{where}{field}", f"is a {type(found).__name__}", "write an integer")
    return found


def _is_rules(obj: Json) -> bool:
    metadata = meta(obj)
    return (metadata.get("namespace"), metadata.get("name")) == (rules.NAMESPACE, rules.NAME)


def _rules(obj: Json, version: str) -> Event:
    note = notes_of(obj).get(RULES_NOTE, "")
    uid = identity(obj)[2]
    try:
        found = rules.read_config_map(obj)
    except rules.RulesInvalid as error:
        return events.RulesRefused(complaints=list(error.complaints), uid=uid, resource_version=version, note=note)
    return events.RulesAccepted(rules=list(found.entries), uid=uid, resource_version=version, note=note)


def _refused(kind: Kind, obj: Json, error: Exception) -> tuple[str, Event]:
    event = events.MemberRefused(**fields.refusal(kind, obj, error))
    return events.refused_stream(kind, event.namespace, event.name), event
