"""Recorded decisions are decided again: by the settings in force the answers agree, by others they differ where they
should, and whatever was put into the log or left out of it is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    NominationDecided,
    StatusRelayDecided,
    WinnerChosen,
)
from controlplane.controllers.multikueue.nominate import INCREMENTAL
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from controlplane.whatif.compare import AFTER, PATIENCE, DecisionComparison, Difference, together
from controlplane.whatif.deciders import DECISIONS, Deciders
from tests.audit.script import Script
from tests.dst.plans import plan, step
from tests.interface.logs import host_of, recorded, written
from tests.support.deep import deep_after, examples
from tests.whatif.logs import compared, in_force, of_seed, played

QUIET = plan(step(5, "submit", "job-1", 20, 1), step(7, "submit", "job-2", 20, 2), step(40, "submit", "job-3", 20, 1))
LOST = plan(step(5, "submit", "job-1", 400, 4), step(20, "partition", "w1", 400), step(500, "cut", "w3"))
"""The only cluster that has room is away for longer than its grace, which is three minutes."""
REPLAYED = 0.99


def by(events: Sequence[Recorded], **policy: Any) -> Any:
    """Return the settings in force with some of the policy changed."""
    found = in_force(events)
    return msgspec.structs.replace(found, policy=msgspec.structs.replace(found.policy, **policy))


@pytest.mark.parametrize(("first", "count"), deep_after(1, [(1, 1), *((first, 5) for first in range(1, 201, 5))]))
def test_the_decisions_of_seeds_agree(first: int, count: int) -> None:
    found = together([compared(of_seed(seed)) for seed in range(first, first + count)])
    assert found.decisions > 100 * count
    assert found.left_alone == {}
    assert found.agree + len([one for one in found.differences if one.recorded]) == found.decisions
    assert len(found.differences) <= (1 - REPLAYED) * found.decisions, found.differences


def test_without_trouble_all_agree() -> None:
    found = compared(played(QUIET))
    assert (found.agree, found.differences) == (found.decisions, [])


def test_what_is_compared_ends_with_its_positions() -> None:
    events = played(QUIET)
    decisions = [one.position for one in events if isinstance(one.event, DECISIONS)]
    comparison = DecisionComparison(Deciders(in_force(events)), decisions[3] - 1, decisions[9])
    for one in events:
        comparison.take(one)
    assert (found := comparison.finish()).decisions == 7
    assert found.agree == 7
    assert comparison.ended_before(events[-1].recorded_at)
    assert not comparison.ended_before(events[0].recorded_at)


@pytest.mark.generated
@pytest.mark.parametrize("begins", [False, True])
def test_what_is_compared_may_begin_or_end_amid_what_was_decided_together(begins: bool) -> None:
    events = played(QUIET)
    decisions = [one.position for one in events if isinstance(one.event, DECISIONS)]
    found = []
    for position in range(5, len(events), examples(12, 2)):
        begin, end = (position, None) if begins else (0, position)
        comparison = DecisionComparison(Deciders(in_force(events)), begin, end)
        for one in events:
            comparison.take(one)
        found.append(comparison.finish())
        within = [one for one in decisions if begin < one <= (end or len(events))]
        assert (found[-1].decisions, found[-1].agree) == (len(within), len(within))
    assert [one.differences for one in found] == [[]] * len(found)


def changed(events: Sequence[Recorded], of: type, **fields: Any) -> tuple[int, list[Recorded]]:
    """Return a log with the first decision of a type changed, and its position."""
    at = next(one.position for one in events if isinstance(one.event, of))
    other = [
        msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, **fields)) if one.position == at else one
        for one in events
    ]
    return at, other


def test_a_decision_that_was_another_one_is_found_with_both_reasons() -> None:
    at, events = changed(played(QUIET), NominationDecided, clusters=["w2"], reason=WorkloadReason.NEXT_ROUND)
    first = compared(events).differences[0]
    assert (first.verdict, first.position) == ("changed", at)
    assert isinstance(first.recorded, NominationDecided)
    assert isinstance(first.now, NominationDecided)
    assert (first.recorded.clusters, first.now.clusters) == (["w2"], ["w1", "w2", "w3"])
    assert (first.recorded.reason, first.now.reason) == ("NextRound", "AvailableClusters")


def test_a_decision_that_nothing_leads_to_is_found() -> None:
    events = played(QUIET)
    last = next(one for one in reversed(events) if isinstance(one.event, WinnerChosen))
    stray = [one for one in events if one.stream == last.stream][-1]
    more = msgspec.structs.replace(last, position=len(events) + 1, version=stray.version + 1)
    assert [one.verdict for one in compared([*events, more]).differences] == ["not decided now"]


def left_out(events: Sequence[Recorded], of: type) -> list[Recorded]:
    """Return a log that ends before the first decision of a type, but for what happened elsewhere."""
    first = next(one for one in events if isinstance(one.event, of))
    kept = [one for one in events if one.position < first.position or one.stream.partition("/")[0] == "cluster"]
    versions: Counter[str] = Counter()
    found = []
    for number, one in enumerate(kept, 1):
        versions[one.stream] += 1
        found.append(msgspec.structs.replace(one, position=number, version=versions[one.stream]))
    return found


def later(events: Sequence[Recorded], *seconds: float) -> list[Recorded]:
    """Return a log that goes on with heartbeats of the leader."""
    last = events[-1]
    sign = next(one for one in reversed(events) if one.stream == "cluster/w1")
    return [
        *events,
        *(
            msgspec.structs.replace(
                sign,
                position=last.position + number,
                version=sign.version + number,
                recorded_at=last.recorded_at + timedelta(seconds=at),
            )
            for number, at in enumerate(seconds, 1)
        ),
    ]


def test_what_is_decided_and_never_recorded_is_found_once_the_leader_had_its_time() -> None:
    events = left_out(played(QUIET), NominationDecided)
    patience = PATIENCE.total_seconds()
    assert compared(later(events, 1)).differences == []
    assert compared(later(events, 1, patience + 1, patience + 2)).differences == []
    found = compared(later(events, 1, patience + 1, 3 * patience)).differences
    assert ("decided now only", NominationDecided) in [(one.verdict, type(one.now)) for one in found]
    assert AFTER >= 2 * PATIENCE


def test_nobody_could_decide_while_nobody_led() -> None:
    events = left_out(played(QUIET), NominationDecided)
    last = events[-1]
    begins = service_started(2, "another", "1.0", last.recorded_at)
    started = msgspec.structs.replace(
        last,
        position=last.position + 1,
        stream="service",
        version=9,
        event=begins.event,
        recorded_at=last.recorded_at + 9 * PATIENCE,
    )
    assert compared(later([*events, started], 1, 40, 80)).differences == []


# --- other settings --------------------------------------------------------------------------------------------------


def test_another_dispatcher_nominates_others() -> None:
    events = played(QUIET)
    found = compared(events, by(events, dispatcher=INCREMENTAL, step_size=1)).differences
    first = next(one for one in found if isinstance(one.recorded, NominationDecided))
    assert isinstance(first.now, NominationDecided)
    assert (first.recorded.clusters, first.now.clusters) == (["w1", "w2", "w3"], ["w1"])


def requeued(found: Sequence[Difference]) -> list[Difference]:
    return [one for one in found if isinstance(one.now or one.recorded, CheckStateDecided)]


def test_a_shorter_grace_is_over_sooner() -> None:
    events = played(LOST)
    recorded = next(
        one for one in events if isinstance(one.event, CheckStateDecided) and one.event.reason == "RemoteLost"
    )
    found = requeued(compared(events, by(events, worker_lost_timeout=timedelta(minutes=1))).differences)
    assert [(one.verdict, one.recorded) for one in found] == [("decided earlier now", recorded.event)]
    assert recorded.recorded_at - found[0].at >= timedelta(minutes=2) - timedelta(seconds=1)


def test_a_longer_grace_is_not_over() -> None:
    events = played(LOST)
    found = requeued(compared(events, by(events, worker_lost_timeout=timedelta(minutes=30))).differences)
    assert [(one.verdict, one.now) for one in found] == [("not decided now", None)]


def test_a_refusal_tells_when_it_was_decided() -> None:
    deciders = Deciders(in_force(of_seed(1)))
    until = of_seed(1)[0].recorded_at
    refused = ClusterRefused(
        cluster="w1", attempt=1, message="no", until=until, reason=WorkloadReason.REJECTED_BY_WORKER
    )
    assert deciders.said_at(refused) == until - deciders.policy.refusal_pause
    assert deciders.said_at(of_seed(1)[0].event) is None  # type: ignore[arg-type]


# --- logs of earlier versions ----------------------------------------------------------------------------------------

SINCE = {
    "decided now only CloneDecided": "clones are created together with the nomination",
    "decided now only JobCreationDecided": "the job is created together with the removal of the losers",
    "changed RemovalDecided": "a copy that holds nothing is removed by its UID alone",
    "not decided now FinishDecided": "Kueue's core is given a second to finish a Workload itself",
    "decided now only StatusRelayDecided": "a last status is written although the job is seen anew",
    "changed StatusRelayDecided": "the same",
    "not decided now CheckStateDecided": "the same: what waits for it comes later",
    "not decided now NamesClearDecided": "the same",
    "not decided now NominationDecided": "the same",
    "not decided now CloneDecided": "clones came after the nomination",
    "not decided now WinnerChosen": "the same",
    "not decided now JobCreationDecided": "the job came after the removal of the losers",
}
"""What the version that wrote the logs of `tests/interface` decided otherwise."""


@pytest.mark.parametrize("name", ["workloads-5", "workloads-23"])
def test_what_differs_from_an_earlier_version_is_what_was_changed(name: str) -> None:
    codec = Codec(host_of(name).types)
    found = compared([recorded(line, codec) for line in written(name)])
    assert found.agree >= 0.8 * found.decisions
    assert {f"{one.verdict} {type(one.recorded or one.now).__name__}" for one in found.differences} <= SINCE.keys()


@pytest.mark.parametrize("name", ["source-source3", "local-2"])
def test_decisions_of_other_controllers_are_counted(name: str) -> None:
    codec = Codec(host_of(name).types)
    found = compared([recorded(line, codec) for line in written(name)])
    assert (found.agree, found.differences) == (found.decisions, [])
    assert found.not_asked > 0


def test_a_status_is_no_decision_of_another() -> None:
    assert issubclass(StatusRelayDecided, DECISIONS)


def test_what_is_decided_while_its_observations_are_committed_agrees_after_another_decision() -> None:
    """The leader decided before it had folded what was seen of the job in the same batch; the decision before it stands
    just before the batch."""
    script = Script("a")
    life = script.workload("train-0a1b2").offered("a").clone("a", {"QuotaReserved": True, "Admitted": True}).decide()
    life.remote_job("a", suspended=True).decide()
    before = list(script.recorded)
    assert isinstance(before[-1].event, CheckStateDecided)
    script.now += timedelta(seconds=9)
    life.remote_job("a", status="11", inactive=False).job(suspended=False)
    life.seen({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    script.now += timedelta(seconds=9)
    batch = [msgspec.structs.replace(one, recorded_at=script.now) for one in script.recorded[len(before) :]]
    leader = Deciders(in_force(before))
    for one in before:
        leader.fold(one)
    decided = leader.anticipate([one for one in batch if one.stream == life.stream], script.now)
    (relay,) = [new.event for new in decided.events]
    assert isinstance(relay, StatusRelayDecided)
    assert relay.mark_suspended
    last = next(one for one in reversed(batch) if one.stream == life.stream)
    said = msgspec.structs.replace(
        last, position=batch[-1].position + 1, version=last.version + 1, event=relay, cluster="@management"
    )
    found = compared([*before, *batch, said]).differences
    assert [one for one in found if one.position == said.position] == []
