"""The source side with its surroundings: which clusters each namespace may use, and which namespaces may send, as the log says it.

In: the events of source pods and of what is around them. Out: the loop's `Capability` of `controlplane.candidates.source`, whose questions
about targets and namespaces are answered from CandidateTargets, labelled Namespaces and the settings. A pod is decided about only when all
of these are in view: that a target is unknown would otherwise be said of every pod at the first start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from controlplane.candidates import surroundings
from controlplane.candidates.events import CandidateGone, CandidateSeen, Gone, Seen, SourceDeleted, SourcePodObserved
from controlplane.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, Misfit
from controlplane.candidates.observe import refused
from controlplane.candidates.policy import Policy, Target
from controlplane.candidates.source import SourceCandidates
from controlplane.candidates.state import STREAM, SourceState
from controlplane.candidates.surroundings import (
    NAMESPACE,
    SURROUNDINGS,
    TARGET,
    CandidateTargetGone,
    CandidateTargetObserved,
    SourceNamespaceGone,
    SourceNamespaceObserved,
)
from controlplane.candidates.turn import Context
from controlplane.capability import Sighting
from controlplane.connectivity.events import MANAGEMENT
from controlplane.connectivity.newest import Newest, Shown
from controlplane.kube import NAMESPACES, meta
from controlplane.log.event import Body, Event, NewEvent, Recorded

OWNS = frozenset({STREAM, TARGET, NAMESPACE})
HEARS = frozenset({"cluster", "fleet", "service"})


class Placing(SourceCandidates):
    """See the module. `targets` are those that every allowed namespace has; `labelled`: namespaces may be allowed by a label."""

    types: Sequence[type[Event]] = (*SourceCandidates.types, *SURROUNDINGS)

    def __init__(
        self, policy: Policy, identity: str, targets: Sequence[Target] = (), *, labelled: bool = False
    ) -> None:
        super().__init__(policy, identity, self.targets)
        self._common, self._labelled = {target.name: target for target in targets}, labelled
        self._own: dict[str, dict[str, CandidateTargetObserved]] = {}
        self._namespaces: dict[str, SourceNamespaceObserved] = {}
        self.newest = Newest(_shown)

    def targets(self, namespace: str) -> list[Target]:
        """Return the clusters that pods of a namespace may go to: its own CandidateTargets say more than the settings."""
        own = {name: Target(name=name, tier=seen.tier) for name, seen in self._own.get(namespace, {}).items()}
        return sorted((self._common | own).values(), key=lambda target: target.name)

    def observe(self, sighting: Sighting, now: datetime) -> NewEvent | None:
        """Return the event of something seen on a cluster; None if it concerns nobody."""
        if sighting.cluster != MANAGEMENT or sighting.kind == PODS:
            return super().observe(sighting, now)
        place = surroundings.gone if sighting.gone else surroundings.seen
        bodies: tuple[Body, ...] = ()
        try:
            found = place(sighting.kind, sighting.object)
        except (Misfit, TypeError, AttributeError) as error:
            stream, event, bodies = refused(MANAGEMENT, sighting.kind, sighting.object, error)
        else:
            if found is None:
                return None
            stream, event = found
        version, uid = sighting.resource_version, str(meta(sighting.object).get("uid", ""))
        mark = int(version) if version.isdigit() else 0
        return NewEvent(
            stream=stream,
            event=msgspec.structs.replace(event, resource_version=version) if isinstance(event, Gone) else event,
            source=f"{MANAGEMENT}/{sighting.incarnation}/{sighting.kind.name}/{uid}" if mark and uid else "",
            mark=mark,
            cluster=MANAGEMENT,
            observed_at=now,
            bodies=bodies,
        )

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.newest.fold(recorded)
        super().fold(recorded)
        match recorded.event:
            case CandidateTargetObserved() as seen:
                self._own.setdefault(seen.namespace, {})[seen.name] = seen
            case CandidateTargetGone() as gone:
                self._own.get(gone.namespace, {}).pop(gone.name, None)
            case SourceNamespaceObserved() as found:
                self._namespaces[found.name] = found
            case SourceNamespaceGone() as left:
                self._namespaces.pop(left.name, None)
            case _:
                return
        self.touch_all()

    def context(self, stream: str, state: SourceState) -> Context:
        """Return what a decision on a source pod may look at."""
        context = super().context(stream, state)
        policy = self.policy
        if state.namespace in self._namespaces:
            policy = msgspec.structs.replace(policy, namespaces=policy.namespaces | {state.namespace})
        return msgspec.structs.replace(context, ready=context.ready and self._around_in_view(), policy=policy)

    def _around_in_view(self) -> bool:
        home = self.connections[MANAGEMENT]
        kinds = [CANDIDATE_TARGETS.name, *([NAMESPACES.name] if self._labelled else [])]
        return all(home.in_view(kind) or kind in home.off for kind in kinds)

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        if cluster != MANAGEMENT or kind == PODS.name:
            return super().known(cluster, kind)
        found: Iterable[Seen] = ()
        if kind == CANDIDATE_TARGETS.name:
            found = [seen for targets in self._own.values() for seen in targets.values()]
        elif kind == NAMESPACES.name:
            found = self._namespaces.values()
        return {seen.uid: (seen.namespace, seen.name, seen.resource_version) for seen in found}


_KINDS: tuple[tuple[tuple[type[Event], ...], str], ...] = (
    ((SourcePodObserved, SourceDeleted), PODS.name),
    ((CandidateSeen, CandidateGone), CANDIDATES.name),
    ((CandidateTargetObserved, CandidateTargetGone), CANDIDATE_TARGETS.name),
    ((SourceNamespaceObserved, SourceNamespaceGone), NAMESPACES.name),
)


def _shown(event: Event) -> Shown | None:
    if not isinstance(event, (Seen, Gone)):
        return None
    kind = next((name for types, name in _KINDS if isinstance(event, types)), "")
    # A namespace that only lost its label may get it back, and is no sign of a restored backup then.
    gone = isinstance(event, Gone) and not isinstance(event, SourceNamespaceGone)
    return Shown(kind, event.resource_version, event.uid if gone else "") if kind else None
