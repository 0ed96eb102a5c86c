"""Keeps since when in the log pods, groups, owners and the rules are as they are.

In: states before and after an event. Out: positions (`controlplane.runtime.facets`). The names are `it` for an object
on its own stream, `members` for any of a group's pods, `rules` and `room` for what holds for all, `released` for what
another group kept free and keeps no longer."""

from __future__ import annotations

from operator import attrgetter

from controlplane.controllers.connectivity.facets import ConnectionFacets
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.podgroups.condition import shown_condition
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.controllers.podgroups.state import MemberState, OwnerState, PodGroupState, RulesState
from controlplane.runtime.facets import FacetPositions, Facets, Ledger, Parts, changes

_NONE: FacetPositions = {}


MEMBER = Parts(
    {
        "seen": {
            "it.present": attrgetter("uid"),
            "it.grouped": lambda seen: seen.facts.group_name or None,
            "it.owner": attrgetter("facts.controller"),
            "it.problem": lambda seen: seen.problem or None,
        },
        "resolved": {"it.resolved": attrgetter("uid", "group")},
        "slot.trouble": {"it.trouble": lambda trouble: trouble},
    }
)
IN_GROUP = Parts(
    {
        "seen": {
            "members.there": lambda seen: seen.uid if seen.stage not in ("Succeeded", "Failed") else None,
            "members.counted": lambda seen: seen.stage if seen.stage not in ("Pending", "Unschedulable") else None,
            "members.unschedulable": lambda seen: seen.stage == "Unschedulable" or None,
            "members.grouped": lambda seen: seen.facts.group_name or None,
        },
        "resolved": {"members.warnings": lambda resolved: resolved.resolution.warnings or None},
    }
)
GROUP = Parts(
    {
        "seen": {
            "it.present": attrgetter("uid"),
            "it.owner": attrgetter("owner_uid", "owner"),
            "it.shown": lambda seen: (seen.phase, seen.running, seen.succeeded, seen.failed, shown_condition(seen)),
            "it.members": attrgetter("min_member"),
            "it.resources": attrgetter("min_resources"),
        },
        "phase": {"it.phase": lambda phase: phase},
        "since": {"it.since": lambda since: since},
        "slot.trouble": {"it.trouble": lambda trouble: trouble},
    }
)
FIELDS: Facets[PodGroupState] = {
    "fields": lambda state: (
        state.derived or ((state.seen.min_member, state.seen.min_resources) if state.seen else None)
    ),
}
KEEPS_FREE: Facets[PodGroupState] = {
    "kept": lambda state: (
        (state.seen.uid, state.phase, state.seen.min_resources)
        if state.seen and state.phase in ("Inqueue", "Running")
        else None
    )
}
OWNER: Facets[OwnerState] = {
    # What was read is believed for a while: the same answer, read again, is news.
    "answer": lambda state: (state.answer, None if state.watched else state.at),
    "members": lambda state: (
        state.answer.outcome == "Unavailable",
        state.answer.facts.min_member if state.answer.facts else None,
    ),
    "template": lambda state: state.template,
}
RULES: Facets[RulesState] = {
    "present": lambda state: state.uid or None,
    "complaints": lambda state: state.complaints,
    "note": lambda state: state.note,
    "trouble": lambda state: state.slot.trouble,
}


class PodGroupFacets:
    """The positions of all streams. `around` has those that are of no single one, among them since when pods and groups
    are in view. What is returned is what is kept: it is read, not changed.
    """

    def __init__(self) -> None:
        self.around: dict[str, int] = {}
        self._members: dict[str, dict[str, int]] = {}
        self._groups: dict[str, dict[str, int]] = {}
        self._owners: Ledger[OwnerState] = Ledger("it", OWNER)
        self._rules: dict[str, int] = {}
        self._shared: dict[str, dict[str, int]] = {}
        self._connections = ConnectionFacets()

    def member(self, stream: str, before: MemberState, after: MemberState, position: int) -> None:
        """Take note of a pod as it was before an event of its stream and is after it."""
        if after.seen is None:
            self._members.pop(stream, None)
        else:
            MEMBER.note(_at(self._members, stream), before, after, position)

    def in_group(self, group: str, before: MemberState | None, after: MemberState | None, position: int) -> None:
        """Take note, for a group, of a member as it was and is; None: it was not in it, or is not any more."""
        IN_GROUP.note(_at(self._shared, group), before, after, position)

    def group(self, stream: str, before: PodGroupState, after: PodGroupState, position: int) -> None:
        """Take note of a group as it was before an event of its stream and is after it."""
        positions = _at(self._groups, stream)
        GROUP.note(positions, before, after, position)
        positions.update(changes("it", FIELDS, before, after, position))
        kept = KEEPS_FREE["kept"]
        if (was := kept(before)) is not None and was != kept(after):
            self.around["released"] = position

    def owner(self, stream: str, before: OwnerState | None, after: OwnerState, position: int) -> None:
        """Take note of an owner as it was before an event of its stream and is after it."""
        self._owners.note(stream, before, after, position)

    def rules(self, before: RulesState, after: RulesState, position: int) -> None:
        """Take note of the rules and their ConfigMap."""
        self._rules |= changes("it", RULES, before, after, position)
        if before.rules != after.rules:
            self.around["rules"] = position

    def connected(self, connection: Connection, position: int) -> None:
        """Take note of the connection to the cluster."""
        name = connection.name
        self._connections.fold({name: connection}, [name], position)
        self.around["view"] = self._connections.of(name, [PODS.name, POD_GROUPS.name])[f"{name}.view"]

    def of(self, stream: str) -> FacetPositions:
        """Return the positions of a pod, a group, or the rules, by their stream."""
        match stream.partition("/")[0]:
            case "member":
                return self._members.get(stream, _NONE)
            case "podgroup":
                return self._groups.get(stream, _NONE)
            case _:
                return self._rules

    def of_owner(self, stream: str) -> FacetPositions:
        """Return the positions of an owner."""
        return self._owners.of(stream)

    def of_members(self, stream: str) -> FacetPositions:
        """Return the positions of a group's members."""
        return self._shared.get(stream, _NONE)

    def forget_group(self, stream: str) -> None:
        """Drop the positions of a group of which nothing is left."""
        self._groups.pop(stream, None)
        self._shared.pop(stream, None)

    def forget_owner(self, stream: str) -> None:
        """Drop the positions of an owner of which nothing is known any more."""
        self._owners.forget(stream)


def _at(positions: dict[str, dict[str, int]], stream: str) -> dict[str, int]:
    """Return the positions of a stream, to add others: a dict is made for the first of them only."""
    found = positions.get(stream)
    if found is None:
        found = positions[stream] = {}
    return found
