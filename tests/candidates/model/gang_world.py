"""The model with a gang: two members of one source, two targets, and every order in which they can be seen, decided
about and carried out.

The source's part is `SourceCandidates` itself, put together from the folded states of the group and of each member, so
that what its appends rest on is what the code says they do. A target's part about each member is that of the other
model (`target_steps`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from controlplane.controllers.candidates.objects import PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_state, observe, render
from controlplane.controllers.candidates.source import state as folds
from controlplane.controllers.candidates.source.events import PermitGranted
from controlplane.controllers.candidates.source.gang_events import GangPermitted, SourceGroupObserved
from controlplane.controllers.candidates.source.observations import CandidateGone
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import Json, Request, meta
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent, Recorded
from tests.candidates.model.api import Api, Refused, Store
from tests.candidates.model.intern import Interner
from tests.candidates.model.world import NAMESPACE, Config, Violation, at, source_pod

GROUP = gang_state.group_stream(NAMESPACE, "g")
NAMES = ("m-0", "m-1")
STREAMS = (GROUP, *(folds.source_stream(NAMESPACE, name) for name in NAMES))
LEAST = len(NAMES)


@dataclass(frozen=True)
class GangConfig(Config):
    """An exploration with a gang of two. `room`: how many pods each target has nodes for; `together`: their schedulers
    know gangs.
    """

    sources: int = len(NAMES)
    targets: int = 2
    room: tuple[int, ...] = (2, 2)
    together: bool = True
    gang_wait: int = 5
    gang_timeout: int = 100

    def cluster(self, s: int) -> str:
        return "source"

    def policy(self, s: int) -> SourcePolicy:
        found = super().policy(s)
        wait, timeout = timedelta(seconds=self.gang_wait), timedelta(seconds=self.gang_timeout)
        return msgspec.structs.replace(found, gang_wait=wait, gang_timeout=timeout, lost_after=timedelta(seconds=30))


class Joint(NamedTuple):
    """What the source's log says: the numbers of the folded states of the group and of each member."""

    group: int
    members: tuple[int, ...]


class Said(NamedTuple):
    """What a decision appends: events with their streams' numbers, and the streams on whose versions it rests."""

    events: tuple[NewEvent, ...]
    rests_on: frozenset[int]
    wake: int | None


