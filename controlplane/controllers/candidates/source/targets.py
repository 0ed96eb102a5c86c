"""What the source side sees around its pods: which clusters a namespace may use, and which namespaces may send.

In: CandidateTargets, Namespaces and PodGroups of the source cluster. Out: their events, on streams
`candidatetarget/NS/NAME`, `sourcenamespace/NAME` and `sourcegroup/NS/NAME`. A CandidateTarget names the
MultiKueueCluster that it lets its namespace use, and the tier of it; a PodGroup says how many of its pods start
together."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates import objects
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS
from controlplane.controllers.candidates.source.gang_events import GROUP, SourceGroupGone, SourceGroupObserved
from controlplane.controllers.candidates.source.observations import Built, SourceObjectGone, SourceObservation
from controlplane.kube import fields
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import NAMESPACES, POD_GROUPS, Json, Kind, meta
from controlplane.log.event import Event

TARGET, NAMESPACE = "candidatetarget", "sourcenamespace"
HIGHEST_TIER = 100


class CandidateTargetObserved(SourceObservation):
    """A CandidateTarget: pods of its namespace may go to `cluster`. `tier` 0 is preferred to 1."""

    cluster: str
    tier: int = 0


class CandidateTargetGone(SourceObjectGone):
    """A CandidateTarget is not there any more."""


class SourceNamespaceObserved(SourceObservation):
    """A namespace that carries the label by which namespaces are allowed to send."""


class SourceNamespaceGone(SourceObjectGone):
    """A namespace is gone, or does not carry the label any more."""


SURROUNDINGS: tuple[type[Event], ...] = (
    CandidateTargetObserved,
    CandidateTargetGone,
    SourceNamespaceObserved,
    SourceNamespaceGone,
)


def seen(kind: Kind, obj: Json) -> Built | None:
    """Return stream, event and bodies of an object; `Misfit` if it does not fit."""
    if kind == CANDIDATE_TARGETS:
        spec = fields.section(obj, "spec")
        tier, cluster = fields.number(spec, "tier", "spec"), fields.text(spec, "cluster", "spec")
        if not cluster:
            raise Misfit("spec.cluster", None, "the name of a MultiKueueCluster")
        if not 0 <= tier <= HIGHEST_TIER:
            raise Misfit("spec.tier", tier, f"a number from 0 to {HIGHEST_TIER}")
        event = CandidateTargetObserved(**fields.identity(obj), cluster=cluster, tier=tier)
        return f"{TARGET}/{event.namespace}/{event.name}", event, ()
    if kind == NAMESPACES:
        found = SourceNamespaceObserved(**fields.identity(obj))
        return f"{NAMESPACE}/{found.name}", found, ()
    if kind == POD_GROUPS:
        group = _group(obj)
        return f"{GROUP}/{group.namespace}/{group.name}", group, ()
    return None


def _group(obj: Json) -> SourceGroupObserved:
    """Return the event of a PodGroup. What is wrong with it is kept, since its pods have to say so."""
    head, problem, least = fields.identity(obj), "", 1
    created = None
    try:
        created = objects.instant(meta(obj), "creationTimestamp", "metadata")
        found = fields.section(obj, "spec").get("minMember", 1)
        least = found if isinstance(found, int) and not isinstance(found, bool) else 0
        if least < 1:
            problem = (
                f"spec.minMember: {found!r} is not a whole number above 0; write how many pods have to start together"
            )
    except Misfit as error:
        problem = str(error)
    return SourceGroupObserved(**head, min_member=max(least, 1), created=created, problem=problem)


def gone(kind: Kind, obj: Json) -> Built | None:
    """Return stream, event and bodies of an object that is not there any more."""
    metadata = meta(obj)
    last: dict[str, Any] = {
        "namespace": str(metadata.get("namespace", "")),
        "name": str(metadata["name"]),
        "uid": str(metadata.get("uid", "")),
    }
    if kind == CANDIDATE_TARGETS:
        return f"{TARGET}/{last['namespace']}/{last['name']}", CandidateTargetGone(**last), ()
    if kind == NAMESPACES:
        return f"{NAMESPACE}/{last['name']}", SourceNamespaceGone(**last), ()
    if kind == POD_GROUPS:
        return f"{GROUP}/{last['namespace']}/{last['name']}", SourceGroupGone(**last), ()
    return None
