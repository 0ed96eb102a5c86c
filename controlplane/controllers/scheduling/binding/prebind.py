"""Takes a pod from a node that is held to the binding: decides what comes before it, and waits for what has to come of
that.

In: pods with a node that everyone permits, reservations of a process before this one, changes of the cluster, the time.
Out: what the loop proposes. Whether a pod is prepared is asked of the cluster as it shows itself, and asked again when
that changes; nothing is kept here that the log and the watches do not say again to the next process."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Protocol

from controlplane.controllers.scheduling.attempt import Trying
from controlplane.controllers.scheduling.binding.assumed import AssumedPod
from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, ProposedAppend
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import Code
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Json, Kind, meta

_AGAIN = 1.0  # seconds; as often as kube-scheduler asks
Place = tuple[str, str]


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
        framework_of: Callable[[Pod, str], Framework | None],
        holds: MutableMapping[str, AssumedPod],
    ) -> None:
        self._loop, self._try, self._view, self._holds = loop, trying, view, holds
        self._framework_of = framework_of
        self._waiting: dict[str, list[Place]] = {}  # each with its claims
        self._of_claim: dict[Place, dict[str, None]] = {}  # and who waits for each claim
        self._stirred: dict[str, None] = {}  # of whom something has changed
        self._later: dict[str, None] = {}  # whose PreBind has to be asked again
        self._moved = False  # whether any claim or volume has changed
        self._next = 0.0

    def resume(self, protocol: BindingProtocol, stream: str, identity: str, node: str) -> None:
        """A reservation from before this process: the plugins hear of it, and are asked again whether it may go on.

        Where the way to the binding has begun, everyone had permitted it: only Reserve hears of it then.
        """
        pod = self._view.pods.get(identity)
        framework = self._framework_of(pod, stream) if pod is not None else None
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
        self._stirred[identity] = None
        if identity in self._waiting:
            return
        pod = self._holds[identity].pod
        places = self._waiting[identity] = list(dict.fromkeys((pod.namespace, name) for name, _ in pod.claims))
        for place in places:
            self._of_claim.setdefault(place, {})[identity] = None

    def changed(self, kind: Kind, obj: Json) -> None:
        """Something in the cluster has changed: who waits for a claim is asked about if it is that, or its volume."""
        if not (self._waiting or self._later) or kind not in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
            return
        self._moved = True
        spec = obj.get("spec")
        about = (
            meta(obj) if kind == PERSISTENT_VOLUME_CLAIMS else spec.get("claimRef") if isinstance(spec, dict) else None
        )
        if isinstance(about, dict):
            place = str(about.get("namespace", "")), str(about.get("name", ""))
            self._stirred.update(self._of_claim.get(place, ()))

    def next_due(self) -> float | None:
        """Return when `look` has something to do, in seconds; None if nobody waits."""
        soon = self._stirred or (self._moved and self._later)
        return (0.0 if soon else self._next) if self._waiting or self._later else None

    def look(self, now: datetime) -> None:
        """Ask about those who wait, if something has changed or it is time."""
        seconds = now.timestamp()
        if not (self._waiting or self._later) or not (self._stirred or self._moved or seconds >= self._next):
            return
        asked = [identity for identity in self._stirred if identity in self._waiting]
        if seconds >= self._next:
            asked, self._next = list(self._waiting), seconds + _AGAIN
        later, self._later = self._later, {}
        self._stirred, self._moved = {}, False
        for identity in later:
            self._loop.sync(self._loop.protocol_of(identity)[1], now)
        for identity in asked:
            self._ask(identity, now)

    def _ask(self, identity: str, now: datetime) -> None:
        hold, (protocol, stream) = self._holds.get(identity), self._loop.protocol_of(identity)
        if hold is None or protocol is None or not protocol.prepares(stream):
            self._forget(identity)
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

    def _forget(self, identity: str) -> None:
        for place in self._waiting.pop(identity):
            self._of_claim[place].pop(identity)
            if not self._of_claim[place]:
                del self._of_claim[place]
