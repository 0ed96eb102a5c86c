"""Reads what a PodGroup asks for, as the rules about gangs have it, and what a member does: an object as the API server
shows it in, a `GroupSpec` out.
"""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.controllers.scheduling.snapshot.objects import NATIVE, Pod, is_scalar
from controlplane.kube import pod_requests as asked
from controlplane.kube.pod_fields import Obj, PodMisfit, number, section, text
from controlplane.kube.pod_groups import GroupSpec

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


def follows(pod: Pod) -> bool:
    """Whether a pod has to be where others are: tried before them, it would turn its whole gang back each time."""
    affinity = section(section(pod.spec, "affinity", "pod.spec"), "podAffinity", "pod.spec.affinity")
    return bool(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
