"""What the source side sees around its pods: which clusters a namespace may use, and which namespaces may send.

In: CandidateTargets and Namespaces of the source cluster. Out: their events, on streams `candidatetarget/NS/NAME` and
`sourcenamespace/NAME`. A CandidateTarget names the MultiKueueCluster that it lets its namespace use, and the tier of it.
"""

from __future__ import annotations

from typing import Any

from controlplane.candidates import objects
from controlplane.candidates.objects import CANDIDATE_TARGETS, Misfit
from controlplane.candidates.seen import Gone, Seen
from controlplane.kube import NAMESPACES, Json, Kind, meta
from controlplane.log.event import Event

TARGET, NAMESPACE = "candidatetarget", "sourcenamespace"
HIGHEST_TIER = 100


class CandidateTargetObserved(Seen, frozen=True, kw_only=True):
    """A CandidateTarget: pods of its namespace may go to `cluster`. `tier` 0 is preferred to 1."""

    cluster: str
    tier: int = 0


class CandidateTargetGone(Gone, frozen=True, kw_only=True):
    """A CandidateTarget is not there any more."""


class SourceNamespaceObserved(Seen, frozen=True, kw_only=True):
    """A namespace that carries the label by which namespaces are allowed to send."""


class SourceNamespaceGone(Gone, frozen=True, kw_only=True):
    """A namespace is gone, or does not carry the label any more."""


SURROUNDINGS: tuple[type[Event], ...] = (
    CandidateTargetObserved,
    CandidateTargetGone,
    SourceNamespaceObserved,
    SourceNamespaceGone,
)


def seen(kind: Kind, obj: Json) -> tuple[str, Event] | None:
    """Return stream and event of an object; `Misfit` if it does not fit."""
    if kind == CANDIDATE_TARGETS:
        spec = objects.section(obj, "spec")
        tier, cluster = objects.number(spec, "tier", "spec"), objects.text(spec, "cluster", "spec")
        if not cluster:
            raise Misfit("spec.cluster", None, "the name of a MultiKueueCluster")
        if not 0 <= tier <= HIGHEST_TIER:
            raise Misfit("spec.tier", tier, f"a number from 0 to {HIGHEST_TIER}")
        event = CandidateTargetObserved(**objects.identity(obj), cluster=cluster, tier=tier)
        return f"{TARGET}/{event.namespace}/{event.name}", event
    if kind == NAMESPACES:
        found = SourceNamespaceObserved(**objects.identity(obj))
        return f"{NAMESPACE}/{found.name}", found
    return None


def gone(kind: Kind, obj: Json) -> tuple[str, Event] | None:
    """Return stream and event of an object that is not there any more."""
    metadata = meta(obj)
    last: dict[str, Any] = {
        "namespace": str(metadata.get("namespace", "")),
        "name": str(metadata["name"]),
        "uid": str(metadata.get("uid", "")),
    }
    if kind == CANDIDATE_TARGETS:
        return f"{TARGET}/{last['namespace']}/{last['name']}", CandidateTargetGone(**last)
    if kind == NAMESPACES:
        return f"{NAMESPACE}/{last['name']}", SourceNamespaceGone(**last)
    return None
