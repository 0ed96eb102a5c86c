"""Reads what a PodGroup asks for, as the rules about gangs have it, and what a member does: an object as the API server
shows it in, a `GroupSpec` out.
"""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.controllers.scheduling.snapshot.objects import NATIVE, Pod, is_scalar
from controlplane.kube import pod_requests as asked
from controlplane.kube.pod_fields import Obj, PodMisfit, items, number, section, text
from controlplane.kube.pod_groups import GroupSpec, Stage

Name = tuple[str, str]  # namespace and name of a PodGroup
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def read_group(obj: Obj, place: tuple[str, str], where: str) -> GroupSpec:
    """Return a PodGroup of a namespace and name; `PodMisfit` names the field that cannot be read."""
    meta, spec = section(obj, "metadata", where), section(obj, "spec", where)
    wanted = number(spec, "minMember", f"{where}.spec", 1)
    if wanted < 1:
        raise PodMisfit(
            f"{where}.spec.minMember", f"{wanted} is not above 0; write how many pods have to start together"
        )
    created = text(meta, "creationTimestamp", f"{where}.metadata")
    try:
        since = datetime.fromisoformat(created) if created else _BEGINNING
    except ValueError:
        raise PodMisfit(f"{where}.metadata.creationTimestamp", f"{created!r} is not a time") from None
    listed = section(spec, "minResources", f"{where}.spec")
    quota = {name.removeprefix("requests."): amount for name, amount in listed.items()}  # as a quota spells it
    try:
        amounts = asked.whole(asked.amounts(quota | dict(listed), "minResources"))
    except ValueError as error:
        at, _, problem = str(error).partition(": ")
        raise PodMisfit(f"{where}.spec.{at}", problem) from error
    plain = {name: amount for name, amount in amounts.items() if name in NATIVE or is_scalar(name)}
    return GroupSpec(
        namespace=place[0], name=place[1], created=since, min_member=wanted, min_resources=plain, timeout=None
    )


class PodGroupsHere:
    """The PodGroups and PriorityClasses of this cluster, as they are read; `problems`: why a PodGroup cannot be."""

    def __init__(self) -> None:
        self.groups: dict[Name, GroupSpec] = {}
        self.problems: dict[Name, str] = {}
        self._classes: dict[str, int] = {}
        self._class_of: dict[Name, str] = {}

    def put(self, name: Name, obj: Obj, where: str) -> None:
        """Read a PodGroup; `PodMisfit` names the field of one that cannot be read."""
        self.groups.pop(name, None)
        try:
            group = read_group(obj, name, where)
            self._class_of[name] = text(section(obj, "spec", where), "priorityClassName", f"{where}.spec")
        except PodMisfit as problem:
            self.problems[name] = str(problem)
            raise
        self.problems.pop(name, None)
        self.groups[name] = group

    def drop(self, name: Name) -> None:
        """Forget a PodGroup."""
        for table in (self.groups, self.problems, self._class_of):
            table.pop(name, None)

    def put_class(self, obj: Obj, where: str = "priorityClass") -> None:
        """Read a PriorityClass, by which a group may be ordered."""
        name = text(section(obj, "metadata", where), "name", f"{where}.metadata")
        self._classes[name] = number(obj, "value", where)

    def drop_class(self, name: str) -> None:
        """Forget a PriorityClass."""
        self._classes.pop(name, None)

    def priority(self, name: Name) -> int | None:
        """Return the priority that a PodGroup's class gives it, None if it names none that is there."""
        return self._classes.get(self._class_of.get(name, ""))


def name_of(obj: Obj, where: str) -> Name:
    """Return namespace and name of a PodGroup."""
    meta = section(obj, "metadata", where)
    return text(meta, "namespace", f"{where}.metadata"), text(meta, "name", f"{where}.metadata")


def follows(pod: Pod) -> bool:
    """Whether a pod has to be where others are: tried before them, it would turn its whole gang back each time."""
    affinity = section(section(pod.spec, "affinity", "pod.spec"), "podAffinity", "pod.spec.affinity")
    return bool(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))


def stage_of(pod: Pod) -> Stage:
    """Return how far a pod has come."""
    if pod.phase == "Succeeded":
        return "Succeeded"
    if pod.phase == "Failed":
        return "Failed"
    return "Assigned" if pod.node_name else "Pending"


def is_gated(pod: Pod) -> bool:
    """Whether a pod has scheduling gates, and so cannot be tried."""
    return not pod.node_name and bool(items(pod.spec, "schedulingGates", "pod.spec"))
