"""Writes to copies: the decisions that bring a namespace of a target up to its source, and the request of each.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controlplane.controllers.candidates.objects import live_ref
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references.decide import (
    Copy,
    CopyRemoval,
    Following,
    copy_request,
    removal_request,
)
from controlplane.controllers.candidates.references.events import CopyDecided, CopyDropped
from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.kube.kinds import Request


def decisions_of(found: Following, cluster: str, source_uid: str) -> Iterable[CandidateWrite]:
    """Yield what is to be decided about the copies in a namespace of the target `cluster`; `source_uid`: what our
    cluster is known by."""
    for copy in found.copies:
        yield CopyDecided(
            cluster=cluster,
            kind=copy.kind,
            name=copy.name,
            version=copy.version,
            uid=copy.uid,
            resource_version=copy.resource_version,
            source_uid=source_uid,
            reason=CandidateReason.NAMED_BY_DELEGATE,
        )
    for removal in found.removals:
        yield CopyDropped(
            cluster=cluster,
            kind=removal.kind,
            name=removal.name,
            uid=removal.uid,
            resource_version=removal.resource_version,
            reason=CandidateReason.NOT_NAMED,
        )


def request_of(
    decision: CandidateWrite | None, namespace: str, bodies: Mapping[str, bytes], source: str
) -> Request | None:
    """Return the request that carries a decision out, for the cluster `source`; None if what is to be copied is not
    there any more. `bodies` has the source's object, read as it now is."""
    if isinstance(decision, CopyDecided):
        text = bodies.get(live_ref(decision.kind, namespace, decision.name))
        if text is None:
            return None
        copy = Copy(decision.kind, decision.name, decision.version, decision.uid, decision.resource_version)
        return copy_request(copy, namespace, msgspec.json.decode(text, type=dict), source, decision.source_uid)
    if not isinstance(decision, CopyDropped):
        return None
    there = CopyRemoval(decision.kind, decision.name, decision.uid, decision.resource_version)
    return removal_request(there, namespace, source)
