"""What is known of one worker cluster, as the log says it: its nodes, storage classes, placeholders, mode, and the
objects that runs name.

In: the events of `worker/CLUSTER/…` and of its connection. Out: `CandidateClusterFacts`, and what of it is not known. A
kind that we may not see there, or that is not listed in time, is not known, and says nothing against the cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.coscheduling.feasibility import events
from controlplane.controllers.coscheduling.feasibility.nodes import CandidateClusterFacts, shown_name
from controlplane.controllers.coscheduling.flags import FLAGS_NAME, Flags, effective
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS, NODES, PODS, PipelineRun
from controlplane.controllers.coscheduling.placement.gates import NodeCapacity
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.kube.kinds import STORAGE_CLASSES, Json, Kind, is_path_part
from controlplane.kube.pod_requests import amounts
from controlplane.kube.quantities import NANO
from controlplane.kube.tolerations import Taint
from controlplane.kube.well_known import PODS_RESOURCE
from controlplane.log.event import Recorded
from controlplane.runtime.observations import is_end_of_another

T = TypeVar("T")
# An object that is there is believed for this long; one that is not is looked for again after a while, ever more
# rarely.
_PLACEHOLDERS = (events.WorkerPlaceholderObserved, events.WorkerPlaceholderGone)  # known by UID
_BELIEVED = timedelta(minutes=10)
_FIRST_PAUSE, _LAST_PAUSE = timedelta(seconds=10), timedelta(minutes=5)


class Key(msgspec.Struct, frozen=True):
    """An object that a run names, on whatever worker."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{shown_name(self.name)}"


class Look(msgspec.Struct, frozen=True):
    """What a look at an object showed. `misses` counts looks in a row that did not find it; `position` is that of its
    event, `since` that of the first one in a row that showed the same.
    """

    outcome: events.Outcome
    object: Json
    message: str
    at: datetime
    position: int
    since: int
    misses: int = 0

    @property
    def due(self) -> datetime:
        """When it is to be looked for again, if anybody still needs it."""
        if self.outcome == "Found":
            return self.at + _BELIEVED
        return self.at + min(_FIRST_PAUSE * (1 << min(self.misses - 1, 10)), _LAST_PAUSE)


NO_NAME = Look("Missing", {}, "it is no name", datetime(1970, 1, 1, tzinfo=UTC), 0, 0, 1)
"""What is known of an object whose name none can have: nobody looks for it."""


class WorkerFacts(msgspec.Struct, frozen=True):
    """The facts of a worker, and what of them is not known, in words; `pending`: what is still on its way."""

    facts: CandidateClusterFacts
    unknown: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


