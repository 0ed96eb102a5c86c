"""The quota of one ClusterQueue: what it has, what is taken, who waits, and who fits next.

In: ClusterQueue specs, usages that were reserved or released, Workloads that wait. Out: the next Workload to be tried,
an assignment of flavors or the reason why there is none. Pure bookkeeping in memory, rebuilt from the store at every
start. Cohorts and borrowing are not simulated: a ClusterQueue has its nominal quota.

WaitingWorkloads Workloads of one shape (the same pod sets asking for the same) fit or fail together, so a pass costs what it
admits plus the number of shapes, not the number of waiting Workloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import in_thousandths
from controlplane.kube.quantities import milli, spell
from controlplane.simulation.kueue.common import MULTIKUEUE, PROVISIONING_REQUEST

WorkloadKey = tuple[str, str]
Order = tuple[int, str, int]
Usage = dict[tuple[str, str], int]


class PodSetShape(NamedTuple):
    """What a pod set asks for: its name, number of pods, and each resource of one pod in thousandths."""

    name: str
    pods: int
    requests: tuple[tuple[str, int], ...]


Shape = tuple[PodSetShape, ...]


def shape_of(workload: Mapping[str, Any]) -> Shape:
    """Return what a Workload asks for."""
    return tuple(
        PodSetShape(
            pod_set["name"],
            int(pod_set.get("count", 1)),
            tuple(sorted(in_thousandths(pod_set["template"].get("spec") or {}).items())),
        )
        for pod_set in workload["spec"]["podSets"]
    )


def usage_of(admission: Mapping[str, Any]) -> Usage:
    """Return what an admission takes, by (flavor, resource), in thousandths."""
    usage: Usage = {}
    for assignment in admission.get("podSetAssignments") or ():
        flavors = assignment.get("flavors") or {}
        for resource, amount in (assignment.get("resourceUsage") or {}).items():
            if resource in flavors:
                place = (flavors[resource], resource)
                usage[place] = usage.get(place, 0) + milli(amount)
    return usage


class WaitingWorkloads:
    """The Workloads that wait in one ClusterQueue, best first: highest priority, then the longest in the queue."""

    def __init__(self) -> None:
        self._entries: dict[WorkloadKey, tuple[Order, Shape]] = {}
        self._heaps: dict[Shape, list[tuple[Order, WorkloadKey]]] = {}
        self._fresh: dict[Shape, dict[WorkloadKey, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def keys(self) -> list[WorkloadKey]:
        """Return who waits, in no particular order."""
        return list(self._entries)

    def put(self, key: WorkloadKey, order: Order, shape: Shape) -> bool:
        """Let a Workload wait; True if it did not, or if its place has changed."""
        if self._entries.get(key) == (order, shape):
            return False
        self.discard(key)
        self._entries[key] = (order, shape)
        heapq.heappush(self._heaps.setdefault(shape, []), (order, key))
        self._fresh.setdefault(shape, {})[key] = None
        return True

    def discard(self, key: WorkloadKey) -> None:
        """Let a Workload wait no more."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._fresh.get(entry[1], {}).pop(key, None)

    def best(self, without: Collection[Shape]) -> tuple[WorkloadKey, Shape] | None:
        """Return the first in line among the shapes not in `without`."""
        found: tuple[Order, WorkloadKey, Shape] | None = None
        for shape in list(self._heaps):
            heap = self._heaps[shape]
            while heap and self._entries.get(heap[0][1]) != (heap[0][0], shape):
                heapq.heappop(heap)
            if not heap:
                del self._heaps[shape]
                self._fresh.pop(shape, None)
            elif shape not in without and (found is None or heap[0][0] < found[0]):
                found = (heap[0][0], heap[0][1], shape)
        return None if found is None else (found[1], found[2])

    def take_fresh(self, shape: Shape) -> list[WorkloadKey]:
        """Return, once, those of a shape that have not been told yet that they do not fit."""
        return list(self._fresh.pop(shape, {}))


