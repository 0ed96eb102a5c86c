"""What a PodGroup asks for, as the rules about gangs have it: an object as the API server shows it in, a `Group` out."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.pods import requests as asked
from controlplane.pods.gang import Group
from controlplane.scheduler.objects import NATIVE, is_scalar
from controlplane.scheduler.reading import Misfit, Obj, number, section, text

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def read_group(obj: Obj, place: tuple[str, str], where: str) -> Group:
    """Return a PodGroup of a namespace and name; `Misfit` names the field that cannot be read."""
    meta, spec = section(obj, "metadata", where), section(obj, "spec", where)
    wanted = number(spec, "minMember", f"{where}.spec", 1)
    if wanted < 1:
        raise Misfit(f"{where}.spec.minMember", f"{wanted} is not above 0; write how many pods have to start together")
    created = text(meta, "creationTimestamp", f"{where}.metadata")
    try:
        since = datetime.fromisoformat(created) if created else _BEGINNING
    except ValueError:
        raise Misfit(f"{where}.metadata.creationTimestamp", f"{created!r} is not a time") from None
    listed = section(spec, "minResources", f"{where}.spec")
    quota = {name.removeprefix("requests."): amount for name, amount in listed.items()}  # as a quota spells it
    try:
        amounts = asked.whole(asked.amounts(quota | dict(listed), "minResources"))
    except ValueError as error:
        at, _, problem = str(error).partition(": ")
        raise Misfit(f"{where}.spec.{at}", problem) from error
    plain = {name: amount for name, amount in amounts.items() if name in NATIVE or is_scalar(name)}
    return Group(namespace=place[0], name=place[1], created=since, min_member=wanted, min_resources=plain, timeout=None)
