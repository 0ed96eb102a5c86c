"""The model's world: what is fixed in a run, what changes, and the first state.

Actors: for each source pod its stream and its leaders, for each target an API server and a scheduler with its own log.
All that either side does goes through the real `fold`, `decide` and `render`; only the API server and the scheduler's
choice of a node are the model's."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from controlplane.controllers.candidates.objects import CANDIDATES, SCHEDULER_NAME
from controlplane.controllers.candidates.source.decision_pass import PodContext
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, PlacementPolicy, SourcePolicy, Target
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.connectivity.state import Connection

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "team"
FAR = timedelta(days=365)
AN_AGE = 3600  # seconds: no run lasts as long; what is due after it is never due
LEASE, SKEW, PATIENCE = timedelta(seconds=10), timedelta(seconds=2), timedelta(seconds=4)


class Clock(NamedTuple):
    """Seconds: how long a permit lasts, by how much clocks may differ, how long a word is waited for after that."""

    lease: int = int(LEASE.total_seconds())
    skew: int = int(SKEW.total_seconds())
    patience: int = int(PATIENCE.total_seconds())

    @property
    def all_over(self) -> int:
        """After how long any permit is over, and outlived."""
        return sum(self)


USUAL = Clock()
EVEN = Clock(8, 4, 4)
"""A clock all of whose deadlines are multiples of four seconds, in the order of the usual one's."""
EVEN_WAITS = PlacementPolicy(max_wait=timedelta(seconds=4), retry_wait=timedelta(seconds=8))


class Violation(Exception):  # noqa: N818
    """A rule does not hold."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule, self.what = rule, what


@dataclass(frozen=True)
class Faults:
    """How often each thing may go wrong in one run, and how many in all (`total`)."""

    total: int = 1
    frozen: int = 1  # a leader is paused with what it knew, and acts on it later
    delayed: int = 1  # a request stays on its way while the world goes on, and may be carried out then, or never
    late: int = 1  # an observation is delivered after newer things have happened
    cut: int = 1  # a target cannot be reached by the source
    timeouts: int = 1  # a scheduler gives a reservation up
    lost_pods: int = 1  # a bound pod vanishes: evicted, preempted, its node gone
    ticks: int = 2  # time passes up to the next deadline although there is something to do
    deletions: int = 1  # the user deletes the source pod
    removals: int = 0  # somebody deletes a Candidate in its target
    away: int = 0  # a target goes for ever, may be given up by an operator ("forget"), and may come back all the same
    silent: int = (
        0  # a target's scheduler is down for ever while its API server answers, and may be up again all the same
    )
    forbidden: int = (
        0  # a target's API server lets no Pod be made, for ever, and may let them be made again all the same
    )

    @classmethod
    def only(cls, kind: str, count: int = 1) -> Faults:
        """Return so many faults, all of one kind."""
        return cls(total=count, **{other: count if other == kind else 0 for other in KINDS})


KINDS = (
    *("frozen", "delayed", "late", "cut", "timeouts", "lost_pods", "ticks", "deletions", "removals", "away"),
    *("silent", "forbidden"),
)


@dataclass(frozen=True)
class Config:
    """One exploration: its size, its policies and its faults."""

    name: str
    sources: int = 1
    targets: int = 3
    capacity: int = 1
    execution: str = AT_LEAST_ONCE
    placement: PlacementPolicy = field(default_factory=PlacementPolicy)
    faults: Faults = field(default_factory=Faults)
    preempt: tuple[int, ...] = ()  # targets that are full, and would have room by preemption
    uninvited: tuple[int, ...] = ()
    life: bool = False  # the bound pod runs and ends
    coarse: bool = False  # a process looks, decides and sends in one step; faults fall between steps
    epochs: int = 2  # how many can follow each other, at most, where each candidate is explored by itself (`component`)
    placing: bool = False  # only what decides where the pod runs is explored, not what it shows (`placing`)
    restart: str = "Always"
    most_states: int = 2_000_000
    clock: Clock = USUAL
    answer: int = 0  # seconds for which an answer is waited for; 0: for ever, where no target keeps silent
    elsewhere: tuple[int, ...] = ()  # how many other pods of the workload each target has, where spread is asked for
    deviations: int | None = None  # how often a run may leave the first order of steps; None: every interleaving

    def target(self, t: int) -> str:
        return "abcdef"[t]

    def cluster(self, s: int) -> str:
        return f"source-{s}"

    def policy(self, s: int) -> SourcePolicy:
        return SourcePolicy(
            cluster=self.cluster(s),
            namespaces=frozenset({NAMESPACE}),
            placement=self.placement,
            lease=timedelta(seconds=self.clock.lease),
            skew=timedelta(seconds=self.clock.skew),
            ack_patience=timedelta(seconds=self.clock.patience),
            answer_timeout=timedelta(seconds=self.answer) if self.answer else FAR,
            lost_after=FAR,
            execution_policy=self.execution,
        )

    @property
    def target_policy(self) -> TargetPolicy:
        return TargetPolicy(reservation_ttl=FAR, skew=timedelta(seconds=self.clock.skew))

    # `links` has five bits of each target: it can be reached; it has gone for ever; an operator has given it up; its
    # scheduler is down; its API server lets no Pod be made.

    def away(self, links: int, t: int) -> bool:
        """Whether a target has gone for ever: nothing brings it back but a fault."""
        return bool(links >> self.targets + t & 1)

    def forgotten(self, links: int, t: int) -> bool:
        """Whether an operator has given a target up that cannot be reached."""
        return bool(links >> 2 * self.targets + t & 1)

    def silent(self, links: int, t: int) -> bool:
        """Whether a target's scheduler is down: nothing brings it back but a fault."""
        return bool(links >> 3 * self.targets + t & 1)

    def forbids(self, links: int, t: int) -> bool:
        """Whether a target's API server lets no Pod be made: nothing changes that but a fault."""
        return bool(links >> 4 * self.targets + t & 1)

    def context(self, s: int, links: int) -> PodContext:
        """Return what source `s` knows of the world while the targets of `links` can be reached."""
        connections = {}
        for t in range(self.targets):
            up = bool(links >> t & 1)
            connections[self.target(t)] = Connection(
                name=self.target(t),
                phase="Connected" if up else "Lost",
                lost_since=None if up else START,
                lost_clock=None if up else START,
                synced=frozenset({CANDIDATES.name}),
                connected_once=True,
                forgotten=self.forgotten(links, t),
            )
        targets = [Target(name=self.target(t)) for t in range(self.targets)]
        counts = {self.target(t): count for t, count in enumerate(self.elsewhere)}
        return PodContext(policy=self.policy(s), ready=True, targets=targets, connections=connections, counts=counts)


def at(now: int) -> datetime:
    """Return a time of the model."""
    return START + timedelta(seconds=now)


def source_pod(restart: str) -> dict[str, Any]:
    """Return the user's pod."""
    return {
        "metadata": {"namespace": NAMESPACE, "name": "web", "uid": "web#1"},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "restartPolicy": restart,
            "containers": [{"name": "c", "image": "i"}],
        },
        "status": {"phase": "Pending"},
    }
