"""Hosts the controllers that place pods on other clusters, and let what pods name follow them.

In: settings. Out: their parts of the log, what they watch of which cluster, and their policy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from controlplane.controllers.candidates.nodes import controller as virtual
from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.decide import NodePolicy
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, SOURCE_LABEL, TARGET_LABEL
from controlplane.controllers.candidates.references import controller as references
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.source import controller as source
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import Mode, PlacementPolicy, SourcePolicy, Target
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES, NODES, POD_GROUPS
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controllers that are on."""
    if "candidates" not in settings.run.controllers:
        return ()
    policy, selector = policy_of(settings), settings.candidates.namespace_selector
    sources = SourceController(policy, settings.leader.identity, targets_of(settings), labelled=bool(selector))
    home = [
        WatchSpec(MULTIKUEUE_CLUSTERS),  # they are how other clusters are got to
        WatchSpec(PODS, field_selector=f"spec.schedulerName={policy.scheduler_name}"),
        WatchSpec(CANDIDATE_TARGETS),
        WatchSpec(POD_GROUPS),
    ]
    if selector:
        home.append(WatchSpec(NAMESPACES, selector))
    found = [
        HostedController(
            registration=Registration(
                "candidates", sources, source.OWNS, source.HEARS | {"refused"}, identities="candidates"
            ),
            home=home,
            workers=[candidates_in("", policy.cluster)] if "*" in policy.namespaces else (),
            knows=sources,
            follows=True,
            resting_on=sources.resting_on,
            noun="pod",
        )
    ]
    if settings.candidates.virtual_nodes.on:
        nodes = VirtualNodes(sources, node_policy_of(settings))
        registration = Registration("virtualnodes", nodes, virtual.OWNS, virtual.HEARS, identities="virtualnodes")
        watch = WatchSpec(NODES, TARGET_LABEL)
        found.append(HostedController(registration=registration, home=[watch], knows=nodes, follows=True))
    if settings.candidates.follow == "yes":
        copies = ReferenceController(sources)
        registration = Registration("copies", copies, references.OWNS, references.HEARS, identities="copies")
        found.append(HostedController(registration=registration, knows=copies, follows=True))
    return found


def policy_of(settings: Settings) -> SourcePolicy:
    """Return what the source side of candidates decides by."""
    chosen = settings.candidates
    mode: Mode = "BestOf" if chosen.placement == "best-of" else "FirstReady"
    return SourcePolicy(
        cluster=chosen.cluster,
        scheduler_name=chosen.scheduler_name,
        namespaces=frozenset(chosen.namespaces),
        placement=PlacementPolicy(
            mode=mode, min_candidates=chosen.min_candidates, max_wait=chosen.max_wait, max_skew=chosen.max_skew
        ),
        lease=chosen.lease,
        room_lease=chosen.room_lease,
        scale_up_wait=chosen.scale_up_wait,
        skew=chosen.clock_skew,
        answer_timeout=chosen.answer_timeout,
        lost_after=chosen.lost_after,
        execution_policy=chosen.execution_policy,
        virtual_nodes=chosen.virtual_nodes.on,
        mirror_pod_ips=chosen.pod_ips == "show",
        gang_wait=chosen.gang_wait,
        gang_timeout=chosen.gang_timeout,
    )


def node_policy_of(settings: Settings) -> NodePolicy:
    """Return where virtual Nodes say that their kubelet is: nowhere, if none is served."""
    chosen = settings.candidates.virtual_nodes
    address = chosen.node_address if chosen.certificate else ""
    return NodePolicy(address=address, port=chosen.port, version=metadata.version("controlplane"))


def targets_of(settings: Settings) -> list[Target]:
    """Return the clusters that every allowed namespace may use; `NAME:TIER` in the settings."""
    named = (target.partition(":") for target in settings.candidates.targets)
    return [Target(name=name, tier=int(tier or 0)) for name, _, tier in named]


def candidates_in(namespace: str, source: str) -> WatchSpec:
    """Return the watch of a source's own Candidates in a namespace of a target; "": in all of them."""
    return WatchSpec(CANDIDATES, f"{SOURCE_LABEL}={source}", namespace)
