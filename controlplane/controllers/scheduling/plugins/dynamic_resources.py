"""DynamicResources: a pod runs where the devices that its ResourceClaims ask for can be had, and gets them before it is
bound (kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36).

In: the pod's claims, the tables of claims, classes and slices. Out: statuses, and what is to be written. A claim that
was allocated asks its nodes; for others devices are searched, node by node (`devices.allocator`). Reserve promises the
devices, PreBind writes the allocation and for whom it is reserved. What is not allocated here is refused with the
reason. Limits: an allocation that fits no node any more is not taken back (kube-scheduler's PostFilter does that), and
a DeviceClass's extended resource is none."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from controlplane.controllers.scheduling.devices.allocator import (
    LEFT_OUT,
    MOST_STEPS,
    AllocationError,
    InvalidPools,
    NotAllocated,
    Search,
)
from controlplane.controllers.scheduling.devices.pod_claims import claims_of
from controlplane.controllers.scheduling.devices.pools import SliceError
from controlplane.controllers.scheduling.devices.tables import DeviceTables
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    PluginWrites,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    Prefiltered,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    default_normalize,
)
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Status, failed, unresolvable
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Snapshot
from controlplane.controllers.scheduling.unsupported import unread
from controlplane.kube.devices.objects import DeviceID, ResourceClaim, binding_conditions, read_terms
from controlplane.kube.kinds import RESOURCE_CLAIMS, STRATEGIC_PATCH, Json, ObjectRef, Request
from controlplane.kube.pod_fields import PodMisfit
from controlplane.kube.selectors import NodeTerm

FINALIZER = "resource.kubernetes.io/delete-protection"
NOT_HERE = "resourceclaim not available on the node"
NOT_ALL = "cannot allocate all claims"
# Seconds until what was written has to show. A patch that changed nothing, since an earlier one of the same words was
# carried out late, shows nowhere: the pod is tried again then, and finds its claim as it is.
_PATIENCE = 60.0
_MOST_ALTERNATIVES = 8  # of one request (FirstAvailableDeviceRequestMaxSize)


@dataclass(slots=True)
class _Asked:
    """The claims of a pod, where those with an allocation can be used, and what the others get on each node.

    `taken` are the devices of others, `steps` how many steps a search may still take.
    """

    claims: list[ResourceClaim]
    usable: list[tuple[NodeTerm, ...]]
    open: list[ResourceClaim]
    taken: Set[DeviceID] = frozenset()
    steps: int = MOST_STEPS
    found: dict[str, list[Json]] = field(default_factory=dict)


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    PostBindPlugin,
):
    """Refuses nodes where a pod's claims cannot be had, and allocates them on the one that is chosen."""

    name = "DynamicResources"

    def __init__(self, args: None = None) -> None:
        super().__init__(args)
        self._cluster = ClusterTables()

    def begin(self, cluster: ClusterTables) -> None:
        """Take up the claims and devices of a cluster."""
        self._cluster = cluster

    @property
    def _tables(self) -> DeviceTables:
        return self._cluster.devices

    # ---------------------------------------------------------------- finding a node

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return why a claim of the pod is of no use yet: no node could change that, and none has to be added for
        it."""
        refusal = unread(pod, self._cluster.off) if pod.resource_claims else SUCCESS
        if not refusal.ok:
            return refusal
        found = claims_of(self._tables.claims, pod.namespace, pod.name, pod.uid, pod.resource_claims)
        return unresolvable(found) if isinstance(found, str) else SUCCESS

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Find the pod's claims and what they need; skip a pod without any."""
        asked = _asked(snapshot.cluster.devices, pod)
        if isinstance(asked, Status):
            return Prefiltered(asked)
        if not asked.claims:
            return Prefiltered(SKIP)
        state.data[self.name] = asked, snapshot.cluster.devices
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node, and keep what would be allocated there."""
        asked: _Asked
        asked, tables = state.data[self.name]
        here = all(any(term.matches(info.node.labels, info.node.name) for term in terms) for terms in asked.usable)
        if asked.open:
            found = _allocate(tables, asked, asked.open, info.node)
            if isinstance(found, Status):
                return found
            if here:
                asked.found[info.node.name] = found
        return SUCCESS if here else unresolvable(NOT_HERE)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Skip a pod without claims: it has no alternatives."""
        return SUCCESS if self.name in state.data else SKIP

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return how early the alternatives stand that the pod gets on a node."""
        asked: _Asked
        asked, _ = state.data[self.name]
        found = iter(asked.found.get(info.node.name, ()))
        if asked.open and info.node.name not in asked.found:
            return 0
        return sum(
            _rank(claim, claim.allocation if claim.allocation is not None else next(found)) for claim in asked.claims
        )

    def normalize(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return the scores in proportion to the highest one."""
        return default_normalize(scores)

    def allocations(self, state: CycleState) -> Json:
        """Return what a cycle's claims would get, by node and claim (`namespace/name`)."""
        if self.name not in state.data:
            return {}
        asked: _Asked = state.data[self.name][0]
        return {
            node: {claim.key: one for claim, one in zip(asked.open, found, strict=True)}
            for node, found in asked.found.items()
        }

    # ---------------------------------------------------------------- the chosen node

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Reserve the devices; what a process before decided to write stays reserved."""
        if not pod.resource_claims:
            return SUCCESS
        asked = _asked(self._tables, pod)
        if isinstance(asked, Status):
            return asked
        known: tuple[_Asked, DeviceTables] | None = state.data.get(self.name)
        decided = _decided(state.decided)
        missing = [claim for claim in asked.open if claim.uid not in decided]
        kept = known[0].found.get(node) if known is not None and not decided else None
        found = self._anew(asked, missing, node) if kept is None else kept
        if isinstance(found, Status):
            return found
        reserved = {claim.uid: decided[claim.uid] for claim in asked.open if claim.uid in decided}
        reserved |= {claim.uid: one for claim, one in zip(missing, found, strict=True)}
        self._tables.reserve(pod.identity, reserved)
        return SUCCESS

    def _anew(self, asked: _Asked, missing: list[ResourceClaim], node: str) -> list[Json] | Status:
        """Search again for a reservation of a process before this one."""
        found = self._cluster.nodes.get(node)
        if not missing or found is None:
            return [] if not missing else failed(f'node "{node}" is not there')
        return _allocate(self._tables, asked, missing, found)

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        """Give the reservation back. What was written stays: the pod goes on from there."""
        self._tables.forget(pod.identity)

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Return what gives the claims their devices, and the pod its claims."""
        if not pod.resource_claims:
            return PluginWrites()
        asked = _asked(self._tables, pod)
        if isinstance(asked, Status):
            return PluginWrites(failed(*asked.reasons))
        reserved = self._tables.reserved.get(pod.identity, {})
        requests: list[Request] = []
        for claim in asked.claims:
            if claim.allocation is None and claim.uid not in reserved:
                return PluginWrites(failed(f"claim {claim.key} was deallocated in the meantime"))
            if pod.uid not in claim.reserved:
                requests += _writes(claim, pod, reserved.get(claim.uid) if claim.allocation is None else None)
        return PluginWrites(requests=tuple(requests), timeout=_PATIENCE if requests else None)

    def post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        """Forget the reservation: it shows."""
        self._tables.forget(pod.identity)


