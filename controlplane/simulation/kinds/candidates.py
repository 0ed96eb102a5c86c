"""The kinds of candidate pods, as a simulated API server serves them: their definitions are in `deploy/crds`.

Added to a cluster's kinds where candidates are sent from it or to it; a cluster without them answers as one on which
nobody installed them."""

from __future__ import annotations

from controlplane.kube.kinds import Kind
from controlplane.simulation.kinds.base import AGE, Column, ServedKind

_GROUP, _VERSION = "candidates.controlplane.dev", "v1alpha1"
_CONDITIONS = {"status.conditions": ("type",)}

CANDIDATE_KINDS: tuple[ServedKind, ...] = (
    ServedKind(
        Kind(_GROUP, _VERSION, "Candidate", "candidates"),
        short_names=("cand",),
        columns=(
            Column("Source", ".spec.source.cluster"),
            Column("Phase", ".status.phase"),
            Column("Node", ".status.reservation.node"),
            Column("Reason", ".status.reason"),
            AGE,
        ),
        list_map_keys=_CONDITIONS,
    ),
    ServedKind(
        Kind(_GROUP, _VERSION, "CandidateSource", "candidatesources"),
        status_subresource=False,
        short_names=("candsrc",),
        columns=(Column("Cluster", ".spec.cluster"), Column("User", ".spec.user"), AGE),
    ),
    ServedKind(
        Kind(_GROUP, _VERSION, "CandidateTarget", "candidatetargets"),
        status_subresource=False,
        short_names=("candtgt",),
        columns=(Column("Cluster", ".spec.cluster"), Column("Tier", ".spec.tier", "integer"), AGE),
    ),
)
