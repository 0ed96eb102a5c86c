"""Takes a pod from a node that is held to the binding: decides what comes before it, and waits for what has to come of
that.

In: pods with a node that everyone permits, reservations of a process before this one, changes of the cluster, the time.
Out: what the loop proposes. Whether a pod is prepared is asked of the cluster as it shows itself, and asked again when
that changes; nothing is kept here that the log and the watches do not say again to the next process."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Protocol

from controlplane.controllers.scheduling.attempt import Trying
from controlplane.controllers.scheduling.binding.assumed import AssumedPod
from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, ProposedAppend
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import Code
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind

_AGAIN = 1.0  # seconds; as often as kube-scheduler asks
_STIRRING: frozenset[Kind] = frozenset({PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS})


class Proposes(Protocol):
    """What is asked of the loop."""

    def protocol_of(self, identity: str) -> tuple[BindingProtocol | None, str]:
        """Return who decides about a pod, and its stream."""

    def busy(self, identity: str) -> bool:
        """Whether a proposal about a pod is under way."""

    def sync(self, stream: str, now: datetime) -> None:
        """Look what follows from the state of a pod's stream."""

    def propose(self, answer: ProposedAppend, stream: str, identity: str) -> None:
        """Append events about a pod."""

    def drop(self, identity: str, reason: SchedulingReason, message: str, plugin: str = "") -> bool:
        """Propose to give a reservation back; False if it cannot be."""


class Preparing:
    """See the module. `holds` are the loop's: pods between cycle and binding."""

    def __init__(
        self,
        loop: Proposes,
        trying: Trying,
        view: ClusterView,
        frameworks: Mapping[str, Framework],
        holds: MutableMapping[str, AssumedPod],
    ) -> None:
        self._loop, self._try, self._view, self._frameworks, self._holds = loop, trying, view, frameworks, holds
        self._waiting: dict[str, None] = {}
        self._later: dict[str, None] = {}  # whose PreBind has to be asked again
        self._stirred = False
        self._next = 0.0

    def resume(self, protocol: BindingProtocol, stream: str, identity: str, node: str) -> None:
        """A reservation from before this process: the plugins hear of it, and are asked again whether it may go on.

        Where the way to the binding has begun, everyone had permitted it: only Reserve hears of it then.
        """
        pod = self._view.pods.get(identity)
        framework = self._frameworks.get(pod.scheduler_name) if pod is not None else None
        if pod is None or framework is None:
            return
        state = CycleState(protocol.decided(stream))
        status, _ = self._try.reserve(framework, state, pod, node, permit=not protocol.begun(stream))
        if status.ok or status.code is Code.WAIT:
            self._holds[identity] = AssumedPod(framework, state, pod, node)
        else:
            framework.unreserve(state, pod, node)
            self._loop.drop(identity, SchedulingReason.PERMIT_REFUSED, "; ".join(status.reasons), status.plugin)

    def go_on(self, protocol: BindingProtocol, stream: str, identity: str, now: datetime) -> None:
        """Everyone permits: ask PreBind and Bind, and begin."""
        hold = self._holds[identity]
        status, way = self._try.way(hold.framework, hold.state, hold.pod, hold.node)
        if way is None and status.code is Code.WAIT:
            self._later[identity] = None
            return
        if way is None:
            self._loop.drop(identity, SchedulingReason.PRE_BIND_FAILED, "; ".join(status.reasons))
            return
        answer = protocol.go_on(stream, way, now)
        if answer.events:
            self._loop.propose(answer, stream, identity)

    # ---------------------------------------------------------------- waiting for what has to come of it

    def wait(self, identity: str) -> None:
        """Everything is written: look, and look again, whether the binding can follow."""
        self._waiting[identity] = None
        self._stirred = True

    def changed(self, kind: Kind) -> None:
        """Something in the cluster has changed."""
        self._stirred = self._stirred or kind in _STIRRING

    def next_due(self) -> float | None:
        """Return when `look` has something to do, in seconds; None if nobody waits."""
        return (0.0 if self._stirred else self._next) if self._waiting or self._later else None

    def look(self, now: datetime) -> None:
        """Ask about those who wait, if something has changed or it is time."""
        seconds = now.timestamp()
        if not (self._waiting or self._later) or (not self._stirred and seconds < self._next):
            return
        self._stirred, self._next = False, seconds + _AGAIN
        later, self._later = self._later, {}
        for identity in later:
            self._loop.sync(self._loop.protocol_of(identity)[1], now)
        for identity in list(self._waiting):
            self._ask(identity, now)

    def _ask(self, identity: str, now: datetime) -> None:
        hold, (protocol, stream) = self._holds.get(identity), self._loop.protocol_of(identity)
        if hold is None or protocol is None or not protocol.prepares(stream):
            del self._waiting[identity]
            return
        if self._loop.busy(identity):
            return
        status = self._try.prepared(hold.framework, hold.state, hold.pod, hold.node)
        if status.ok:
            answer = protocol.bind(stream, now)
            if answer.events:
                self._loop.propose(answer, stream, identity)
        elif status.code is not Code.WAIT:
            self._loop.drop(identity, SchedulingReason.PRE_BIND_FAILED, "; ".join(status.reasons))