# ---------------------------------------------------------------- its own


def _asked(tables: DeviceTables, pod: Pod) -> _Asked | Status:
    """Return what a pod's claims ask for, or why it has to wait."""
    claims = claims_of(tables.claims, pod.namespace, pod.name, pod.uid, pod.resource_claims)
    if isinstance(claims, str):
        return unresolvable(claims)
    asked = _Asked(claims, [], [])
    for claim in claims:
        if claim.allocation is None:
            problem = _open_problem(tables, pod, claim)
            if problem is not None:
                return problem
            asked.open.append(claim)
            continue
        if binding_conditions(claim.allocation):
            return unresolvable(f"resource claim {claim.key}: {LEFT_OUT}")
        selector = claim.allocation.get("nodeSelector")
        if selector is not None:
            try:
                terms = read_terms(selector, "nodeSelector")
            except PodMisfit as misfit:
                return failed(str(misfit))
            wrong = next((term.error for term in terms if term.error), "")
            if wrong:
                return failed(wrong)
            asked.usable.append(terms)
    if asked.open:
        asked.taken = tables.taken(but=pod.identity)
    return asked


def _open_problem(tables: DeviceTables, pod: Pod, claim: ResourceClaim) -> Status | None:
    if tables.in_flight(claim, pod.identity):
        return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
    for wanted in claim.requests:
        if not wanted.options:
            return unresolvable(f"resource claim {claim.key}, request {wanted.name}: unknown request type")
        for option in wanted.options:
            if not option.device_class:
                return failed(f"request {option.reference}: unsupported request type")
            if option.device_class not in tables.classes:
                said = f"request {option.reference}: device class {option.device_class} does not exist"
                return unresolvable(said)
    return None


def _allocate(tables: DeviceTables, asked: _Asked, claims: list[ResourceClaim], node: Node) -> list[Json] | Status:
    """Return what claims would get on a node, or why they get nothing."""
    try:
        pools = tables.slices.pools(node)
    except SliceError as error:
        return failed(str(error))
    search = Search(node, claims, pools, tables.classes, asked.taken, asked.steps)
    try:
        found = search.run()
    except (NotAllocated, InvalidPools) as problem:
        return unresolvable(str(problem))
    except AllocationError as error:
        return failed(str(error))
    finally:
        asked.steps -= search.steps
    if found is None:
        return unresolvable(NOT_ALL, LEFT_OUT) if search.left_out else unresolvable(NOT_ALL)
    return found


def _rank(claim: ResourceClaim, allocation: Json) -> int:
    """Return how early the alternatives stand that an allocation has."""
    given = {result.get("request") for result in allocation.get("devices", {}).get("results") or ()}
    return sum(
        _MOST_ALTERNATIVES - at
        for wanted in claim.requests
        if wanted.prioritized
        for at, option in enumerate(wanted.options)
        if option.reference in given
    )


def _writes(claim: ResourceClaim, pod: Pod, allocation: Json | None) -> list[Request]:
    """Return the patches that allocate a claim, if it is not, and reserve it for a pod."""
    ref = ObjectRef(RESOURCE_CLAIMS, claim.namespace, claim.name)
    found: list[Request] = []
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    status: Json = {"reservedFor": [user]}
    if allocation is not None:
        status["allocation"] = allocation
        if FINALIZER not in claim.finalizers:
            body: Json = {"metadata": {"finalizers": [FINALIZER]}}
            found.append(Request("patch", ref, body, content_type=STRATEGIC_PATCH, uid=claim.uid))
    # No resourceVersion: the finalizer has changed it. An allocation cannot be changed once it is there, and others who
    # use the claim stay, since the list is merged by UID.
    patch = Request("patch", ref, {"status": status}, subresource="status", content_type=STRATEGIC_PATCH, uid=claim.uid)
    return [*found, patch]


def _decided(requests: tuple[Request, ...]) -> dict[str, Json]:
    """Return the allocations that requests of ours speak of, by the UIDs of claims."""
    return {
        request.uid: request.body["status"]["allocation"]
        for request in requests
        if request.ref.kind == RESOURCE_CLAIMS and "allocation" in request.body.get("status", {})
    }
