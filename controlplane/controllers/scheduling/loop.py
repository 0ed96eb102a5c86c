"""Schedules without waiting: from the queue through a cycle to events, and from folded events back to the queue.

In: changes that the watches show, streams that were folded, the time. Out: `Proposal`s: events to be appended, each on
the version of the stream that it was decided on. Pure, time is an argument. A node is taken for a pod from its cycle on
(assumed); whether the log took the proposal decides whether it stays so (`sync`, `turned_down`). Cycles of other pods
go on meanwhile (kubernetes/kubernetes pkg/scheduler/schedule_one.go, v1.36)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from controlplane.controllers.scheduling.anticipation import Ahead
from controlplane.controllers.scheduling.attempt import Trying
from controlplane.controllers.scheduling.binding.assumed import AssumedPod, Proposal
from controlplane.controllers.scheduling.binding.prebind import Preparing
from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, Plain, ProposedAppend
from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.failure import FailureHandler
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import Code
from controlplane.controllers.scheduling.gangs.coordinator import GangCoordinator
from controlplane.controllers.scheduling.queue.nominations import Nominations
from controlplane.controllers.scheduling.queue.queue import Queue, QueuePlace
from controlplane.controllers.scheduling.queue.room import given_back, not_kept
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.kube.kinds import PODS, Json, Kind, meta
from controlplane.log.event import Append


class Loop:
    """See the module. `frameworks` are those of the profiles, by scheduler name; `protocols` has one for each sort of
    pods, by the first part of a stream's name, `lent` a profile for those of them that name none of ours. `pick`
    chooses among equally good nodes, `leaving` says whether a pod (UID) is being evicted already."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        queue: Queue,
        view: ClusterView,
        protocols: Mapping[str, BindingProtocol],
        *,
        pick: Callable[[], int] = lambda: 0,
        leaving: Callable[[str], bool] = lambda uid: False,
        lent: Mapping[str, Framework] | None = None,
    ) -> None:
        self._lent = lent or {}
        self.frameworks, self.queue, self.view, self._protocols = frameworks, queue, view, protocols
        self.outbox: deque[Proposal] = deque()
        self.ahead = Ahead(self.outbox)
        self.nominations = Nominations(view.pods)
        self._try = Trying(view, self.nominations, pick)
        self.faults = self._try.faults
        for framework in frameworks.values():
            framework.heard = lambda error: self.faults.heard(error)
        self.gangs = GangCoordinator(view.cluster.gangs, queue, self)
        self.attempts: dict[str, int] = {"scheduled": 0, "unschedulable": 0, "error": 0}
        self._pending: dict[str, Proposal] = {}
        self._holds: dict[str, AssumedPod] = {}
        self._identities: dict[str, str] = {}
        self._streams: dict[str, str] = {}
        self._overtaken: set[str] = set()
        self._unkept: list[str] = []  # what was taken in memory alone, and is given back
        self._failures = FailureHandler(queue, self.nominations, view, leaving, self.drop)
        self._preparing = Preparing(self, self._try, view, self.framework_of, self._holds)

    # ---------------------------------------------------------------- what the watches show

    def changed(self, kind: Kind, obj: Json, now: datetime, *, gone: bool, unreadable: str = "") -> None:
        """Take one change of the cluster."""
        for event in self.view.apply(kind, obj, gone=gone, unreadable=unreadable):
            self.queue.move(event, now.timestamp())
            if event.resource == "Node" and event.action == "Delete":
                self._node_gone(event.old.name)
        self.gangs.look(now)
        self._preparing.changed(kind, obj)
        if kind == PODS:
            self._pod_changed(str(meta(obj).get("uid", "")), now, gone=gone)

    def _pod_changed(self, identity: str, now: datetime, *, gone: bool) -> None:
        pod, stream = self.view.pods.get(identity), self._streams.get(identity)
        if gone and stream is not None and stream in self.ahead:
            self.ahead.folded(stream)  # what was seen of it may never come to be in the log
            self._leave(identity, stream, now)
        if pod is None or pod.node_name:
            return
        entry = self.queue.entry(identity)
        if entry is not None:
            if entry.pod.nominated_node != pod.nominated_node and not self._tells(identity):
                self.nominations.put(pod, pod.nominated_node)  # by somebody else
            self.queue.add(pod, now.timestamp())
            self.gangs.gated(identity, now)
        elif stream is not None:
            self.sync(stream, now)

    def _node_gone(self, node: str) -> None:
        for identity in [identity for identity, claimed in self.view.claims.items() if claimed == node]:
            self._give_up(identity, node)

    def _give_up(self, identity: str, node: str) -> bool:
        return self.drop(identity, SchedulingReason.NODE_GONE, f'node "{node}" is gone')

    # ---------------------------------------------------------------- what the log says

    def begin(self, now: datetime) -> None:
        """Take up what the log says, after everything was listed: what was held is held, who waits is queued; what went
        while not everything was in view, of which nobody was told, is not. What is being written for a pod comes first:
        the plugins find for the others what that leaves.
        """
        self.gangs.begin(now)
        known = [(of, stream) for of in self._protocols.values() for stream in of.streams()]
        known.sort(key=lambda one: not one[0].begun(one[1]))
        for stream in dict.fromkeys([*self._identities, *(stream for _, stream in known)]):
            self.sync(stream, now)

    def sync(self, stream: str, now: datetime) -> None:
        """Bring snapshot and queue up to what the log says of a pod now."""
        protocol = self._protocols.get(stream.partition("/")[0])
        if protocol is None or (stream in self.ahead and not protocol.version(stream)):
            return
        identity, before = protocol.identity(stream), self._identities.get(stream, "")
        if before and before != identity:
            self._leave(before, stream, now)
        if not identity:
            if other := protocol.elsewhere(stream):
                self.sync(other, now)
            return
        self._identities[stream], self._streams[identity] = identity, stream
        pending = self._pending.get(identity)
        if pending is not None:
            if protocol.version(stream) < pending.folded:
                self.ahead.missed(stream)
                return
            del self._pending[identity]
            self.ahead.folded(stream)
        node = protocol.taken(stream)
        self.view.claim(identity, node)
        if node:
            self._holding(protocol, stream, identity, node, now)
        elif protocol.waits(stream):
            self._wait(protocol, stream, identity, now)
        else:
            self._forget(identity, now)

    def _holding(self, protocol: BindingProtocol, stream: str, identity: str, node: str, now: datetime) -> None:
        self._leave_queue(identity, node)
        if identity not in self._holds and not protocol.firm(stream):
            self._preparing.resume(protocol, stream, identity, node)
        self.gangs.held(identity, protocol, stream, now)
        if identity not in self._holds or identity in self._pending:
            return
        if node not in self.view.snapshot.row and self._give_up(identity, node):
            return  # it went while nobody looked, or the log refused to hear of it
        if protocol.prepares(stream):
            self._preparing.wait(identity)
        elif not protocol.begun(stream) and self.gangs.may_bind(identity, protocol, stream, now):
            self._preparing.go_on(protocol, stream, identity, now)
            for other in self.gangs.all_may():
                self.sync(self._streams[other], now)

    def _leave_queue(self, identity: str, node: str) -> None:
        """A pod has a node: it is not queued, unless its cycle is not over, and it is nominated for none."""
        entry = self.queue.entry(identity)
        if entry is not None and entry.place is not QueuePlace.IN_FLIGHT:
            self.queue.remove(identity)
        self.nominations.remove(identity, node)

    def _wait(self, protocol: BindingProtocol, stream: str, identity: str, now: datetime) -> None:
        hold, pod, seconds = self._holds.pop(identity, None), self.view.pods.get(identity), now.timestamp()
        if hold is not None:
            hold.framework.unreserve(hold.state, hold.pod, hold.node)
        self.gangs.freed(identity, now)
        if pod is None or pod.node_name or self.framework_of(pod, stream) is None:
            return
        entry = self.queue.entry(identity)
        if entry is None:
            self.nominations.put(pod, pod.nominated_node)
            self.queue.add(pod, seconds)
        elif entry.place is QueuePlace.IN_FLIGHT:
            self._queue_again(identity, protocol.dropped(stream).plugins, seconds)
        elif identity in self._overtaken:
            self.queue.activate(identity, seconds)
        if protocol.urged(stream, now):
            self.queue.activate(identity, seconds, at_once=True)
        self._overtaken.discard(identity)
        if hold is not None:
            given_back(self.queue, self.view.cluster.gangs, hold.pod, seconds)
            if (answer := protocol.given_back(stream)).events:
                self.propose_together(answer, lambda taken: None)
        self.gangs.gated(identity, now)

    def _queue_again(self, identity: str, plugins: frozenset[str], seconds: float) -> None:
        """The cycle of a pod came to nothing: `plugins` gave its reservation back, none if that was an error."""
        if identity in self._overtaken:
            self.queue.again(identity, seconds)
        elif plugins:
            self.queue.refused(identity, plugins, seconds)
        else:
            self.queue.failed(identity, seconds)

    def _leave(self, identity: str, stream: str, now: datetime) -> None:
        """The pod is not this stream's any more: bound, gone, or another has its name."""
        self._identities.pop(stream, None)
        if self._streams.get(identity) == stream:
            del self._streams[identity]
        self._pending.pop(identity, None)
        self.view.claim(identity, "")
        self._forget(identity, now)

    def _forget(self, identity: str, now: datetime) -> None:
        self.queue.remove(identity)
        self.gangs.gone(identity)
        self._overtaken.discard(identity)
        hold, pod = self._holds.pop(identity, None), self.view.pods.get(identity)
        self.nominations.remove(identity, pod.node_name if pod is not None else "")
        if hold is None:
            return
        if pod is not None and pod.node_name:
            hold.framework.post_bind(hold.state, hold.pod, hold.node)
        else:
            hold.framework.unreserve(hold.state, hold.pod, hold.node)
            given_back(self.queue, self.view.cluster.gangs, hold.pod, now.timestamp())

    def _tells(self, identity: str) -> bool:
        """Whether what a pod shows of its status may be of our own making, and overtaken."""
        protocol, stream = self.protocol_of(identity)
        return identity in self._pending or (protocol is not None and protocol.tells(stream))

    # ---------------------------------------------------------------- cycles

    def schedule_one(self, now: datetime) -> bool:
        """Run the cycle of the next pod; False if there is none."""
        self.gangs.look(now)
        self._preparing.look(now)
        while self._unkept:
            self.sync(self._unkept.pop(), now)
        for nominated in self.nominations.freed():
            not_kept(self.queue, nominated, now.timestamp())
        entry = self.queue.pop(now.timestamp())
        if entry is None:
            return False
        identity = entry.pod.identity
        pod, (protocol, stream) = self.view.pods.get(identity), self.protocol_of(identity)
        framework = self.framework_of(pod, stream) if pod is not None else None
        if pod is None or framework is None or protocol is None or pod.node_name or not protocol.waits(stream):
            self.queue.remove(identity)
            return True
        pod = self._try.nominated(pod)
        found = self._try.cycle(framework, pod)
        if found.node:
            self._found(protocol, stream, framework, pod, found, now)
        else:
            self._not_found(protocol, stream, framework, pod, found, now)
        return True

    def _found(
        self, protocol: BindingProtocol, stream: str, framework: Framework, pod: Pod, found: CycleResult, now: datetime
    ) -> None:
        identity, node, state = pod.identity, found.node, found.state
        self.view.claim(identity, node)
        self.nominations.remove(identity, node)  # it counts there from now on, and only once
        status, waits = self._try.reserve(framework, state, pod, node)
        if status.ok or status.code is Code.WAIT:
            until = {plugin: now + timedelta(seconds=seconds) for plugin, seconds in waits.items()}
            score = self._try.score(framework, pod, found, self.queue.entry(identity))
            answer = protocol.found(stream, node, score, until, now)
            if answer.events and not waits and isinstance(protocol, Plain):
                status, way = self._try.way(framework, state, pod, node)
                if way is not None:
                    answer = protocol.bound_at_once(stream, answer, way, now)
            if status.ok or status.code is Code.WAIT:
                self.attempts["scheduled"] += 1
                self._holds[identity] = AssumedPod(framework, state, pod, node)
                if answer.events:
                    self.propose(answer, stream, identity, reserves=True)
                elif answer.kept:
                    self.sync(stream, now)
                else:
                    self._release(identity)
                    self.queue.remove(identity)
                return
        framework.unreserve(state, pod, node)
        self.view.claim(identity, "")
        found.status, found.post_filtered = status, None
        self._not_found(protocol, stream, framework, pod, found, now)

    def _not_found(
        self, protocol: BindingProtocol, stream: str, framework: Framework, pod: Pod, found: CycleResult, now: datetime
    ) -> None:
        identity = pod.identity
        failure = self._failures.handle(protocol, stream, pod, found, framework.scheduler_name, now)
        self.attempts["error" if failure.is_error else "unschedulable"] += 1
        if failure.answer.events:
            self.propose(failure.answer, stream, identity)
        why, nominated = "" if failure.is_error else failure.event.message, bool(self.nominations.of(identity))
        self.gangs.failed(identity, now, why, nominated=nominated)

    # ---------------------------------------------------------------- Permit, from outside

    def allow(self, identity: str, plugin: str, now: datetime) -> None:
        """A Permit plugin that waited lets a pod go on."""
        protocol, stream = self.protocol_of(identity)
        if protocol is None:
            return
        answer = protocol.permit(stream, plugin, now)
        if answer.events:
            self.propose(answer, stream, identity)
        else:
            self.sync(stream, now)

    def reject(self, identity: str, plugin: str, message: str) -> None:
        """A Permit plugin that waited refuses a pod after all: its reservation is given back."""
        self.drop(identity, SchedulingReason.PERMIT_REFUSED, message, plugin)

    # ---------------------------------------------------------------- what the gangs ask

    def protocol_of(self, identity: str) -> tuple[BindingProtocol | None, str]:
        """Return who decides about a pod, and its stream."""
        stream = self._streams.get(identity, "")
        return self._protocols.get(stream.partition("/")[0]), stream

    def framework_of(self, pod: Pod, stream: str) -> Framework | None:
        """Return the profile of a pod, None if it is not ours. `lent`: for streams of a sort, if it names another."""
        return self.frameworks.get(pod.scheduler_name) or self._lent.get(stream.partition("/")[0])

    def busy(self, identity: str) -> bool:
        """Whether a proposal about a pod is under way."""
        return identity in self._pending

    def propose_together(self, answer: ProposedAppend, on_end: Callable[[bool], None]) -> None:
        """Append events of several streams, or none of them; `on_end` hears whether the log took them."""
        self.outbox.append(Proposal(Append(answer.events, dict(answer.expected)), "", "", 0, on_end=on_end))

    def next_due(self) -> float | None:
        """Return when `schedule_one` has something to do, in seconds; None if nothing waits for time."""
        due = (self.queue.next_due(), self.gangs.next_due(), self._preparing.next_due())
        return min((at for at in due if at is not None), default=None)

    # ---------------------------------------------------------------- proposals

    def propose(self, answer: ProposedAppend, stream: str, identity: str, *, reserves: bool = False) -> None:
        """Append events about a pod."""
        mine = sum(event.stream == stream for event in answer.events)
        folded = answer.expected.get(stream, 0) + mine if mine else 0
        proposal = Proposal(Append(answer.events, dict(answer.expected)), stream, identity, folded, reserves)
        self._pending[identity] = proposal
        self.outbox.append(proposal)

    def drop(self, identity: str, reason: SchedulingReason, message: str, plugin: str = "") -> bool:
        """Propose to give a reservation back; False if it cannot be."""
        protocol, stream = self.protocol_of(identity)
        if protocol is None or identity in self._pending:
            return False
        answer = protocol.drop(stream, reason, message, plugin)
        if answer.events:
            self.propose(answer, stream, identity)
        elif identity in self._holds and not protocol.taken(stream):
            self._unkept.append(stream)
        return bool(answer.events)

    def committed(self, proposal: Proposal) -> None:
        """The log took a proposal. What it says of its own stream counts when it is folded; one that says nothing of it
        is settled now.
        """
        if proposal.on_end is not None:
            proposal.on_end(True)
        elif not proposal.folded and self._pending.get(proposal.identity) is proposal:
            del self._pending[proposal.identity]

    def turned_down(self, proposal: Proposal, now: datetime) -> None:
        """The log refused a proposal: its stream has moved on, or the database would not have it.

        What it took stays taken until what moved the stream is folded: it may be this very proposal, whose first answer
        was lost."""
        identity = proposal.identity
        if proposal.on_end is not None:
            proposal.on_end(False)
        if self._pending.get(identity) is not proposal:
            return
        self._overtaken.add(identity)
        proposal.folded = proposal.append.expected.get(proposal.stream, 0) + 1 if proposal.append.expected else 0
        self.sync(proposal.stream, now)

    def given_up(self, proposal: Proposal, now: datetime) -> None:
        """The database will not have a proposal as it is: it is as if it had not been made."""
        proposal.folded = 0
        if proposal.on_end is not None:
            proposal.on_end(False)
        if self._pending.get(proposal.identity) is proposal:
            self.sync(proposal.stream, now)

    def _release(self, identity: str) -> None:
        hold = self._holds.pop(identity, None)
        if hold is not None:
            hold.framework.unreserve(hold.state, hold.pod, hold.node)
        self.view.claim(identity, "")
