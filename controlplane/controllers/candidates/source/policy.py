"""Who gets the permit: pure choices among the candidates that are ready, each with its reason.

In: what the targets offered, who may still answer, when. Out: the chosen one and why, or until when to wait and for
what. The order of the rules: spread first (it may forbid), then who failed less, then preferred tiers, then the window
for more offers, then the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.controllers.candidates.objects import SCHEDULER_NAME
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import PermitKind
from controlplane.controllers.candidates.source.observations import PlacementOptions
from controlplane.values import Value

Mode = Literal["FirstReady", "BestOf"]
MODES = ("FirstReady", "BestOf")
AT_LEAST_ONCE, NEVER_TWICE = "at-least-once", "never-twice"
MOST_CANDIDATES, LONGEST_WAIT, LARGEST_SKEW = 100, timedelta(seconds=20), 1000


class PlacementPolicy(Value):
    """How the target is chosen.

    `BestOf` waits until `min_candidates` are ready, but no longer than `max_wait` after the first of them; both are
    bounded, the wait shorter than a reservation lasts. `max_skew` (0: any) bounds by how many a target may hold more of
    a workload's pods than the target with the fewest; whose number cannot be known is left out, and so is one that does
    not take the pod. `retry_wait`: how long a target that failed waits for the untried ones."""

    mode: Mode = "FirstReady"
    min_candidates: int = 2
    max_wait: timedelta = timedelta(seconds=5)
    max_skew: int = 0
    retry_wait: timedelta = timedelta(seconds=10)


class SourcePolicy(Value):
    """The settings of the source side.

    `cluster` is this cluster's name, as its invitations spell it. `lease`: how long a permit to bind holds,
    `room_lease` one to preempt, which has to outlast the last seconds of those who are evicted; `skew`: by how much two
    clusters' clocks may differ, plus the time that a binding may be on its way; a target keeps off the end of the lease
    by it, and we go on only that much after it. `ack_patience` is what a target that answers gets on top.
    `answer_timeout`: how long a target's answer is waited for, before its silence is a no. `lost_after`: the grace of a
    delegate whose target is away. `execution_policy` as for Workloads: whether to wait for, or to outlive, a target
    that may be running it. `gang_wait`: how long a gang holds places without a quorum anywhere before it gives them
    back, shorter than a reservation lasts; `gang_timeout`: how long some of its members run without one before they are
    taken back. `scale_up_wait`: for how long the autoscaler of one target alone may add nodes for a pod that has none
    anywhere; 0: those of all targets may."""

    cluster: str
    scheduler_name: str = SCHEDULER_NAME
    namespaces: frozenset[str] = frozenset()
    placement: PlacementPolicy = PlacementPolicy()
    lease: timedelta = timedelta(seconds=30)
    room_lease: timedelta = timedelta(minutes=2)
    skew: timedelta = timedelta(seconds=5)
    ack_patience: timedelta = timedelta(seconds=30)
    answer_timeout: timedelta = timedelta(seconds=30)
    lost_after: timedelta = timedelta(minutes=15)
    execution_policy: str = AT_LEAST_ONCE
    virtual_nodes: bool = False
    mirror_pod_ips: bool = False
    gang_wait: timedelta = timedelta(seconds=15)
    gang_timeout: timedelta = timedelta(minutes=5)
    scale_up_wait: timedelta = timedelta()

    def holds(self, kind: PermitKind) -> timedelta:
        """Return how long a permit holds."""
        return max(self.lease, self.room_lease) if kind == "Preempt" else self.lease

    def allows(self, namespace: str) -> bool:
        """Whether pods of a namespace may be elected."""
        return namespace in self.namespaces or "*" in self.namespaces


class Target(Value):
    """A cluster that candidates may be sent to. `tier`: 0 is preferred to 1, as one's own machines to a cloud's."""

    name: str
    tier: int = 0


class Offer(Value):
    """A candidate that is ready to be bound."""

    cluster: str
    score: int
    since: datetime
    tier: int = 0
    failures: int = 0


class PermitChoice(msgspec.Struct, frozen=True):
    """Permit this cluster's candidate."""

    cluster: str
    reason: CandidateReason


class PermitWait(msgspec.Struct, frozen=True):
    """Permit nobody yet; look again at `until`, or when somebody says something new (None)."""

    until: datetime | None
    reason: CandidateReason


