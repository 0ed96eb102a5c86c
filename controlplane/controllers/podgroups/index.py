"""Folds the streams of pods, groups, owners and rules, and looks up what has to be known across them: a group's
members, what is known of an owner, which streams a change concerns.

In: events in the log's order. Out: states, and the streams that have to be decided about. Who waits for which read, and
what was admitted a moment ago and is not folded yet, is not from the log: it follows from what was decided last, and a
process that starts decides about everything once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.controllers.connectivity.events import EVENTS as CONNECTIVITY
from controlplane.controllers.connectivity.events import MANAGEMENT, ServiceStarted, cluster_stream
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.podgroups.events import (
    RULES_STREAM,
    MemberObserved,
    OwnerObserved,
    OwnerResolved,
    RoomObserved,
    group_stream,
    owner_stream,
)
from controlplane.controllers.podgroups.facets import PodGroupFacets
from controlplane.controllers.podgroups.membership import Template
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, POD_GROUPS, PODS, OwnerReference
from controlplane.controllers.podgroups.ownership import MOST_OWNERS, OUR_SCHEDULERS, OwnerAnswer, Resolution
from controlplane.controllers.podgroups.phases import DEFAULT_FACTOR, ClusterCapacity, GroupClaim
from controlplane.controllers.podgroups.reservations import Reservations, claim_of, gives_back
from controlplane.controllers.podgroups.rules import NAME, NAMESPACE
from controlplane.controllers.podgroups.state import (
    MemberState,
    OwnerState,
    PodGroupState,
    RulesState,
    WriteSlot,
    fold_group,
    fold_member,
    fold_owner,
    fold_rules,
)
from controlplane.kube.kinds import Kind
from controlplane.log.event import Part, Recorded

_NOTHING_MEMBER, _NOTHING_GROUP = MemberState(), PodGroupState()
# Groups of which nothing is left but the version of their stream: a new pod of their owner may want one again.
_REMEMBERED = 100_000


CLUSTER_STREAM = cluster_stream(MANAGEMENT)
"""The stream of the connection to the cluster."""


def unseen_kind(recorded: Iterable[Recorded]) -> str:
    """Return which kind cannot be seen, without which no pod is given a group, by the events of the connection; "" if
    all can."""
    connection = Connection(name=MANAGEMENT)
    for one in recorded:
        if one.stream == CLUSTER_STREAM:
            connection = fold_connection(connection, one)
    kind = next((one.name for one in (PODS, POD_GROUPS) if one.name in connection.off), "")
    return f"{kind} cannot be seen there ({connection.off[kind]})" if kind else ""


def place_of(state: MemberState) -> str:
    """Return the stream of the group that a pod is in: the one that it names, else the one that it was resolved to; ""
    if none.
    """
    if state.seen is None:
        return ""
    name = state.seen.facts.group_name or (state.resolved.group if state.resolved is not None else "")
    return group_stream(state.seen.facts.namespace, name) if name else ""


class PodGroupPolicy(Part):
    """The settings that decisions depend on.

    `refresh_after`: how long the answer of a read is believed when a new pod needs it; what is watched is always
    current. `block_owner_deletion`: the flag in the group's owner reference; clusters with
    OwnerReferencesPermissionEnforcement may want it off. `inqueue_limit`: how long an admitted group may take to start;
    it rests as long afterwards. `overcommit`: Volcano's factor. `status_for`: the schedulers to whose groups the
    controller gives phase and numbers; any other one writes them itself."""

    schedulers: tuple[str, ...] = OUR_SCHEDULERS
    status_for: tuple[str, ...] = OUR_SCHEDULERS
    block_owner_deletion: bool = True
    refresh_after: timedelta = timedelta(minutes=10)
    status_interval: timedelta = timedelta(seconds=1)
    inqueue_limit: timedelta = timedelta(minutes=10)
    overcommit: float = DEFAULT_FACTOR


class PodGroupIndex:
    """The states, and the ways between them."""

    GIVEN = ("policy",)

    def __init__(self, policy: PodGroupPolicy) -> None:
        self.policy = policy
        self.members: dict[str, MemberState] = {}
        self.groups: dict[str, PodGroupState] = {}
        self.left: OrderedDict[str, WriteSlot] = OrderedDict()
        self.owners: dict[str, OwnerState] = {}
        self.rules = RulesState()
        self.capacity: ClusterCapacity | None = None
        self.connection = Connection(name=MANAGEMENT)
        self.positions = PodGroupFacets()
        self.waiters: dict[str, set[str]] = {}
        self._reservations = Reservations()
        self.unresolved: set[str] = set()
        self._members_of: dict[str, dict[str, None]] = {}
        self._users: dict[str, dict[str, set[str]]] = {}
        self._below: dict[str, dict[str, Template]] = {}
        self._dirty: dict[str, None] = {}

    @property
    def ready(self) -> bool:
        """Whether pods and groups are in view, so that what is absent is absent."""
        return self.connection.in_view(PODS.name) and self.connection.in_view(POD_GROUPS.name)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call, in order."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def enqueue(self, *streams: str) -> None:
        """Have streams decided about."""
        self._dirty.update(dict.fromkeys(streams))

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        stream, event = recorded.stream, recorded.event
        first = stream.partition("/")[0]
        if first == "member":
            self._fold_member(recorded)
        elif first == "podgroup":
            self._fold_group(recorded)
        elif first == "owner":
            self._fold_owner(recorded)
        elif stream == RULES_STREAM:
            before = self.rules
            self.rules = fold_rules(before, recorded)
            self.positions.rules(before, self.rules, recorded.position)
            self.enqueue(stream, *(sorted(self.unresolved) if self.rules.rules != before.rules else ()))
        elif isinstance(event, RoomObserved):
            self.capacity = event.room
            self.positions.around["room"] = recorded.position
            self._enqueue_waiting()
        elif isinstance(event, CONNECTIVITY):
            self._fold_connection(recorded)

    def _enqueue_waiting(self) -> None:
        """Have all groups decided about that may find room now, the oldest first."""
        found = [(one.seen.created, name) for name, one in self.groups.items() if one.seen and one.phase == "Pending"]
        self.enqueue(*(name for _, name in sorted(found)))

    # --- lookups -----------------------------------------------------------------------------------------------------

    def known(self, namespace: str, owner: OwnerReference, now: datetime) -> OwnerAnswer | None:
        """Return what is known of an owner and still believed; None if it has to be read."""
        state = self.owners.get(owner_stream(namespace, owner))
        if state is None or state.watched or state.answer.outcome in ("NotFound", "Replaced"):
            return state.answer if state is not None else None  # a UID that is gone does not come back
        until = state.retry_at or state.at + self.policy.refresh_after
        return state.answer if now < until else None

    def is_gone(self, namespace: str, owner: OwnerReference) -> bool:
        """Return whether an owner is known to be there no more, by its UID."""
        state = self.owners.get(owner_stream(namespace, owner))
        return state is not None and state.answer.outcome in ("NotFound", "Replaced")

    def waits_no_more(self, stream: str, owner: str) -> None:
        """Take note that a pod does not wait for an owner's read any longer."""
        waiters = self.waiters.get(owner, set())
        waiters.discard(stream)
        if not waiters:
            self.waiters.pop(owner, None)

    def members_of(self, stream: str) -> list[MemberState]:
        """Return the members of a group that are there, in the order in which they were resolved."""
        return [self.members[name] for name in self._members_of.get(stream, ())]

    def templates(self, found: Resolution, namespace: str) -> list[Template]:
        """Return the templates that may say what a pod of a group asks for."""
        below = self._below.get(found.owner.uid, {}).values()
        chain = (self.owners.get(owner_stream(namespace, one)) for one in found.chain[1:])
        return [*below, *(one.template for one in chain if one is not None and one.template is not None)]

    def template_streams(self, found: Resolution, namespace: str) -> list[str]:
        """Return the streams of the owners whose templates may say what a pod of a group asks for."""
        return [*self._below.get(found.owner.uid, ()), *(owner_stream(namespace, one) for one in found.chain[1:])]

    def _claim(self, stream: str) -> GroupClaim | None:
        group = self.groups.get(stream)
        return claim_of(group, self.members_of(stream)) if group is not None else None

    def kept_free_besides(self, stream: str) -> dict[str, int]:
        """Return what all groups but one keep free, in billionths."""
        return self._reservations.besides(stream, self.groups, self._claim)

    def admit(self, stream: str) -> None:
        """Count what a group is admitted for, until that is folded; one that is no longer Pending counts as it is."""
        claim = self._claim(stream)
        if claim is not None and claim.phase == "Pending":
            self._reservations.admit(stream, claim.min_resources)

    def existing(self, kind: Kind) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind: UID to (namespace, name, resourceVersion).

        A reflector that starts with it notices what vanished while nobody watched.
        """
        if kind == PODS:
            pods = [one.seen for one in self.members.values() if one.seen is not None]
            return {pod.uid: (pod.facts.namespace, pod.facts.name, pod.resource_version) for pod in pods}
        if kind == POD_GROUPS:
            groups = [one.seen for one in self.groups.values() if one.seen is not None]
            return {group.uid: (group.namespace, group.name, group.resource_version) for group in groups}
        if kind == CONFIG_MAPS:
            rules = self.rules
            return {rules.uid: (NAMESPACE, NAME, rules.resource_version)} if rules.uid else {}
        return {
            one.owner.uid: (one.namespace, one.owner.name, one.resource_version)
            for one in self.owners.values()
            if one.watched and (one.owner.api_version, one.owner.kind) == (kind.api_version, kind.kind)
        }

    def group_of(self, resolved: OwnerResolved, namespace: str) -> PodGroupState:
        """Return the group that a pod was resolved to."""
        return self.groups.get(group_stream(namespace, resolved.group), _NOTHING_GROUP)

    # --- folds -------------------------------------------------------------------------------------------------------

    def _fold_member(self, recorded: Recorded) -> None:
        stream = recorded.stream
        before = self.members.get(stream, _NOTHING_MEMBER)
        after = fold_member(before, recorded)
        self.positions.member(stream, before, after, recorded.position)
        self._regroup(recorded, before, after)
        gone = after.seen is None or (before.seen is not None and after.seen.uid != before.seen.uid)
        if before.seen is not None and before.resolved is None and gone:
            self._forget_looked_at(before.seen.facts.namespace, before.seen.facts.controller, stream)
        if after.seen is None:
            self.members.pop(stream, None)
        else:
            self.members[stream] = after
        if after.seen is not None and after.resolved is None:
            self.unresolved.add(stream)
        else:
            self.unresolved.discard(stream)
        self.enqueue(stream)

    def _regroup(self, recorded: Recorded, before: MemberState, after: MemberState) -> None:
        """Let a pod leave the group that it was in and join the one that it is in, or tell that of what it shows
        now."""
        stream, left, joined = recorded.stream, place_of(before), place_of(after)
        for group in {left, joined}:
            self._reservations.changed(group)
        if after.resolved is not before.resolved or left != joined:
            if left:
                self._leave(left, stream, before)
            if joined:
                self._join(joined, stream, after)
            self._note_group_change(left, joined, before, after, recorded.position)
        elif joined and isinstance(recorded.event, MemberObserved):
            self.positions.in_group(joined, before, after, recorded.position)
            self.enqueue(joined)

    def _note_group_change(
        self, left: str, joined: str, before: MemberState, after: MemberState, position: int
    ) -> None:
        if left == joined != "":
            self.positions.in_group(joined, before, after, position)
            return
        if left and (left in self.groups or left in self._members_of):
            self.positions.in_group(left, before, None, position)
        if joined:
            self.positions.in_group(joined, None, after, position)

    def _join(self, group: str, stream: str, state: MemberState) -> None:
        self._members_of.setdefault(group, {})[stream] = None
        self.enqueue(group)
        for owner in state.resolved.resolution.chain[1:] if state.resolved is not None else ():
            self._users.setdefault(owner.uid, {}).setdefault(group, set()).add(stream)

    def _leave(self, group: str, stream: str, state: MemberState) -> None:
        mates = self._members_of.get(group, {})
        mates.pop(stream, None)
        if not mates:
            self._members_of.pop(group, None)
            self._forget_group(group)
        self.enqueue(group)
        for owner in state.resolved.resolution.chain[1:] if state.resolved is not None else ():
            groups = self._users.get(owner.uid, {})
            groups.get(group, set()).discard(stream)
            if not groups.get(group):
                groups.pop(group, None)
            if not groups:
                self._users.pop(owner.uid, None)
                self._forget(owner_stream(group.split("/")[1], owner))

    def _forget_group(self, stream: str) -> None:
        """Drop a group that is gone, and so are its members and what was to be written to it."""
        state = self.groups.get(stream)
        if state is not None and (state.seen is not None or state.slot.effect is not None):
            return
        self.positions.forget_group(stream)
        if state is not None:
            del self.groups[stream]
            self.left[stream] = WriteSlot(version=state.slot.version, position=state.slot.position)
            if len(self.left) > _REMEMBERED:
                self.left.popitem(last=False)

    def _forget(self, key: str, waited: str = "") -> None:
        """Drop what was read of an owner that nobody is below any more; a watch looks after what it shows itself.
        `waited`: who does not wait for it any longer.
        """
        state = self.owners.get(key)
        if state is not None and not state.watched and not self.waiters.get(key, set()) - {waited}:
            del self.owners[key]
            self.positions.forget_owner(key)

    def _forget_looked_at(self, namespace: str, following: OwnerReference | None, stream: str = "") -> None:
        """Drop what was read of an owner and those above it for a pod that went before it was known whose group it is
        in, or for an owner that went.
        """
        for _ in range(MOST_OWNERS):
            key = owner_stream(namespace, following) if following is not None else ""
            if following is None or (state := self.owners.get(key)) is None:
                return
            if following.uid not in self._users:
                self._forget(key, stream)
            following = state.answer.facts.controller if state.answer.facts is not None else None

    def _fold_group(self, recorded: Recorded) -> None:
        stream = recorded.stream
        self._reservations.folded(stream)
        self.left.pop(stream, None)
        before = self.groups.get(stream, _NOTHING_GROUP)
        after = fold_group(before, recorded)
        self.positions.group(stream, before, after, recorded.position)
        self.groups[stream] = after
        if not self._members_of.get(stream):
            self._forget_group(stream)
        if (before.seen is None) != (after.seen is None) or (
            before.seen is not None and after.seen is not None and before.seen.owner_uid != after.seen.owner_uid
        ):
            self.enqueue(*self._members_of.get(stream, ()))
        if before.seen is not after.seen or before.slot != after.slot:
            self.enqueue(stream)
        if gives_back(before, after):
            self._enqueue_waiting()

    def _fold_owner(self, recorded: Recorded) -> None:
        key, event = recorded.stream, recorded.event
        before = self.owners.get(key)
        after = fold_owner(before, recorded)
        if after is None:
            return
        self.owners[key] = after
        self.positions.owner(key, before, after, recorded.position)
        self.enqueue(*sorted(self.waiters.pop(key, ())))
        self._fold_template(key, before, after)
        uids = {after.owner.uid, *(one.template.above for one in (before, after) if one is not None and one.template)}
        if isinstance(event, OwnerObserved) or (before is not None and before.watched):
            for uid in sorted(uids):
                self.enqueue(*sorted(self._users.get(uid, ())))
        if before is not None and before.watched and not after.watched and after.owner.uid not in self._users:
            self._forget_watched(key, before)

    def _forget_watched(self, key: str, before: OwnerState) -> None:
        """Drop an owner that is not watched any more and that nobody is below."""
        self.owners.pop(key, None)
        self.positions.forget_owner(key)
        facts = before.answer.facts
        self._forget_looked_at(before.namespace, facts.controller if facts is not None else None)

    def _fold_template(self, key: str, before: OwnerState | None, after: OwnerState) -> None:
        for state in (before, after):
            if state is not None and state.template is not None and state.template.above:
                below = self._below.get(state.template.above, {})
                below.pop(key, None)
                if not below:
                    self._below.pop(state.template.above, None)
        if after.template is not None and after.template.above:
            self._below.setdefault(after.template.above, {})[key] = after.template

    def _fold_connection(self, recorded: Recorded) -> None:
        ready = self.ready
        if isinstance(recorded.event, ServiceStarted):
            self.connection = restarted(self.connection, recorded)
        elif recorded.stream == CLUSTER_STREAM:
            self.connection = fold_connection(self.connection, recorded)
        self.positions.connected(self.connection, recorded.position)
        if self.ready and not ready:
            self.enqueue(RULES_STREAM, *self.members, *self.groups, *self._members_of)
