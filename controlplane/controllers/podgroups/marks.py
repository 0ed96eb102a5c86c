"""Keeps since when in the log pods, groups, owners and the rules are as they are.

In: states before and after an event. Out: marks (`controlplane.runtime.marks`). The names are `it` for an object on its
own stream, `members` for any of a group's pods, `rules` and `room` for what holds for all, `released` for what another
group kept free and keeps no longer."""

from __future__ import annotations

from controlplane.controllers.connectivity.marks import ConnectionMarks
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.podgroups.condition import shown_condition
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.controllers.podgroups.state import (
    MemberState,
    OwnerState,
    PodGroupState,
    RulesState,
    WriteSlot,
)
from controlplane.runtime.marks import Facets, Ledger, changes


def _trouble(slot: WriteSlot) -> object:
    return slot.trouble


MEMBER: Facets[MemberState] = {
    "present": lambda state: state.seen.uid if state.seen else None,
    "grouped": lambda state: (state.seen.facts.group_name or None) if state.seen else None,
    "owner": lambda state: state.seen.facts.controller if state.seen else None,
    "problem": lambda state: (state.seen.problem or None) if state.seen else None,
    "resolved": lambda state: (state.resolved.uid, state.resolved.group) if state.resolved else None,
    "trouble": lambda state: _trouble(state.slot),
}
IN_GROUP: Facets[MemberState] = {
    "there": lambda state: state.seen.uid if state.seen and state.seen.stage not in ("Succeeded", "Failed") else None,
    "counted": lambda state: (
        state.seen.stage if state.seen and state.seen.stage not in ("Pending", "Unschedulable") else None
    ),
    "unschedulable": lambda state: (state.seen.stage == "Unschedulable" or None) if state.seen else None,
    "grouped": lambda state: (state.seen.facts.group_name or None) if state.seen else None,
    "warnings": lambda state: (state.resolved.resolution.warnings or None) if state.resolved else None,
}
GROUP: Facets[PodGroupState] = {
    "present": lambda state: state.seen.uid if state.seen else None,
    "owner": lambda state: (state.seen.owner_uid, state.seen.owner) if state.seen else None,
    "shown": lambda state: (
        (state.seen.phase, state.seen.running, state.seen.succeeded, state.seen.failed, shown_condition(state.seen))
        if state.seen
        else None
    ),
    "fields": lambda state: (
        state.derived or ((state.seen.min_member, state.seen.min_resources) if state.seen else None)
    ),
    "members": lambda state: state.seen.min_member if state.seen else None,
    "resources": lambda state: state.seen.min_resources if state.seen else None,
    "phase": lambda state: state.phase,
    "since": lambda state: state.since,
    "trouble": lambda state: _trouble(state.slot),
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
    "trouble": lambda state: _trouble(state.slot),
}


class PodGroupMarks:
    """The marks of all streams. `around` has those that are of no single one."""

    def __init__(self) -> None:
        self.around: dict[str, int] = {}
        self._members: Ledger[MemberState] = Ledger("it", MEMBER)
        self._groups: Ledger[PodGroupState] = Ledger("it", GROUP)
        self._owners: Ledger[OwnerState] = Ledger("it", OWNER)
        self._rules: dict[str, int] = {}
        self._shared: dict[str, dict[str, int]] = {}
        self._connections = ConnectionMarks()
        self._cluster = ""

    @property
    def view(self) -> int:
        """The position since which pods and groups are in view."""
        return self._connections.of(self._cluster, [PODS.name, POD_GROUPS.name])[f"{self._cluster}.view"]

    def member(self, stream: str, before: MemberState, after: MemberState, position: int) -> None:
        """Take note of a pod as it was before an event of its stream and is after it."""
        self._members.note(stream, before, after, position)
        if after.seen is None:
            self._members.forget(stream)

    def in_group(self, group: str, before: MemberState | None, after: MemberState | None, position: int) -> None:
        """Take note, for a group, of a member as it was and is; None: it was not in it, or is not any more."""
        if changed := changes("members", IN_GROUP, before, after, position):
            self._shared.setdefault(group, {}).update(changed)

    def group(self, stream: str, before: PodGroupState, after: PodGroupState, position: int) -> None:
        """Take note of a group as it was before an event of its stream and is after it."""
        self._groups.note(stream, before, after, position)
        kept = KEEPS_FREE["kept"]
        if kept(before) is not None and changes(stream, KEEPS_FREE, before, after, position):
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
        self._cluster = connection.name
        self._connections.fold({connection.name: connection}, [connection.name], position)

    def of(self, stream: str) -> dict[str, int]:
        """Return the marks of a stream; of a group with those of its members."""
        match stream.partition("/")[0]:
            case "member":
                return self._members.of(stream)
            case "podgroup":
                return {**self._groups.of(stream), **self._shared.get(stream, {})}
            case "owner":
                return self._owners.of(stream)
            case _:
                return self._rules

    def forget_group(self, stream: str) -> None:
        """Drop the marks of a group of which nothing is left."""
        self._groups.forget(stream)
        self._shared.pop(stream, None)

    def forget_owner(self, stream: str) -> None:
        """Drop the marks of an owner of which nothing is known any more."""
        self._owners.forget(stream)
