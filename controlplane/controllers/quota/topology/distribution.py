"""Distributes pods over domains that have room for them: which domains, and how many pods each gets.

In: what fits in each domain, and how many pods or slices. Out: the domains that are used, with their counts cut down to
what they get. Where pods are unconstrained, the domains with the least room come first; otherwise those with the most,
and the last one is the smallest that does. What preferred affinity names comes before all of that
(kubernetes-sigs/kueue pkg/cache/scheduler/tas_flavor_snapshot.go, keps/2724-topology-aware-scheduling)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.controllers.quota.topology.counts import DomainCounts
from controlplane.controllers.quota.topology.fleet import MOST
from controlplane.controllers.quota.topology.tree import Domain


class Distribution:
    """See the module. `least_first`: whether the domains with the least room come first."""

    def __init__(self, counts: DomainCounts, *, least_first: bool) -> None:
        self.counts = counts
        self.least_first = least_first
        self._sign = 1 if least_first else -1

    def sorted(self, domains: Iterable[Domain]) -> list[Domain]:
        """Return domains in the order in which they are filled."""
        slices, pods, sign = self.counts.slices, self.counts.pods, self._sign
        preferred = self.counts.preference
        return sorted(
            domains, key=lambda one: (-preferred[one.index], sign * slices[one.index], pods[one.index], one.rank)
        )

    def sorted_for_leader(self, domains: Iterable[Domain]) -> list[Domain]:
        """Return domains in the order in which they are filled if one of them has to take a leader."""
        of, sign = self.counts, self._sign
        slices, pods, leaders, preferred = of.slices_with_leader, of.pods_with_leader, of.leaders, of.preference

        def order(one: Domain) -> tuple[int, ...]:
            at = one.index
            return -leaders[at], -preferred[at], sign * slices[at], pods[at], one.rank

        return sorted(domains, key=order)

    def best_fit(self, domains: Sequence[Domain], needed: int, leaders: int, *, slices: bool = True) -> Domain:
        """Return the domain with the least room that is enough, of those that are preferred like the first one; that if
        none is."""
        fits, preferred = self._room(slices=slices, led=leaders > 0), self.counts.preference
        best, least = domains[0], MOST
        for domain in domains:
            if preferred[domain.index] != preferred[domains[0].index]:
                break
            if needed <= fits[domain.index] < least and self.counts.leaders[domain.index] >= leaders:
                best, least = domain, fits[domain.index]
        return best

    def _room(self, *, slices: bool, led: bool) -> list[int]:
        of = self.counts
        if slices:
            return of.slices_with_leader if led else of.slices
        return of.pods_with_leader if led else of.pods

    def leader_first(self, domains: list[Domain], count: int, leaders: int, size: int, *, slices: bool) -> list[Domain]:
        """Return domains with that one first that can take the leader and leave enough room for all others in all of
        them."""
        if not leaders or len(domains) < 2:
            return domains
        needed = count // size if slices else count
        room, led = self._room(slices=slices, led=False), self._room(slices=slices, led=True)
        available = sum(room[domain.index] for domain in domains)
        for place, domain in enumerate(domains):
            at = domain.index
            if self.counts.leaders[at] >= leaders and available - (room[at] - led[at]) >= needed:
                return [domain, *domains[:place], *domains[place + 1 :]]
        return domains

    def cut_down(self, domains: list[Domain], count: int, leaders: int, size: int, *, slices: bool) -> list[Domain]:
        """Return the domains that are used for so many pods, with what they get in their counts; none if they have no
        room."""
        domains = self.leader_first(domains, count, leaders, size, slices=slices)
        left, left_leaders = (count // size if slices else count), leaders
        unit = size if slices else 1
        found: list[Domain] = []
        for place in range(len(domains)):
            domain, rest = domains[place], domains[place:]
            if left_leaders > 0:
                led, done, left, left_leaders = self._take_led(domain, rest, left, left_leaders, unit, slices=slices)
                found.append(led)
                if done:
                    return found
                continue
            room = self._room(slices=slices, led=False)
            if not self.least_first and room[domain.index] >= left:
                domain = self.best_fit(rest, left, 0, slices=slices)
            at = domain.index
            self.counts.leaders[at] = 0
            found.append(domain)
            if room[at] >= left:
                room[at], self.counts.pods[at] = left, left * unit
                return found
            self.counts.pods[at] = room[at] * unit
            left -= room[at]
        return []

    def _take_led(
        self, domain: Domain, rest: Sequence[Domain], left: int, left_leaders: int, unit: int, *, slices: bool
    ) -> tuple[Domain, bool, int, int]:
        """Use a domain while a leader is to be placed; return which one it was, whether that was all, and what is
        left."""
        room, led, leaders = (
            self._room(slices=slices, led=False),
            self._room(slices=slices, led=True),
            self.counts.leaders,
        )
        pods = self.counts.pods
        if not self.least_first and led[domain.index] >= left and leaders[domain.index] >= left_leaders:
            domain = self.best_fit(rest, left, left_leaders, slices=slices)
        at = domain.index
        if led[at] >= left and leaders[at] >= left_leaders:
            room[at], leaders[at], pods[at] = left, left_leaders, left * unit
            return domain, True, 0, 0
        led[at], leaders[at] = min(led[at], left), min(leaders[at], left_leaders)
        room[at], pods[at] = led[at], led[at] * unit
        return domain, False, left - led[at], left_leaders - leaders[at]
