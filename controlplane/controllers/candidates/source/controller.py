"""The source side with its surroundings: which clusters each namespace may use, and which namespaces may send, as the
log says it.

In: the events of source pods and of what is around them. Out: the loop's `Capability` of
`controlplane.controllers.candidates.source.pods`, whose questions about targets and namespaces are answered from
CandidateTargets, labelled Namespaces and the settings. A pod is decided about only when all of these are in view: that
a target is unknown would otherwise be said of every pod at the first start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.controllers.candidates.nodes.events import VirtualNodeGone, VirtualNodeObserved, VirtualNodeRemoved
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, virtual_node
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import lost_log
from controlplane.controllers.candidates.source import targets as surroundings
from controlplane.controllers.candidates.source.decision_pass import PodContext
from controlplane.controllers.candidates.source.events import CandidateWriteFailed, StatusShown
from controlplane.controllers.candidates.source.gang_events import (
    GROUP,
    GangWaits,
    SourceGroupGone,
    SourceGroupObserved,
)
from controlplane.controllers.candidates.source.observations import (
    CandidateGone,
    CandidateSeen,
    SourceDeleted,
    SourceObjectGone,
    SourceObservation,
    SourcePodObserved,
    event_of,
)
from controlplane.controllers.candidates.source.observe import refused
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import SourcePolicy, Target
from controlplane.controllers.candidates.source.state import STREAM, SourceState
from controlplane.controllers.candidates.source.targets import (
    NAMESPACE,
    SURROUNDINGS,
    TARGET,
    CandidateTargetGone,
    CandidateTargetObserved,
    SourceNamespaceGone,
    SourceNamespaceObserved,
)
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.versions import ResourceVersionTracker, ShownVersion
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES, POD_GROUPS
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange
from controlplane.runtime.observations import forget, is_end_of_another

OWNS = frozenset({STREAM, TARGET, NAMESPACE, GROUP})
HEARS = frozenset({"cluster", "fleet", "service", "virtualnode"})


class SourceController(SourceCandidates):
    """See the module. `targets` are those that every allowed namespace has; `labelled`: namespaces may be allowed by a
    label.
    """

    types: Sequence[type[Event]] = (*SourceCandidates.types, *SURROUNDINGS)

    GIVEN = ("_common", "_labelled", "watch_changed")

    def __init__(
        self, policy: SourcePolicy, identity: str, targets: Sequence[Target] = (), *, labelled: bool = False
    ) -> None:
        super().__init__(policy, identity, self.targets)
        self._common, self._labelled = {target.name: target for target in targets}, labelled
        self._own: dict[str, dict[str, CandidateTargetObserved]] = {}
        self._namespaces: dict[str, SourceNamespaceObserved] = {}
        self.newest = ResourceVersionTracker(_shown)
        self.watch_changed = True
        self.nodes: dict[str, str] = {}
        self._node_uids: dict[str, str] = {}
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._clusters: set[str] = set()

    def targets(self, namespace: str) -> list[Target]:
        """Return the clusters that pods of a namespace may go to: its own CandidateTargets say more than the
        settings.
        """
        own: dict[str, Target] = {}
        for seen in self._own.get(namespace, {}).values():
            tier = min(seen.tier, own[seen.cluster].tier) if seen.cluster in own else seen.tier
            own[seen.cluster] = Target(name=seen.cluster, tier=tier)
        return sorted((self._common | own).values(), key=lambda target: target.name)

    @property
    def used(self) -> set[str]:
        """The targets that some namespace may use."""
        return {*self._common, *(seen.cluster for targets in self._own.values() for seen in targets.values())}

    def bound_to(self, node: str, cluster: str) -> int:
        """Return how many source pods are bound to the virtual Node of a target, or may be by what is on its way."""
        return sum(
            state.stays and (state.pod.node == node or (state.chosen is not None and state.chosen.cluster == cluster))
            for state in self.sources.values()
            if state.pod is not None
        )

    def may_send(self, namespace: str) -> bool | None:
        """Return whether the pods of a namespace may be sent; None while it is not known which have the label for
        it."""
        if self.policy.allows(namespace) or namespace in self._namespaces:
            return True
        home = self.connections.get(MANAGEMENT)
        return None if self._labelled and (home is None or not home.in_view(NAMESPACES.name)) else False

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on a cluster; None if it concerns nobody."""
        if change.cluster != MANAGEMENT or change.kind == PODS:
            return super().observe(change, now)
        kind, obj = change.kind, change.object
        return event_of(
            change,
            now,
            lambda: surroundings.gone(kind, obj) if change.gone else surroundings.seen(kind, change.whole()),
            lambda error: refused(MANAGEMENT, kind, obj, error),
        )

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.newest.fold(recorded)
        kind, _, name = recorded.stream.partition("/")
        if kind == "cluster":
            self._clusters.add(name)
            self.watch_changed |= bool(self.unread.targets())
        elif kind == "virtualnode":
            self._fold_node(name, recorded)
        before, unread = _places(self.sources.get(recorded.stream)), self.unread.targets()
        super().fold(recorded)
        self.watch_changed |= self.unread.targets() != unread
        self._count(before, _places(self.sources.get(recorded.stream)))
        namespace, names = str(getattr(recorded.event, "namespace", "")), set(self._namespaces)
        targets = self.targets(namespace)
        match recorded.event:
            case CandidateTargetObserved() as seen:
                self._own.setdefault(seen.namespace, {})[seen.name] = seen
            case CandidateTargetGone() as gone:
                forget(self._own.get(gone.namespace, {}), gone.name, gone)
            case SourceNamespaceObserved() as found:
                self._namespaces[found.name] = found
            case SourceNamespaceGone() as left:
                forget(self._namespaces, left.name, left)
            case _:
                return
        self.positions.around |= {f"namespace/{name}": recorded.position for name in names ^ self._namespaces.keys()}
        if self.targets(namespace) != targets:
            self.positions.around[f"targets/{namespace}"] = recorded.position
        self.watch_changed = True
        self.touch_all()

    def _fold_node(self, cluster: str, recorded: Recorded) -> None:
        """Note which virtual Nodes there are: pods may be bound to them."""
        before, event = self.nodes.get(cluster), recorded.event
        if is_end_of_another(self._node_uids, cluster, event):
            return
        leaving = isinstance(event, (VirtualNodeGone, VirtualNodeRemoved))
        if leaving or (isinstance(event, VirtualNodeObserved) and event.deleting):
            self.nodes.pop(cluster, None)
        elif isinstance(event, VirtualNodeObserved):
            self.nodes[cluster] = event.name
        elif isinstance(event, CandidateWriteFailed) and event.action == VirtualNodeRemoved.__name__:
            self.nodes[cluster] = virtual_node(cluster)
        if self.nodes.get(cluster) != before:
            self.positions.around[f"node/{cluster}"] = recorded.position
            self.touch_all()

    def _count(self, before: frozenset[tuple[str, str]], after: frozenset[tuple[str, str]]) -> None:
        """Keep count of the source pods that have a candidate in a namespace of a target."""
        for pair in after - before:
            self._pairs[pair] += 1
            self.watch_changed |= self._pairs[pair] == 1
        for pair in before - after:
            self._pairs[pair] -= 1
            if not self._pairs[pair]:
                del self._pairs[pair]
                self.watch_changed = True

    def watched(self) -> dict[str, set[str]]:
        """Return the namespaces whose Candidates are to be followed, by target: where some may come to be, or are
        still.

        A target's administrator lets a source into one namespace after the other, so that is how they are watched. With
        `*`, every namespace may send, and all of them are watched at once."""
        found: dict[str, set[str]] = {}
        for namespace in {*self.policy.namespaces, *self._namespaces} - {"*"}:
            for target in self.targets(namespace):
                found.setdefault(target.name, set()).add(namespace)
        for namespace in self.unread.targets():
            for name in self.connections.keys() - {MANAGEMENT}:
                found.setdefault(name, set()).add(namespace)
        for cluster, namespace in self._pairs:
            found.setdefault(cluster, set()).add(namespace)
        return found

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream. That nobody has the pod is not said while it is not known who can be
        reached.
        """
        decided = super().decide(stream, now)
        namespace, state = stream.split("/")[1], self.sources.get(stream)
        names = state.targets if state is not None else [target.name for target in self.targets(namespace)]
        if not any(self._untried(name, namespace) for name in names):
            return decided
        kept = [new for new in decided.events if not _says_nobody(new.event)]
        return decided if len(kept) == len(decided.events) else msgspec.structs.replace(decided, events=kept)

    def _untried(self, name: str, namespace: str) -> bool:
        """Whether it will soon be known of a target whether it can be reached, and is not yet: when a process
        starts.
        """
        connection = self.connections.get(name)
        if connection is None:
            home = self.connections.get(MANAGEMENT)
            return name in self._clusters or home is None or not home.in_view(MULTIKUEUE_CLUSTERS.name)
        label = CANDIDATES.name if "*" in self.policy.namespaces else watched_in(namespace)
        listed = label in connection.synced or label in connection.off
        return connection.phase == "Unknown" or (connection.connected and not listed)

    def context(self, stream: str, state: SourceState) -> PodContext:
        """Return what a decision on a source pod may look at."""
        context = super().context(stream, state)
        policy = self.policy
        if state.namespace in self._namespaces:
            policy = msgspec.structs.replace(policy, namespaces=policy.namespaces | {state.namespace})
        ready, nodes = context.ready and self.around_in_view(), self.nodes if policy.virtual_nodes else {}
        seen = context.connections if "*" in self.policy.namespaces else self._as_seen(state)
        return msgspec.structs.replace(
            context,
            ready=ready,
            policy=policy,
            connections=seen,
            nodes=nodes,
            untried_until=self._untried_until(state),
        )

    def _untried_until(self, state: SourceState) -> datetime | None:
        """Return until when it is waited for what targets show that were not looked at since the start; None: all were.

        The log may have been lost, or put back: a delegate that it does not know of shows when its target does."""
        names = {*state.targets, *(target.name for target in self.targets(state.namespace)), *_hinted(state)}
        if state.namespace in self.unread.targets():
            names |= self.connections.keys() - {MANAGEMENT}
        home, wait = self.connections.get(MANAGEMENT), self.policy.answer_timeout
        found = []
        for name in names:
            if self._untried(name, state.namespace):
                one = self.connections.get(name) or home
                since = (one and (one.untried_since or one.unlisted_since or one.since)) or (home and home.since)
                found += [since + wait] if since else []
        return max(found, default=None)

    def _as_seen(self, state: SourceState) -> Mapping[str, Connection]:
        """Return the connections as a pod's namespace sees them: Candidates are in view where those of the namespace
        are.
        """
        label = watched_in(state.namespace)
        seen = dict(self.connections)
        for name in {*state.targets, *(t.name for t in self.targets(state.namespace)), *_clusters(state)}:
            connection = self.connections.get(name)
            if connection is not None and label in connection.synced:
                seen[name] = msgspec.structs.replace(connection, synced=connection.synced | {CANDIDATES.name})
            elif connection is not None and label in connection.off:
                off = {**connection.off, CANDIDATES.name: connection.off[label]}
                seen[name] = msgspec.structs.replace(connection, off=off)
        return seen

    def around_in_view(self) -> bool:
        """Whether it is known which targets there are, and which namespaces may send."""
        home = self.connections[MANAGEMENT]
        kinds = [CANDIDATE_TARGETS.name, POD_GROUPS.name, *([NAMESPACES.name] if self._labelled else [])]
        return all(home.in_view(kind) or kind in home.off for kind in kinds)

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        if cluster != MANAGEMENT or kind == PODS.name:
            return super().known(cluster, kind)
        found: Iterable[SourceObservation] = ()
        unread: dict[str, tuple[str, str, str]] = {}
        if kind == CANDIDATE_TARGETS.name:
            found = [seen for targets in self._own.values() for seen in targets.values()]
            unread = self.unread.seen(cluster, kind)
        elif kind == NAMESPACES.name:
            found = self._namespaces.values()
        elif kind == POD_GROUPS.name:
            found = [group.seen for group in self.gangs.groups.values() if group.seen is not None]
        return unread | {seen.uid: (seen.namespace, seen.name, seen.resource_version) for seen in found}


def _says_nobody(event: Event) -> bool:
    nobody = isinstance(event, StatusShown) and event.reason == CandidateReason.UNSCHEDULABLE_EVERYWHERE
    return nobody or isinstance(event, GangWaits)


def watched_in(namespace: str) -> str:
    """Return the name under which the log has the Candidates of one namespace."""
    return f"{CANDIDATES.name}/{namespace}"


def _clusters(state: SourceState) -> set[str]:
    return {known.cluster for known in state.candidates.values()}


def _places(state: SourceState | None) -> frozenset[tuple[str, str]]:
    """Return the targets, each with the namespace, where a source pod has candidates."""
    if state is None:
        return frozenset()
    return frozenset((cluster, state.namespace) for cluster in _clusters(state) | _hinted(state))


def _hinted(state: SourceState) -> set[str]:
    """Return the target in which a pod says that it runs, if this log did not tell it."""
    return {cluster} if (cluster := lost_log.named(state)) else set()


_KINDS: tuple[tuple[tuple[type[Event], ...], str], ...] = (
    ((SourcePodObserved, SourceDeleted), PODS.name),
    ((CandidateSeen, CandidateGone), CANDIDATES.name),
    ((CandidateTargetObserved, CandidateTargetGone), CANDIDATE_TARGETS.name),
    ((SourceNamespaceObserved, SourceNamespaceGone), NAMESPACES.name),
    ((SourceGroupObserved, SourceGroupGone), POD_GROUPS.name),
)


def _shown(event: Event) -> ShownVersion | None:
    if not isinstance(event, (SourceObservation, SourceObjectGone)):
        return None
    kind = next((name for types, name in _KINDS if isinstance(event, types)), "")
    # A namespace that only lost its label may get it back, and is no sign of a restored backup then.
    gone = isinstance(event, SourceObjectGone) and not isinstance(event, SourceNamespaceGone)
    return ShownVersion(kind, event.resource_version, event.uid if gone else "") if kind else None
