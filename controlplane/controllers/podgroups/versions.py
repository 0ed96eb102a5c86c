"""Reads what observations say of objects' kinds and versions: with it reflectors begin, and a restored
backup is noticed.

In: an event. Out: the kind it shows, its version, its UID if it is gone; None for what is no observation.
"""

from __future__ import annotations

from controlplane.controllers.connectivity.versions import ShownVersion
from controlplane.controllers.podgroups.events import (
    GroupGone,
    GroupObserved,
    MemberGone,
    MemberObserved,
    OwnerObserved,
    RulesAccepted,
    RulesRefused,
)
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, POD_GROUPS, PODS, WATCHED_OWNERS
from controlplane.kube.kinds import Kind
from controlplane.log.event import Event

KINDS: dict[str, Kind] = {kind.name: kind for kind in (PODS, POD_GROUPS, CONFIG_MAPS, *WATCHED_OWNERS)}
_OWNERS = {(kind.api_version, kind.kind): kind.name for kind in WATCHED_OWNERS}


def shown(event: Event) -> ShownVersion | None:
    """Return what an event says of an object. An owner that is gone is told by its stream alone, so its event says
    nothing here.
    """
    match event:
        case MemberObserved():
            return ShownVersion(PODS.name, event.resource_version)
        case MemberGone():
            return ShownVersion(PODS.name, event.resource_version, event.uid)
        case GroupObserved():
            return ShownVersion(POD_GROUPS.name, event.resource_version)
        case GroupGone():
            return ShownVersion(POD_GROUPS.name, event.resource_version, event.uid)
        case OwnerObserved():
            kind = _OWNERS.get((event.owner.api_version, event.owner.kind), "")
            return ShownVersion(kind, event.resource_version) if kind else None
        case RulesAccepted() | RulesRefused() if event.uid:
            return ShownVersion(CONFIG_MAPS.name, event.resource_version)
        case _:
            return None
