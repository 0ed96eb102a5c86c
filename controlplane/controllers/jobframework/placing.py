"""Tells which gated pods of a pod set may run, and in which domain: by rank where its pods tell that, else as they
come.

In: an assignment of domains, the pods, what the Workload says of ranks. Out: pods with domains. Pure. Never more pods
go into a domain than it is assigned for; pods that run already count for the domain that their node selectors name.
Source: kubernetes-sigs/kueue pkg/controller/tas/topology_ungater.go, ff69552e."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.topology_events import TopologyPodObserved
from controlplane.kube.topologies import TOPOLOGY_GATE, Domain, domains_of, levels_of

_UINT = re.compile(r"\d{1,18}", re.ASCII)
_INT = re.compile(r"[+-]?\d{1,10}", re.ASCII)


class OffsetUnfit(ValueError):  # noqa: N818 - it names what does not fit
    """What a pod says of where its ranks begin is no number."""


class _Unranked(ValueError):  # noqa: N818
    """The pods do not tell their ranks, or not as the assignment has them."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod, and the values of the domain that it is to run in; `rank` is None where pods do not tell it."""

    pod: TopologyPodObserved
    domain: tuple[str, ...]
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where the ranks of a pod set begin, and below what the indices of its pods are."""

    first: int
    end: int


def ranks_of(workload: events.JobWorkloadObserved) -> dict[str, Ranks]:
    """Return the ranks of each pod set. Of two that are placed together the smaller one comes first: it is the
    leader."""
    requests = {one.name: one.topology_request for one in workload.pod_sets}
    groups: dict[str, list[events.PodSetAdmission]] = {}
    for at, one in enumerate(workload.assignments):
        name = requests.get(one.name, {}).get("podSetGroupName")
        groups.setdefault(f"/{name}" if name is not None else str(at), []).append(one)
    found: dict[str, Ranks] = {}
    for same in groups.values():
        if len(same) == 1:
            found[same[0].name] = Ranks(0, same[0].count or 0)
            continue
        small, large = sorted(same[:2], key=lambda one: one.count or 0)
        found[small.name] = Ranks(0, small.count or 0)
        found[large.name] = Ranks(small.count or 0, (large.count or 0) + (small.count or 0))
    return found


def placed(
    assignment: events.PodSetAdmission, request: Mapping[str, object], pods: Iterable[TopologyPodObserved], ranks: Ranks
) -> list[PlacedPod]:
    """Return the gated pods of a pod set that may run now, with their domains; `OffsetUnfit` if one says no number."""
    found = sorted(pods, key=lambda one: (one.name, one.uid))
    levels, domains = levels_of(assignment.domains), domains_of(assignment.domains)
    ranks = _offset(found, ranks)
    try:
        return _by_rank(assignment, request, found, ranks, levels, domains)
    except _Unranked:
        return _as_they_come(found, levels, domains)


def is_gated(pod: TopologyPodObserved) -> bool:
    """Whether a pod waits for its domain."""
    return TOPOLOGY_GATE in pod.gates


def _offset(found: Sequence[TopologyPodObserved], ranks: Ranks) -> Ranks:
    said = found[0].offset if found else None
    if said is None:
        return ranks
    if not _INT.fullmatch(said):
        raise OffsetUnfit(f"{found[0].name}: {said!r} is no number")
    return Ranks(ranks.first + int(said), ranks.end + int(said))


def _domain(pod: TopologyPodObserved, levels: Sequence[str]) -> tuple[str, ...]:
    return tuple(pod.node_selector.get(level, "") for level in levels)


def _by_rank(
    assignment: events.PodSetAdmission,
    request: Mapping[str, object],
    found: Sequence[TopologyPodObserved],
    ranks: Ranks,
    levels: Sequence[str],
    domains: Sequence[Domain],
) -> list[PlacedPod]:
    """Return gated pods by their ranks; `_Unranked` if one has none, or runs elsewhere than its rank says."""
    by_rank = _told_ranks(assignment, request, found, ranks)
    places = [values for values, count in domains for _ in range(count)]
    made = []
    for rank, pod in sorted(by_rank.items()):
        if rank >= len(places):
            raise _Unranked(f"rank {rank} has no domain")
        if is_gated(pod):
            made.append(PlacedPod(pod, places[rank], rank))
        elif _domain(pod, levels) != places[rank]:
            raise _Unranked(f"{pod.name} runs elsewhere")
    return made


def _told_ranks(
    assignment: events.PodSetAdmission,
    request: Mapping[str, object],
    found: Sequence[TopologyPodObserved],
    ranks: Ranks,
) -> dict[int, TopologyPodObserved]:
    label, size = request.get("podIndexLabel"), assignment.count or 0
    if not isinstance(label, str):
        raise _Unranked("no label tells ranks")
    group_label, groups = _sub_groups(request)
    each = size // groups
    made: dict[int, TopologyPodObserved] = {}
    for pod in found:
        index = _number(pod, label, ranks.end)
        rank = index - ranks.first
        if group_label:
            if index >= each:
                raise _Unranked(f"{pod.name} has an index beyond its job")
            rank += _number(pod, group_label, groups) * each
        if not 0 <= rank < size or rank in made:
            raise _Unranked(f"{pod.name} has rank {rank}, which is another's or none")
        made[rank] = pod
    return made


def _sub_groups(request: Mapping[str, object]) -> tuple[str, int]:
    """Return which label tells a pod's group within its pod set, empty if there are none, and how many there are."""
    label, groups = request.get("subGroupIndexLabel"), request.get("subGroupCount")
    if label is None:
        return "", 1
    if not isinstance(label, str) or not isinstance(groups, int) or groups <= 0:
        raise _Unranked("no label tells ranks")
    return label, groups


def _number(pod: TopologyPodObserved, label: str, below: int) -> int:
    said = pod.numbers.get(label, "")
    if not _UINT.fullmatch(said) or int(said) >= below:
        raise _Unranked(f"{pod.name} does not tell {label}")
    return int(said)


def _as_they_come(
    found: Sequence[TopologyPodObserved], levels: Sequence[str], domains: Sequence[Domain]
) -> list[PlacedPod]:
    """Return gated pods for what is left of each domain, in the order of the assignment."""
    waiting = [pod for pod in found if is_gated(pod)]
    there = Counter(_domain(pod, levels) for pod in found if not is_gated(pod))
    made: list[PlacedPod] = []
    for values, count in domains:
        left = max(count - there[values], 0)
        made += [PlacedPod(pod, values) for pod in waiting[len(made) : len(made) + left]]
    return made
