"""Holds what was folded of everything that quota rests on, with the engine's state, and tells which streams are to be
decided about.

In: changes by those who fold events. Out: the states of Workloads, queues, flavors and checks; the engine's; the
streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.quota.admission import facts
from controlplane.controllers.quota.admission.device_objects import DEVICES, DeviceObjects
from controlplane.controllers.quota.admission.observe import KINDS, stream_of
from controlplane.controllers.quota.admission.recorded_cycles import Cycles
from controlplane.controllers.quota.admission.state import ObjectState, WorkloadState
from controlplane.controllers.quota.admission.topologies import ROOM, NodeObjects
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import Workload
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.state import State
from controlplane.kube.kinds import Kind
from controlplane.kube.limit_ranges import PodDefaults
from controlplane.log.event import Recorded

CYCLE = "admission/cycle"


class FoldedAdmission:
    """What was folded. `objects` are the states of what is no Workload, by stream; `needs` is what is followed beside
    `KINDS`, as flavors and ClusterQueues are; `namespaces` has the UIDs of namespaces by name; `touched` is the
    position of the last event about a Workload of a Cohort tree, by the name of its root, and `moved` that of the last
    change of anything."""

    def __init__(self, settings: EngineSettings) -> None:
        self.engine = State(settings)
        self.cycles = Cycles()
        self.home = Connection(name=MANAGEMENT)
        self.workloads: dict[str, WorkloadState] = {}
        self.objects: dict[str, ObjectState] = {}
        self.moved = 0
        self.touched: dict[str, int] = {}
        self._of: dict[str, dict[str, dict[str, None]]] = {}
        self._dirty: dict[str, None] = {}
        self._giving: dict[str, dict[str, None]] = {}
        self._defaults: dict[str, PodDefaults] = {}
        self.nodes = NodeObjects()
        self.needs: tuple[Kind, ...] = ()
        self.namespaces: dict[str, str] = {}
        self.devices = DeviceObjects(settings.devices)

    @property
    def followed(self) -> tuple[Kind, ...]:
        """What is followed beside `KINDS`."""
        return (*self.needs, *self.devices.needs)

    @property
    def ready(self) -> bool:
        """Whether all that quota rests on is in view. A cluster may not have the kinds of devices: who asks for some is
        told then, and the others are not kept waiting."""
        there = all(self.home.in_view(kind.name) for kind in (*KINDS, *self.needs))
        return there and self.home.settled(kind.name for kind in self.devices.needs)

    @property
    def unseen(self) -> str:
        """What of that is not in view, in words; "" if all is. While the cluster is out of reach no kind is named."""
        if self.ready:
            return ""
        missing = [kind.name for kind in (*KINDS, *self.needs) if not self.home.in_view(kind.name)]
        missing += [kind.name for kind in self.devices.needs if not self.home.settled([kind.name])]
        names = missing if self.home.connected else []
        said = "admission does not see all that quota rests on"
        return f"{said}: {', '.join(names)}" if names else said

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call; the cycle is the last."""
        dirty, self._dirty = self._dirty, {}
        if dirty.pop(CYCLE, ...) is None:
            dirty[CYCLE] = None
        return list(dirty)

    def workload(self, key: str) -> WorkloadState:
        """Return the state of a Workload by its namespace and name."""
        return self.workloads.get(key, WorkloadState())

    def seen(self, kind: Kind, namespace: str, name: str) -> Any:
        """Return an object that is no Workload as it was seen last; None if it is not there."""
        state = self.objects.get(stream_of(kind, namespace, name))
        return state.observed if state is not None else None

    def enter(self, namespace: str, queue: str, key: str) -> None:
        """Note that a Workload is in a LocalQueue, which need not be there."""
        self._of.setdefault(namespace, {}).setdefault(queue, {})[key] = None

    def leave(self, namespace: str, queue: str, key: str) -> None:
        """Note that a Workload is not in a LocalQueue any more."""
        of = self._of.get(namespace, {})
        _discard(of, queue, key)
        if not of:
            self._of.pop(namespace, None)

    def in_queue(self, namespace: str, queue: str) -> list[str]:
        """Return the Workloads of a LocalQueue, by namespace and name."""
        return sorted(self._of.get(namespace, {}).get(queue, ()))

    def in_namespace(self, namespace: str) -> list[str]:
        """Return the Workloads of a namespace, by namespace and name."""
        return sorted(key for keys in self._of.get(namespace, {}).values() for key in keys)

    def tree(self, cluster_queue: str) -> str:
        """Return the name of the Cohort tree that a ClusterQueue is in."""
        node = self.engine.snapshot.queues.get(cluster_queue)
        return node.root().name if node is not None else cluster_queue

    def enqueue(self, streams: Iterable[str]) -> None:
        """Let streams be decided about."""
        self._dirty.update(dict.fromkeys(streams))

    def all_dirty(self) -> None:
        """Let everything be decided about."""
        self._dirty.update(dict.fromkeys(f"admission/workload/{key}" for key in self.workloads))
        self._dirty.update(dict.fromkeys(self.objects))
        self._dirty[ROOM] = self._dirty[DEVICES] = self._dirty[CYCLE] = None

    def _queue_of(self, key: str) -> str:
        """Return the ClusterQueue that a Workload waits in or has quota of."""
        info: Info | None = self.engine.snapshot.workloads.get(key)
        if info is not None:
            return info.cluster_queue
        state = self.workloads.get(key)
        if state is None or state.observed is None:
            return ""
        local = self.engine.queues.local.get(f"{state.observed.namespace}/{state.observed.queue}")
        return local.cluster_queue if local is not None else ""

    def put(self, recorded: Recorded, state: WorkloadState) -> None:
        """Tell the engine of a Workload as it was seen. One that waits, and counts as it did, changes nothing of what
        was said: it may have been said in turns, and be told by its conditions in turns.
        """
        if state.observed is None:
            return
        found = self.counted(state)
        pending = self.engine.queues.of(found)
        known = pending.find(found.key) if pending is not None else None
        same = known is not None and known.workload == found
        self.devices.note(found)
        self.changed(recorded, lambda now: self.engine.put_workload(found, now), said_otherwise=not same)

    def counted(self, state: WorkloadState) -> Workload:
        """Return a Workload as it counts, with what its namespace, its RuntimeClasses and its devices make of what it
        asks for."""
        said, by = self.pod_defaults(state.observed.namespace), self.engine.settings
        return facts.workload(state.observed, said, waits=state.held or state.paused, by=by, known=self.devices.known)

    def recount(self, recorded: Recorded, keys: Iterable[str]) -> None:
        """Count anew what Workloads ask for that have no quota and wait for some: those that an object of devices
        concerns."""
        for key in list(keys):
            state = self.workloads.get(key)
            if state is None or state.observed is None or state.reservation is not None:
                continue
            if key not in self.engine.snapshot.workloads and self._counts_otherwise(key, self.counted(state)):
                self.put(recorded, state)
                self.enqueue([f"admission/workload/{key}"])

    def _counts_otherwise(self, key: str, found: Workload) -> bool:
        if found.refusal or key in self.devices.refused:
            return self.devices.refused.get(key, "") != found.refusal
        pending = self.engine.queues.of(found)
        info = pending.find(key) if pending is not None else None
        return info is None or info.workload.pod_sets != found.pod_sets

    def gives_defaults(self, stream: str, namespace: str, *, gone: bool) -> None:
        """Note that a LimitRange of a namespace, or a RuntimeClass (of none), came, changed or went."""
        if gone:
            _discard(self._giving, namespace, stream)
        else:
            self._giving.setdefault(namespace, {})[stream] = None
        if namespace:
            self._defaults.pop(namespace, None)
        else:
            self._defaults.clear()

    def pod_defaults(self, namespace: str) -> PodDefaults:
        """Return what pods of a namespace get that they do not say."""
        place = namespace if namespace in self._giving else ""  # one without LimitRanges is like all others
        found = self._defaults.get(place)
        if found is None:
            ranges, classes = (
                [self.objects[stream].observed for stream in sorted(self._giving.get(one, ()))] for one in (place, "")
            )
            limits = [one.spec for one in ranges] if place else []
            found = self._defaults[place] = facts.pod_defaults(limits, {one.name: one.spec for one in classes})
        return found

    def changed(self, recorded: Recorded, change: Callable[[float], None], *, said_otherwise: bool = True) -> None:
        """Change the engine by something that came from outside: whoever waits may be tried again. `said_otherwise`:
        what was said of them may not hold any more."""
        change(recorded.recorded_at.timestamp())
        self.moved = recorded.position
        if said_otherwise:
            self.cycles.clear()
        self._dirty[CYCLE] = None


def _discard(index: dict[str, dict[str, None]], key: str, entry: str) -> None:
    """Take an entry out of an index, and the key with the last of its entries."""
    entries = index.get(key, {})
    entries.pop(entry, None)
    if not entries:
        index.pop(key, None)