class GangSource:
    """The steps of the source, computed once for each distinct question. Streams have numbers: 0 is the group's."""

    def __init__(self, config: GangConfig, api: Api, bodies: dict[str, bytes]) -> None:
        self.config, self.api, self.bodies = config, api, bodies
        self.groups: Interner[gang_state.SourceGangState] = Interner()
        self.states: Interner[SourceState] = Interner()
        self.requests: Interner[Request] = Interner()
        self.codec = Codec(SourceCandidates.types)
        self.policy = config.policy(0)
        self._memo: dict[Any, Any] = {}

    def first(self) -> Joint:
        group = SourceGroupObserved(
            namespace=NAMESPACE, name="g", uid="g#1", resource_version="1", min_member=LEAST, created=at(0)
        )
        empty = [self.states.put(folds.SourceState.initial(stream)) for stream in STREAMS[1:]]
        joint = Joint(self.groups.put(gang_state.SourceGangState.initial(GROUP)), tuple(empty))
        joint = self.folded(joint, NewEvent(stream=GROUP, event=group), 0)
        for number, name in enumerate(NAMES, 1):
            found: Json = source_pod(self.config.restart)
            found["metadata"] |= {"name": name, "uid": f"{name}#1", "annotations": {GROUP_NAME: "g"}}
            _, event, bodies = observe.source_pod(self.api.shown(found))
            self.bodies.update({body.ref: body.text.encode() for body in bodies})
            joint = self.folded(joint, NewEvent(stream=STREAMS[number], event=event, cluster=MANAGEMENT), 0)
        return joint

    def members(self, joint: Joint) -> list[SourceState]:
        return [self.states[number] for number in joint.members]

    def group(self, joint: Joint) -> gang_state.SourceGangState:
        return self.groups[joint.group]

    # --- folding -----------------------------------------------------------------------------------------------------

    def folded(self, joint: Joint, new: NewEvent, now: int) -> Joint:
        """Fold one event as it comes back from the log; versions are the states themselves, so that equal states are
        one.
        """
        event = self.codec.decode(*self.codec.encode(new.event))
        recorded = Recorded(
            position=0, stream=new.stream, version=0, event=event, cluster=new.cluster, recorded_at=at(now)
        )
        number = STREAMS.index(new.stream)
        if number == 0:
            return joint._replace(group=self.groups.put(gang_state.fold_group(self.groups[joint.group], recorded)))
        after = self.states.put(folds.fold(self.states[joint.members[number - 1]], recorded))
        return joint._replace(members=(*joint.members[: number - 1], after, *joint.members[number:]))

    def appended(self, joint: Joint, said: Said, now: int) -> Joint:
        for new in said.events:
            event = new.event
            begins = (
                isinstance(event, GangPermitted) and event.kind == "Bind" and event.reason != CandidateReason.GANG_FOUND
            )
            if begins and (len(event.members) < LEAST or len(said.events) <= len(event.members)):
                raise Violation("G4", f"{event.members} are permitted, which is no quorum of {LEAST}")
            if isinstance(event, PermitGranted):
                self._is_next(joint, STREAMS.index(new.stream) - 1, event)
            joint = self.folded(joint, new, now)
        return joint

    def _is_next(self, joint: Joint, member: int, event: PermitGranted) -> None:
        """S4: a permit is given while none is open, or again as it was."""
        permit = self.states[joint.members[member]].permit
        if permit is not None and (permit.number, permit.candidate) != (event.number, event.candidate):
            raise Violation("S4", f"permit {event.number} to {event.candidate} while {permit.number} is open")

    def same(self, one: Joint, other: Joint, streams: frozenset[int]) -> bool:
        """Whether none of some streams has moved from one state to the other."""
        return all(self._of(one, number) == self._of(other, number) for number in streams)

    def _of(self, joint: Joint, number: int) -> int:
        return joint.group if number == 0 else joint.members[number - 1]

    # --- deciding ----------------------------------------------------------------------------------------------------

    def said(self, joint: Joint, number: int, now: int, links: int) -> Said:
        """Return what the source would append now about one stream."""
        key = ("said", joint, number, now, links)
        if key not in self._memo:
            self._memo[key] = self._said(joint, number, now, links)
        return self._memo[key]

    def _said(self, joint: Joint, number: int, now: int, links: int) -> Said:
        context = self.config.context(0, links)
        capability = SourceCandidates(self.policy, "model", lambda namespace: context.targets)
        home = Connection(name=MANAGEMENT, phase="Connected", synced=frozenset({PODS.name}))
        capability.connections = {**context.connections, MANAGEMENT: home}
        capability.gangs.groups[GROUP] = self.groups[joint.group]
        for stream, state in zip(STREAMS[1:], self.members(joint), strict=True):
            capability.sources[stream] = state
            capability.gangs.member(stream, state)
        decided = capability.decide(STREAMS[number], at(now))
        wake = None if decided.wake is None else int((decided.wake - at(0)).total_seconds() + 0.999)
        rests_on = frozenset({number, *(STREAMS.index(stream) for stream in decided.others)})
        return Said(tuple(decided.events), rests_on, wake)

    # --- looking and writing -----------------------------------------------------------------------------------------

    def see(self, joint: Joint, member: int, t: int, store: Store, store_number: int, now: int) -> Joint:
        """Take notice of a member's candidates in a target."""
        key = ("see", joint.members[member], member, t, store_number, now)
        if key not in self._memo:
            self._memo[key] = self._see(joint, member, t, store, now).members[member]
        after = self._memo[key]
        return joint._replace(members=(*joint.members[:member], after, *joint.members[member + 1 :]))

    def _see(self, joint: Joint, member: int, t: int, store: Store, now: int) -> Joint:
        cluster, state = self.config.target(t), self.states[joint.members[member]]
        known = {name: c.seen for name, c in state.candidates.items() if c.cluster == cluster and c.seen is not None}
        news: list[Event] = []
        for name, obj in sorted(store["candidates"].items()):
            shown, before = self.api.shown(obj), known.pop(name, None)
            if before is not None and before.resource_version == meta(shown)["resourceVersion"]:
                continue
            _, event, bodies = observe.candidate(shown)
            self.bodies.update({body.ref: body.text.encode() for body in bodies})
            news.append(event)
        news += [CandidateGone(namespace=NAMESPACE, name=name, uid=before.uid) for name, before in known.items()]
        for event in news:
            joint = self.folded(joint, NewEvent(stream=STREAMS[member + 1], event=event, cluster=cluster), now)
        return joint

    def writes(self, joint: Joint, member: int, now: int) -> list[tuple[int, int]]:
        """Return a member's open writes to candidates: target, number of the request; without those that are
        obsolete.
        """
        key = ("writes", joint.members[member], now)
        if key not in self._memo:
            found, state = [], self.states[joint.members[member]]
            for _, effect in sorted(state.effects.items()):
                if effect.decision.cluster == MANAGEMENT:
                    continue
                try:
                    request = render.render(state, effect.decision, self.bodies, self.policy, at(now))
                except render.Obsolete:
                    continue
                t = "abcdef".index(effect.decision.cluster)
                found.append((t, self.requests.put(request, repr(request))))
            self._memo[key] = found
        return self._memo[key]

    def execute(self, store: Store, request: int) -> Store | None:
        """Return the store after one of our requests, None if it was refused."""
        try:
            return self.api.execute(store, self.requests[request])
        except Refused:
            return None