class _View:
    """What a worker shows, noting what it does not: `unknown` with why, `pending` what is still on its way."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.unknown: list[str] = []
        self.pending: list[str] = []

    def shows(self, kind: Kind, what: str) -> bool:
        """Whether a kind is in view there; `what` is how sentences call it."""
        if self._connection.in_view(kind.name):
            return True
        why = self._connection.off.get(kind.name)
        self.unknown.append(f"{what} ({why or 'not listed yet'})")
        if why is None:
            self.pending.append(what)
        return False


class WorkerCapacity:
    """One worker. `version` goes up with whatever may change a judgement, looks aside: those concern who needs them.
    `positions` tell since which position in the log what is known of it is as it is (`nodes`, `classes`,
    `placeholders`, `flags`, `view`).
    """

    GIVEN = {"_sorted": type(None), "_memo": dict}

    def __init__(self, name: str) -> None:
        self.connection = Connection(name=name)
        self.version = 0
        self.positions: dict[str, int] = {}
        self.looks: dict[Key, Look] = {}
        self._nodes: dict[str, NodeCapacity] = {}
        self._sorted: tuple[NodeCapacity, ...] | None = None
        self._memo: dict[Hashable, tuple[CoschedulingReason, str] | None] = {}
        self._classes: dict[str, tuple[bool, bool]] = {}  # by name: bound late, the default
        self._placeholders: dict[str, tuple[str, str, str]] = {}  # by UID: namespace, run, node
        self._uids: dict[str, str] = {}  # of what its stream names, by stream
        self._flags: Flags | None = Flags()
        self._flags_problem = ""

    def connected(self, connection: Connection, position: int) -> None:
        """Take a change of the connection. What was read in another incarnation of the cluster says nothing of this
        one.
        """
        before, self.connection = self.connection, connection
        self._note("view", _view(before), _view(connection), position)
        if before.incarnation and (before.incarnation, before.restores) != (
            connection.incarnation,
            connection.restores,
        ):
            self.looks = {}
        self.version += 1

    def fold(self, recorded: Recorded) -> Key | None:
        """Take one more event of `worker/CLUSTER/…`; return the object that was looked at, if it was a look."""
        event: Any = recorded.event
        if isinstance(event, events.WorkerObjectRead):
            return self._looked(event, recorded)
        self.version += 1
        self._sorted, self._memo = None, {}
        if not isinstance(event, _PLACEHOLDERS) and is_end_of_another(self._uids, recorded.stream, event):
            return None
        match event:
            case events.WorkerNodeObserved():
                self._keep("nodes", self._nodes, event.name, _capacity(event), recorded.position)
            case events.WorkerNodeGone():
                self._keep("nodes", self._nodes, event.name, None, recorded.position)
            case events.WorkerClassObserved():
                self._keep("classes", self._classes, event.name, (event.late, event.default), recorded.position)
            case events.WorkerClassGone():
                self._keep("classes", self._classes, event.name, None, recorded.position)
            case events.WorkerPlaceholderObserved():
                placed = (event.namespace, event.run, event.node)
                self._keep("placeholders", self._placeholders, event.uid, placed, recorded.position)
            case events.WorkerPlaceholderGone():
                self._keep("placeholders", self._placeholders, event.uid, None, recorded.position)
            case events.WorkerFlagsObserved():
                self._flagged(event.data, recorded.position)
            case events.WorkerFlagsGone():
                self._flagged({}, recorded.position)
        return None

    def _keep(self, facet: str, among: dict[str, T], name: str, value: T | None, position: int) -> None:
        """Keep what is now known of something, None if it is gone."""
        self._note(facet, among.get(name), value, position)
        if value is None:
            among.pop(name, None)
        else:
            among[name] = value

    def _note(self, facet: str, before: object, after: object, position: int) -> None:
        if before != after:
            self.positions[facet] = position

    def _looked(self, event: events.WorkerObjectRead, recorded: Recorded) -> Key:
        key = Key(event.api_version, event.kind, event.namespace, event.name)
        before = self.looks.get(key)
        misses = 0 if event.outcome == "Found" else (before.misses if before else 0) + 1
        at, shown = recorded.position, (event.outcome, event.object, event.message)
        same = before is not None and (before.outcome, before.object, before.message) == shown
        since = before.since if before is not None and same else at
        self.looks[key] = Look(*shown, recorded.recorded_at, at, since, misses)
        return key

    def _flagged(self, data: Mapping[str, Any], position: int) -> None:
        before = self._flags, self._flags_problem
        found = effective(self._flags, data, f"ConfigMap {FLAGS_NAME} of the cluster")
        self._flags_problem = str(found.problem) if found.problem else ""
        if found.problem is None:
            self._flags = found.flags
        self._note("flags", before, (self._flags, self._flags_problem), position)

    def known(
        self, run: PipelineRun, claims: Iterable[Key], volumes: Iterable[BoundVolume], *, grows: bool
    ) -> WorkerFacts:
        """Return what is known of the worker for a run that names some claims, which have these volumes there."""
        view = _View(self.connection)
        nodes = self._capacities(run) if view.shows(NODES, "its nodes") else None
        classes = view.shows(STORAGE_CLASSES, "its storage classes")
        flags = self._flags if view.shows(CONFIG_MAPS, "its mode") else None
        view.shows(PODS, "its placeholders")
        if flags is not None and self._flags_problem:
            view.unknown.append(f"its mode, which stays as it was ({self._flags_problem})")
        facts = CandidateClusterFacts(
            name=self.connection.name,
            mode=flags.mode if flags is not None else None,
            claims=self._claims(claims, view.unknown),
            storage_classes={name: late for name, (late, _) in self._classes.items()} if classes else None,
            default_class=min((name for name, (_, default) in self._classes.items() if default), default=""),
            volumes={volume.claim: volume for volume in volumes},
            nodes=nodes,
            grows=grows,
            memo=self._memo,
        )
        return WorkerFacts(facts, tuple(view.unknown), tuple(view.pending))

    def _claims(self, claims: Iterable[Key], unknown: list[str]) -> frozenset[tuple[str, str]]:
        """Return the claims that are there as far as is known; what is not known is added to `unknown`."""
        there = set()
        for key in claims:
            if not is_path_part(key.name):
                continue
            look = self.looks.get(key)
            if look is None or look.outcome != "Missing":
                there.add((key.namespace, key.name))
            if look is None or look.outcome == "Unknown":
                unknown.append(f"{key} ({look.message if look else 'not read yet'})")
        return frozenset(there)

    def _capacities(self, run: PipelineRun) -> tuple[NodeCapacity, ...]:
        # Tekton's placeholders avoid those of their own namespace, and no others. One of an attempt before goes before
        # the next begins.
        taken = {
            node for namespace, of, node in self._placeholders.values() if namespace == run.namespace and of != run.name
        }
        if self._sorted is None:
            self._sorted = tuple(node for _, node in sorted(self._nodes.items()))
        if not taken:
            return self._sorted
        return tuple(
            msgspec.structs.replace(node, placeholder=True) if node.name in taken else node for node in self._sorted
        )


def _view(connection: Connection) -> tuple[object, ...]:
    """Return what a judgement may rest on of a connection."""
    shown = (connection.synced, connection.off) if connection.connected else None
    return connection.connected, connection.phase == "Removed", connection.incarnation, connection.restores, shown


def _capacity(seen: events.WorkerNodeObserved) -> NodeCapacity:
    """Return a node with all that it can be given: what is taken now is quota's business, and may be free when the run
    starts.
    """
    free = amounts(seen.allocatable)
    return NodeCapacity(
        name=seen.name,
        labels=seen.labels,
        taints=tuple(Taint(one.key, one.value, one.effect) for one in seen.taints),
        cordoned=seen.cordoned,
        free_pods=free.pop(PODS_RESOURCE, 0) // NANO,
        free=free,
    )
