"""Chooses domains over which the pods of a pod set with a preferred level are spread evenly, as few of them as can be.

In: what fits in each domain, and how many slices and leaders are to be placed. Out: the domains, each with what it gets
in its counts, and the level that they are of; or None where the pods have no balanced placement, and the ordinary one
follows. Below one domain of the level above the preferred one, the threshold is the most slices that each domain can be
given at least (kubernetes-sigs/kueue pkg/cache/scheduler/tas_balanced_placement.go, the gate
`TASBalancedPlacement`)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from controlplane.controllers.quota.topology.counts import DomainCounts, sum_children
from controlplane.controllers.quota.topology.distribution import Distribution
from controlplane.controllers.quota.topology.requests import Levels
from controlplane.controllers.quota.topology.tree import Domain, TopologyTree


class PlacementSize(NamedTuple):
    """How many slices and leaders are to be placed."""

    slices: int
    leaders: int


class BalancedPlacement(NamedTuple):
    """The domains that are used, the level that they are of, and what fits in each domain and is given to each."""

    level: int
    domains: list[Domain]
    counts: DomainCounts


class _Candidates(NamedTuple):
    """Domains of the preferred level below one domain, without what has too little room for the threshold."""

    threshold: int
    needed: int
    domains: list[Domain]
    counts: DomainCounts


class _Greedy(NamedTuple):
    """How many domains are used if those with the most room come first, and the last of those with and without a
    leader."""

    used: int
    led: Domain | None
    last: Domain | None


def balanced(
    tree: TopologyTree, counts: DomainCounts, levels: Levels, wanted: PlacementSize
) -> BalancedPlacement | None:
    """Return a balanced placement, None if there is none; `counts` stay as they are."""
    best, pruned = None, counts.copied()
    for siblings in _siblings(tree, levels.requested) if wanted.slices else ():
        found = _candidates(siblings, counts, pruned, levels, wanted, 0 if best is None else best.threshold)
        if found is not None and (best is None or (found.threshold, -found.needed) > (best.threshold, -best.needed)):
            best, pruned = found, counts.copied()
        else:
            _put_back(siblings, pruned, counts)
    if best is None or best.threshold == 0:
        return None
    level, domains = levels.requested, best.domains
    if levels.requested < levels.of_slices:
        chosen = _smallest_set(best.counts, domains, levels, wanted, by_entropy=True)
        if chosen is None:
            return None
        level, domains = level + 1, _children(chosen)
    shared = _shared_out(best, domains, levels, wanted)
    return None if shared is None else BalancedPlacement(level, shared, best.counts)


def _siblings(tree: TopologyTree, level: int) -> Iterable[list[Domain]]:
    """Yield the domains of a level, those below one domain at a time."""
    if level == 0:
        yield list(tree.at_level[0].values())
    else:
        for above in sorted(tree.at_level[level - 1].values(), key=lambda one: one.rank):
            yield above.children


def _children(domains: Iterable[Domain]) -> list[Domain]:
    return [child for domain in domains for child in domain.children]


def _candidates(
    siblings: list[Domain],
    counts: DomainCounts,
    pruned: DomainCounts,
    levels: Levels,
    wanted: PlacementSize,
    least: int,
) -> _Candidates | None:
    """Return what is left of domains by their threshold, None if too little is, or if the threshold is below the
    `least`. It is left out of `pruned`, which is as `counts` before: a copy of all counts for each rack of a large
    fleet would take seconds."""
    lower = _children(siblings) if levels.requested < levels.of_slices else siblings
    greedy = _greedy(counts, lower, wanted)
    if greedy is None:
        return None
    threshold = wanted.slices // greedy.used
    if greedy.led is not None:
        threshold = min(threshold, counts.slices_with_leader[greedy.led.index])
    if greedy.last is not None:
        threshold = min(threshold, counts.slices[greedy.last.index])
    thresholds = [threshold]
    if wanted.leaders and greedy.last is not None:
        with_leader = counts.slices_with_leader[greedy.last.index]
        if 0 < with_leader < threshold:
            thresholds.append(with_leader)
    for one in thresholds:
        if one < least:
            return None
        _put_back(siblings, pruned, counts)
        _prune(siblings, pruned, levels, one, with_leader=wanted.leaders > 0)
        left = _greedy(pruned, siblings, wanted)
        if left is not None:
            return _Candidates(one, left.used, siblings, pruned)
    return None


def _greedy(counts: DomainCounts, domains: Sequence[Domain], wanted: PlacementSize) -> _Greedy | None:
    """Return which domains are used if those with the most room come first, None if they have too little."""
    spread = Distribution(counts, least_first=False)
    slices, leaders, at = wanted.slices, wanted.leaders, 0
    led = last = None
    order = spread.sorted_for_leader(domains) if leaders else list(domains)
    while leaders > 0 and at < len(order) and counts.leaders[order[at].index] > 0:
        led = order[at]
        leaders -= counts.leaders[led.index]
        slices -= counts.slices_with_leader[led.index]
        at += 1
    used = at
    for domain in spread.sorted(order[at:]):
        if slices <= 0 or counts.slices[domain.index] <= 0:
            break
        last, used = domain, used + 1
        slices -= counts.slices[domain.index]
    return None if leaders > 0 or slices > 0 else _Greedy(used, led, last)


# What has too little room for a threshold.


def _prune(
    domains: Sequence[Domain], counts: DomainCounts, levels: Levels, threshold: int, *, with_leader: bool
) -> None:
    """Leave out of the counts what has room for fewer slices than the threshold: first below the domains, then of
    them."""
    plain = replace(levels, inner={})
    for child in _children(domains):
        _prune_one(child, counts, threshold, with_leader=with_leader)
    for domain in domains:
        _count(domain, counts, plain, with_leader=with_leader)
        _prune_one(domain, counts, threshold, with_leader=with_leader)


def _prune_one(domain: Domain, counts: DomainCounts, threshold: int, *, with_leader: bool) -> None:
    at = domain.index
    if counts.slices[at] < threshold:
        _clear(domain, (*counts.of_pods, *counts.of_leaders))
    elif with_leader and counts.leaders[at] > 0 and counts.slices_with_leader[at] < threshold:
        _clear(domain, counts.of_leaders)


def _clear(domain: Domain, numbers: Sequence[list[int]]) -> None:
    for one in numbers:
        one[domain.index] = 0
    for child in domain.children:
        _clear(child, numbers)


def _put_back(domains: Iterable[Domain], pruned: DomainCounts, counts: DomainCounts) -> None:
    """Make what is counted of domains, and of those below them, what it was."""
    pairs = list(zip((*pruned.of_pods, *pruned.of_leaders), (*counts.of_pods, *counts.of_leaders), strict=True))
    left = list(domains)
    while left:
        domain = left.pop()
        left += domain.children
        for one, before in pairs:
            one[domain.index] = before[domain.index]


def _count(domain: Domain, counts: DomainCounts, levels: Levels, *, with_leader: bool) -> None:
    """Sum up anew what fits in a domain and in those below it."""
    if not domain.children:
        if domain.level == levels.of_slices:
            at, size = domain.index, levels.slice_size
            counts.slices[at] = counts.pods[at] // size
            counts.slices_with_leader[at] = counts.pods_with_leader[at] // size
        return
    for child in domain.children:
        _count(child, counts, levels, with_leader=with_leader)
    sum_children(domain, counts, levels, with_leader=with_leader)


# Which domains are used, and for how many.


def _smallest_set(
    counts: DomainCounts, domains: Sequence[Domain], levels: Levels, wanted: PlacementSize, *, by_entropy: bool
) -> list[Domain] | None:
    """Return the domains that have room for all with the least to spare, no more of them than are needed; None if there
    are none.

    The answer is that of all sets that `used` domains can make in their order, of equal ones the first. What cannot end
    well any more, and what a domain with the same room has led to before, is not looked at: a fleet may have thousands
    of equal nodes."""
    greedy = _greedy(counts, domains, wanted)
    if greedy is None:
        return None
    order = sorted(domains, key=lambda one: _order(counts, one) if by_entropy else (one.rank,))
    search = _BalancedSearch(greedy.used, wanted.leaders, wanted.slices * levels.slice_size)
    rooms = [_room(counts, domain) for domain in order]
    rest = sorted(room.most for room in rooms)
    for domain, room in zip(order, rooms, strict=True):
        most = _most(rest, greedy.used)
        rest.pop(bisect_left(rest, room.most))
        search.take(domain, room, most, _most(rest, greedy.used))
        if search.is_perfect:
            break
    return search.best()


class _Room(NamedTuple):
    """What fits in a domain."""

    pods: int
    with_leader: int
    leaders: int
    slices: int

    @property
    def most(self) -> int:
        return max(self.pods, self.with_leader)


_Path = tuple[Any, Domain] | None
"""Domains that lead somewhere: the last one, after the path of those before it."""


def _room(counts: DomainCounts, domain: Domain) -> _Room:
    at = domain.index
    return _Room(counts.pods[at], counts.pods_with_leader[at], counts.leaders[at], counts.slices[at])


def _most(rooms: Sequence[int], used: int) -> list[int]:
    """Return how many pods fit at most in no domain, in one, and so on; `rooms`: what fits in each, the least first."""
    return list(accumulate(reversed(rooms[-used:]), initial=0))


class _BalancedSearch:
    """Which domains lead where. `_reached[n]`: by how many leaders and pods are left to be placed, which `n` domains
    lead there; the first ones that do stay. `_grown[n]` counts what was added there; `_tried` has, by the room of a
    domain, what that was before."""

    def __init__(self, used: int, leaders: int, pods: int) -> None:
        self._used = used
        self._reached: list[dict[int, dict[int, _Path]]] = [{} for _ in range(used + 1)]
        self._reached[0][leaders] = {pods: None}
        self._grown = [1] + [0] * used
        self._tried: dict[_Room, list[int]] = {}

    @property
    def is_perfect(self) -> bool:
        """Whether domains are found that have nothing to spare."""
        return 0 in self._reached[self._used].get(0, ())

    def best(self) -> list[Domain] | None:
        """Return the domains with the least to spare, None if none have enough."""
        ends = self._reached[self._used].get(0, {})
        enough = [left for left in ends if left <= 0]
        path, found = ends[max(enough)] if enough else None, []
        while path is not None:
            path, domain = path
            found.append(domain)
        return found[::-1] or None

    def take(self, domain: Domain, room: _Room, most: Sequence[int], later: Sequence[int]) -> None:
        """Note where one domain more leads to; `most`: what fits in so many domains from this one on, `later`: after
        this one."""
        used, grown = self._used, self._grown
        tried = self._tried.setdefault(room, [0] * (used + 1))
        least = max(1, used - len(later) + 1)
        for number in [one for one in range(used, least - 1, -1) if tried[one] != grown[one - 1]]:
            tried[number] = grown[number - 1]
            left = used - number
            grown[number] += self._reach(number, domain, room, (most[left + 1], later[left]))

    def _reach(self, number: int, domain: Domain, room: _Room, most: tuple[int, int]) -> int:
        """Note where a domain leads to, with a leader in it and without; return how many of that are new."""
        before, after, new = self._reached[number - 1], self._reached[number], 0
        for leaders, states in sorted(before.items()):
            before[leaders] = states = {pods: path for pods, path in states.items() if pods <= most[0]}
            led = room.leaders > 0 and leaders > 0
            for pods, path in states.items():
                if leaders <= 0 and pods <= 0:
                    continue
                for is_next, left, others in (
                    (led, pods - room.with_leader, leaders - room.leaders),
                    (room.slices > 0, pods - room.pods, leaders),
                ):
                    if is_next and left <= most[1] and left not in after.setdefault(others, {}):
                        after[others][left] = path, domain
                        new += 1
        return new


def _order(counts: DomainCounts, domain: Domain) -> tuple[float, ...]:
    at = domain.index
    entropy = _entropy([counts.pods[child.index] for child in domain.children])
    return -counts.leaders[at], -counts.slices_with_leader[at], -entropy, domain.rank


def _entropy(numbers: Sequence[int]) -> float:
    """Return how evenly room is spread over domains: 0 if it is all in one of them."""
    total = sum(numbers)
    shares = (number / total for number in numbers if number > 0)
    return sum(-share * math.log2(share) for share in shares)


def _shared_out(
    best: _Candidates, domains: Sequence[Domain], levels: Levels, wanted: PlacementSize
) -> list[Domain] | None:
    """Return the domains that are used, each with the threshold and what is left over of its counts; None if it does
    not work out."""
    counts, threshold, size = best.counts, best.threshold, levels.slice_size
    chosen = _smallest_set(counts, domains, levels, wanted, by_entropy=False)
    if chosen is None or wanted.slices < len(chosen) * threshold:
        return None
    chosen = Distribution(counts, least_first=False).sorted_for_leader(chosen)
    over, leaders = wanted.slices - len(chosen) * threshold, wanted.leaders
    for domain in chosen:
        at, extra = domain.index, 0
        led = leaders > 0
        if led or over > 0:
            room = counts.slices_with_leader if led else counts.slices
            extra = min(room[at] - threshold, over)
        counts.leaders[at] = int(led)
        leaders -= int(led)
        over -= extra
        counts.slices[at] = counts.slices_with_leader[at] = threshold + extra
        counts.pods[at] = (threshold + extra) * size
        counts.pods_with_leader[at] = counts.pods[at] - counts.leaders[at]
    return None if over > 0 or leaders > 0 else chosen