def effective(placement: PlacementPolicy, options: PlacementOptions) -> PlacementPolicy:
    """Return the policy with what the pod's annotations ask for, within the bounds."""
    mode: Mode = "BestOf" if options.placement == "BestOf" else "FirstReady"
    wait = placement.max_wait if options.max_wait_seconds is None else timedelta(seconds=options.max_wait_seconds)
    least = placement.min_candidates if options.min_candidates is None else options.min_candidates
    return msgspec.structs.replace(
        placement,
        mode=mode if options.placement else placement.mode,
        min_candidates=max(1, min(least, MOST_CANDIDATES)),
        max_wait=max(timedelta(), min(wait, LONGEST_WAIT)),
        max_skew=placement.max_skew if options.max_skew is None else max(0, min(options.max_skew, LARGEST_SKEW)),
    )


def choose(
    offers: Sequence[Offer],
    pending: Mapping[str, Target],
    failures: Mapping[str, int],
    counts: Mapping[str, int],
    placement: PlacementPolicy,
    now: datetime,
) -> PermitChoice | PermitWait:
    """Choose among the offers.

    `pending`: targets in view that may still answer; `failures` by target; `counts`: the workload's other pods by
    target, for every target in view that has not said no for good, and only for them."""
    allowed = within_skew(offers, counts, placement.max_skew)
    if not allowed:
        return PermitWait(None, CandidateReason.SKEW_TOO_LARGE if offers else CandidateReason.NOBODY_ANSWERED)
    window = min(offer.since for offer in allowed)
    least = min(offer.failures for offer in allowed)
    untried = [name for name in pending if failures.get(name, 0) < least]
    if untried and now < (until := window + placement.retry_wait):
        return PermitWait(until, CandidateReason.AWAITS_UNTRIED)
    fresh = [offer for offer in allowed if offer.failures == least]
    return _by_preference(fresh, pending, placement, now)


def _by_preference(
    offers: Sequence[Offer], pending: Mapping[str, Target], placement: PlacementPolicy, now: datetime
) -> PermitChoice | PermitWait:
    until = min(offer.since for offer in offers) + placement.max_wait
    best = _best_tier(offers)
    tier = best[0].tier
    if now < until and any(target.tier < tier for target in pending.values()):
        return PermitWait(until, CandidateReason.AWAITS_TIER)
    if placement.mode == "FirstReady":
        first = min(best, key=lambda offer: (offer.since, -offer.score, offer.cluster))
        return PermitChoice(first.cluster, _why(offers, best, CandidateReason.FIRST_READY))
    few = len(best) < placement.min_candidates and any(target.tier == tier for target in pending.values())
    if few and now < until:
        return PermitWait(until, CandidateReason.AWAITS_CANDIDATES)
    top = max(best, key=lambda offer: (offer.score, -offer.since.timestamp(), offer.cluster))
    why = CandidateReason.WINDOW_CLOSED if few else _why(offers, best, CandidateReason.BEST_SCORE)
    return PermitChoice(top.cluster, why)


def _best_tier(offers: Sequence[Offer]) -> list[Offer]:
    tier = min(offer.tier for offer in offers)
    return [offer for offer in offers if offer.tier == tier]


def _why(offers: Sequence[Offer], best: Sequence[Offer], otherwise: CandidateReason) -> CandidateReason:
    """Return what decided: that there was only one, that one tier was preferred, or else the mode's own rule."""
    if len(offers) == 1:
        return CandidateReason.ONLY_READY
    return CandidateReason.PREFERRED_TIER if len(best) < len(offers) else otherwise


def within_skew(offers: Sequence[Offer], counts: Mapping[str, int], max_skew: int) -> list[Offer]:
    """Return the offers that keep the workload's pods spread: one more there is at most `max_skew` above the fewest
    anywhere.
    """
    if max_skew <= 0:
        return list(offers)
    fewest = min(counts.values(), default=0)
    return [offer for offer in offers if counts.get(offer.cluster, 0) + 1 - fewest <= max_skew]


def preemptor(able: Mapping[str, Target], failures: Mapping[str, int], counts: Mapping[str, int], max_skew: int) -> str:
    """Return the one target that is asked to make room: who failed least, of the preferred tier; "" if spread forbids
    them all.
    """
    fewest = min(counts.values(), default=0)
    allowed = [t for t in able.values() if max_skew <= 0 or counts.get(t.name, 0) + 1 - fewest <= max_skew]
    best = min(allowed, key=lambda t: (failures.get(t.name, 0), t.tier, t.name), default=None)
    return best.name if best is not None else ""