@dataclass(slots=True)
class ClusterQueueState:
    """One ClusterQueue: its spec as read, its state, its usage and its line."""

    name: str
    groups: tuple[tuple[frozenset[str], tuple[tuple[str, Mapping[str, int]], ...]], ...] = ()
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stop_policy: str = "None"
    strict: bool = False
    preempts: bool = False
    active: bool = False
    reason: str = "Unknown"
    message: str = "Can't admit new workloads."
    usage: Usage = field(default_factory=dict)
    reserving: dict[WorkloadKey, Usage] = field(default_factory=dict)
    admitted: set[WorkloadKey] = field(default_factory=set)
    waiting: WaitingWorkloads = field(default_factory=WaitingWorkloads)

    def read(self, spec: Mapping[str, Any]) -> None:
        """Take over a ClusterQueue's spec."""
        self.groups = tuple(
            (
                frozenset(group.get("coveredResources") or ()),
                tuple((flavor["name"], _nominal_of(flavor)) for flavor in group.get("flavors") or ()),
            )
            for group in spec.get("resourceGroups") or ()
        )
        every = self.flavors()
        strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
        self.checks = {check["name"]: frozenset(check.get("onFlavors") or every) for check in strategy}
        self.stop_policy = spec.get("stopPolicy") or "None"
        self.preempts = (spec.get("preemption") or {}).get("withinClusterQueue") == "LowerPriority"
        self.strict = spec.get("queueingStrategy") == "StrictFIFO"

    def flavors(self) -> frozenset[str]:
        """Return the names of all flavors."""
        return frozenset(name for _, flavors in self.groups for name, _ in flavors)

    def judge(self, known_flavors: Collection[str], known_checks: Mapping[str, Json]) -> bool:
        """Decide whether the queue is active, and why not; return whether that changed. Texts as Kueue's."""
        before = (self.active, self.reason, self.message)
        problems: list[tuple[str, str]] = []
        if self.stop_policy != "None":
            problems.append(("Stopped", "is stopped"))
        if missing := sorted(self.flavors() - set(known_flavors)):
            problems.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        if absent := sorted(name for name in self.checks if name not in known_checks):
            problems.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(absent)}"))
        idle = sorted(name for name in self.checks if name in known_checks and not _check_active(known_checks[name]))
        if idle:
            problems.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(idle)}"))
        problems.extend(self._multikueue_problems(known_checks))
        self.active = not problems
        if problems:
            self.reason = problems[0][0]
            self.message = f"Can't admit new workloads: {', '.join(text for _, text in problems)}."
        else:
            self.reason, self.message = "Ready", "Can admit new workloads"
        return before != (self.active, self.reason, self.message)

    def _multikueue_problems(self, known: Mapping[str, Json]) -> Iterable[tuple[str, str]]:
        controllers = {name: known[name]["spec"].get("controllerName") for name in self.checks if name in known}
        ours = sorted(name for name, controller in controllers.items() if controller == MULTIKUEUE)
        if len(ours) > 1:
            text = f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {','.join(ours)}"
            yield "MultipleMultiKueueAdmissionChecks", text
        if partial := [name for name in ours if self.checks[name] < self.flavors()]:
            text = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(partial)}"
            yield "MultiKueueAdmissionCheckAppliedPerFlavor", text
        provisioning = sorted(name for name, controller in controllers.items() if controller == PROVISIONING_REQUEST)
        if ours and provisioning:
            text = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
            yield "MultiKueueWithProvisioningRequest", f"{text}{','.join(ours)}, {','.join(provisioning)}"

    def checks_for(self, admission: Mapping[str, Any] | None) -> list[str]:
        """Return the checks that apply to a Workload: with an admission those of its flavors, without one those of all
        flavors.
        """
        if admission is None:
            every = self.flavors()
            return sorted(name for name, flavors in self.checks.items() if flavors >= every)
        assigned = {
            flavor
            for entry in admission.get("podSetAssignments") or ()
            for flavor in (entry.get("flavors") or {}).values()
        }
        return sorted(name for name, flavors in self.checks.items() if flavors & assigned)

    def take(self, key: WorkloadKey, usage: Usage) -> None:
        """Count a Workload's usage, once; what it took before is given back first."""
        if self.reserving.get(key) != usage:
            self.release(key)
            self.reserving[key] = usage
            for place, amount in usage.items():
                self.usage[place] = self.usage.get(place, 0) + amount

    def release(self, key: WorkloadKey) -> bool:
        """Give back what a Workload takes; False if it took nothing."""
        usage = self.reserving.pop(key, None)
        self.admitted.discard(key)
        for place, amount in (usage or {}).items():
            self.usage[place] -= amount
        return usage is not None

    def assign(self, shape: Shape) -> list[Json] | str:
        """Return the podSetAssignments for a shape, or why it does not fit, in Kueue's words.

        For each pod set and resource group the first flavor is taken in which all its resources fit beside what is
        taken already.
        """
        assumed: Usage = {}
        assignments: list[Json] = []
        for pod_set in shape:
            requests = {name: amount * pod_set.pods for name, amount in pod_set.requests}
            chosen, problems = self._choose(requests, assumed)
            if len(chosen) < len(requests):
                return f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(problems)}"
            for resource, flavor_name in chosen.items():
                place = (flavor_name, resource)
                assumed[place] = assumed.get(place, 0) + requests[resource]
            usage = {resource: spell(resource, amount) for resource, amount in requests.items()}
            assignments.append({"name": pod_set.name, "flavors": chosen, "resourceUsage": usage, "count": pod_set.pods})
        return assignments

    def _choose(self, requests: Mapping[str, int], assumed: Usage) -> tuple[dict[str, str], list[str]]:
        """Return the flavor of each resource that fits, and why the others do not."""
        problems = [
            f"resource {resource} unavailable in ClusterQueue"
            for resource in requests
            if not any(resource in covered for covered, _ in self.groups)
        ]
        chosen: dict[str, str] = {}
        for covered, flavors in self.groups if not problems else ():
            wanted = {resource: requests[resource] for resource in requests if resource in covered}
            flavor = self._first_fit(wanted, flavors, assumed, problems) if wanted else None
            if flavor is not None:
                chosen |= dict.fromkeys(wanted, flavor)
        return chosen, problems

    def _first_fit(
        self,
        wanted: Mapping[str, int],
        flavors: Iterable[tuple[str, Mapping[str, int]]],
        assumed: Usage,
        problems: list[str],
    ) -> str | None:
        found: list[str] = []
        for name, quota in flavors:
            lacking = []
            for resource, amount in wanted.items():
                nominal, before = quota.get(resource, 0), assumed.get((name, resource), 0)
                more = before + amount - (nominal - self.usage.get((name, resource), 0))
                if before + amount > nominal:
                    lacking.append(
                        f"insufficient quota for {resource} in flavor {name}, previously considered podsets requests "
                        f"({spell(resource, before)}) + current podset request ({spell(resource, amount)}) > "
                        f"maximum capacity ({spell(resource, nominal)})"
                    )
                elif more > 0:
                    lacking.append(
                        f"insufficient unused quota for {resource} in flavor {name}, "
                        f"{spell(resource, more)} more needed"
                    )
            if not lacking:
                return name
            found += lacking
        problems += found
        return None

    def amounts(self, only: Collection[WorkloadKey] | None = None) -> list[Json]:
        """Return usage as `flavorsReservation` and `flavorsUsage` spell it; of all reserving Workloads, or of some."""
        usage = self.usage if only is None else _sum(self.reserving[key] for key in only)
        return [
            {
                "name": name,
                "resources": [
                    {"name": resource, "total": spell(resource, usage.get((name, resource), 0)), "borrowed": "0"}
                    for resource in sorted(quota)
                ],
            }
            for _, flavors in self.groups
            for name, quota in flavors
        ]


def _sum(usages: Iterable[Usage]) -> Usage:
    total: Usage = {}
    for usage in usages:
        for place, amount in usage.items():
            total[place] = total.get(place, 0) + amount
    return total


def _check_active(check: Json) -> bool:
    return any(
        c["type"] == "Active" and c["status"] == "True" for c in (check.get("status") or {}).get("conditions") or ()
    )


def _nominal_of(flavor: Mapping[str, Any]) -> Mapping[str, int]:
    return {resource["name"]: milli(resource["nominalQuota"]) for resource in flavor.get("resources") or ()}
