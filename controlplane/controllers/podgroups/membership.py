"""Derives what a group holds: its members' number and resources, its queue, its one owner; and to whom a group of a
name belongs.

In: a resolution, the pod, the templates that are known. Out: the fields of a PodGroup that are ours to write and to
keep up to date."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controlplane.controllers.podgroups.objects import (
    POD_GROUPS,
    OwnerMisfit,
    OwnerReference,
    PodFacts,
    controller_of,
    identity,
    notes_of,
    section,
    text,
)
from controlplane.controllers.podgroups.ownership import Resolution, Warned
from controlplane.controllers.podgroups.reasons import Oddity
from controlplane.kube.kinds import Json, meta
from controlplane.kube.pod_requests import ADMITTED, effective
from controlplane.kube.quantities import MOST, NANO, spell, to_milli
from controlplane.kube.well_known import REVISION
from controlplane.log.event import Part

POD_GROUP = (POD_GROUPS.group, POD_GROUPS.kind)
#: The ownership mark of a group: the UID of the object that it is made for.
OWNER_LABEL = "controlplane/podgroup-owner"
_WITH_TEMPLATE = frozenset(
    {("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")}
)
_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253

#: What one pod asks for, in billionths of each resource's unit.
Amounts = dict[str, int]


class Template(Part):
    """What the pods of an owner ask for, by its pod template. `above` is the UID of the owner's own controlling
    owner.
    """

    namespace: str
    kind: str
    name: str
    uid: str
    above: str = ""
    revision: int = 0
    created: str = ""
    requests: Amounts = {}

    @staticmethod
    def of(obj: Json, group: str, kind: str, namespace: str) -> Template | None:
        """Return the template of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job; None for other kinds."""
        if (group, kind) not in _WITH_TEMPLATE:
            return None
        _, name, uid = identity(obj)
        template = section(section(obj, "spec"), "template", "spec.")
        revision = notes_of(obj).get(REVISION, "")
        above = controller_of(obj)
        return Template(
            namespace=namespace,
            kind=kind,
            name=name,
            uid=uid,
            above=above.uid if above is not None else "",
            revision=int(revision) if revision.isascii() and revision.isdigit() and len(revision) < 20 else 0,
            created=str(meta(obj).get("creationTimestamp") or ""),
            requests=_requests(section(template, "spec", "spec.template."), "spec.template.spec"),
        )

    @staticmethod
    def requests_of(pod: Json) -> Amounts:
        """Return what a pod asks for; `OwnerMisfit` if its spec does not fit."""
        return _requests(section(pod, "spec"), "spec")

    @property
    def age(self) -> tuple[int, str, str]:
        """What the newest has most of: a rollback makes an old ReplicaSet the newest again, by its revision."""
        return self.revision, self.created, self.name


def _requests(spec: Json, where: str) -> Amounts:
    try:
        asked = effective(spec, ADMITTED)
    except ValueError as error:
        raise OwnerMisfit(where, str(error), "write the quantity as Kubernetes does, such as 500m or 2Gi") from None
    except (AttributeError, TypeError):
        raise OwnerMisfit(
            where, "is no pod spec", "write containers as a list of objects with resources.requests"
        ) from None
    return {name: amount for name, amount in asked.items() if amount > 0}


def newest_template(templates: Iterable[Template], namespace: str, found: Resolution) -> Amounts | None:
    """Return what a pod of the group asks for, by the template that holds now; None if no template is known.

    A Deployment's newest ReplicaSet comes first: what it makes is what the group will consist of, whichever
    pod was seen last."""
    here = [template for template in templates if template.namespace == namespace]
    if found.selected:
        sets = [one for one in here if one.kind == "ReplicaSet" and one.above == found.owner.uid]
        if sets:
            return max(sets, key=lambda one: one.age).requests
    by_uid = {template.uid: template for template in here}
    for owner in reversed(found.chain[1 : found.selected + 1]):
        if owner.uid in by_uid:
            return by_uid[owner.uid].requests
    return None


def min_resources(requests: Amounts, min_member: int) -> dict[str, str] | None:
    """Return `minResources`: the members' number times one pod's request; None if a pod asks for
    nothing.
    """
    found = {
        name: spell(name, to_milli(min(amount * min_member, MOST * NANO))) for name, amount in sorted(requests.items())
    }
    return found or None


def group_queue(pod: PodFacts) -> tuple[str, tuple[Warned, ...]]:
    """Return the queue that the pod asks for, "" for the cluster's default, and a warning if its name cannot be one."""
    if not pod.queue:
        return "", ()
    if len(pod.queue) <= _LONGEST_NAME and _QUEUE.fullmatch(pod.queue):
        return pod.queue, ()
    remedy = "the default queue is used; write lower-case letters, digits, - and ."
    wrong = f'"{pod.queue[:60]}" is no name of a queue: {remedy}'
    return "", (Warned(oddity=Oddity.QUEUE_INVALID, message=wrong),)


def foreign_owner(group: Json, owner: OwnerReference) -> str | None:
    """Return whose an existing PodGroup is, in a few words, if it is not that of an owner; None if it is."""
    found = controller_of(group)
    if found is None:
        return "nobody: it has no controlling owner"
    return None if found.uid == owner.uid else str(found)


def priority_class_of(pod: Json) -> str:
    """Return the name of a pod's priority class, "" if it has none."""
    return text(section(pod, "spec"), "priorityClassName", "spec.")
