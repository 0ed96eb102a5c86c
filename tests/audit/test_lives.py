"""A Workload that was made again under its name: what was of the one before tells nothing of it."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.audit.states import own_replay, plain
from controlplane.audit.words import type_of
from controlplane.controllers.coscheduling.observations import NodeGone, NodeObserved
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation
from tests.audit.ordeals import WORKERS, ask, fresh
from tests.audit.script import START, Life, Script
from tests.audit.stories import happy
from tests.support.rows import each

PENDING = {"QuotaReserved": ("Pending", "no quota")}
HERE = {"QuotaReserved": True, "Admitted": True}


def evicted(script: Script) -> Life:
    return fresh(script).runs("b", *WORKERS).seen({"Evicted": ("Preempted", "to make room")})


def rejected(script: Script) -> Life:
    return fresh(script).job(managed_by="other").seen({"QuotaReserved": True}).decide()


def again(life: Life) -> Life:
    """Its job has another Workload made, which gets the same name."""
    life.gone().decide()
    left = life.script.fleet.index.workloads.get(life.stream)
    for cluster in left.remotes if left is not None else ():
        life.remote_job_gone(cluster).clone_gone(cluster).decide()
    second = fresh(life.script)
    second.uid, second.local_job = "second", life.local_job
    return second


def told(first: Callable[[Script], Life], then: Callable[[Life], Life]) -> Explanation:
    return ask(then(again(first(Script(*WORKERS)))))


@each(
    ("first", "then", "sentence", "evidence"),
    [
        (
            evicted,
            lambda life: life.seen(PENDING),
            "It waits for quota on the management cluster (Pending: no quota).",
            ["WorkloadObserved"],
        ),
        (
            rejected,
            lambda life: life.seen(PENDING, active=False),
            "It is deactivated: its spec.active is false.",
            ["WorkloadObserved"],
        ),
        (
            happy,
            lambda life: life.seen(HERE, checks=[]).seen({"Finished": ("Succeeded", "yes")}, checks=[]),
            "It finished (Succeeded: yes).",
            ["WorkloadObserved"],
        ),
        (
            evicted,
            lambda life: life.runs("a").remote_job("a", suspended=True),
            "It is admitted on a because a was the only one that had admitted it, and waits for a to start its job.",
            ["CloneObserved", "WinnerChosen", "WorkloadObserved"],
        ),
    ],
    ids=["an eviction", "a rejection", "a result", "an attempt"],
)
def test_what_befell_the_one_before(
    first: Callable[[Script], Life], then: Callable[[Life], Life], sentence: str, evidence: list[str]
) -> None:
    found = told(first, then)
    assert found.sentence == sentence
    assert [type_of(recorded) for recorded in found.events] == evidence


def test_what_was_seen_last_is_gone_by_its_uid() -> None:
    """A list shows another one of the name before it says that the one before is gone."""
    first, second = (NodeObserved(name="n1", uid=uid, resource_version="1") for uid in "ab")
    gone = {one.uid: NodeGone(name="n1", uid=one.uid) for one in (first, second)}
    replay = own_replay("node/n1")
    states = []
    for number, event in enumerate((first, second, gone["a"], gone["b"]), start=1):
        replay.fold(Recorded(position=number, stream="node/n1", version=number, event=event, recorded_at=START))
        states.append(plain(replay.state()).get("Node", {}).get("uid"))
    assert states == ["a", "b", "b", None]
