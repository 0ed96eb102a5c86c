"""In which order Workloads get quota again that were evicted since their cluster was lost."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.engine.parse_workloads import workload
from controlplane.controllers.quota.engine.pending import order_of
from controlplane.kube.conditions import REMOTE_LOST
from controlplane.kube.kinds import Json
from tests.quota.admission.checks import answer, checked
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

LOST = f'Evicted due to AdmissionCheck in Retry state: "multikueue" ({REMOTE_LOST})'
GONE = 'Evicted due to AdmissionCheck in Retry state: "multikueue" (Workload evicted on worker cluster: "a")'


def waiting(
    name: str, priority: int = 0, *, message: str = "", ran: int = 0, created: int = 0, evicted: int = 30
) -> Json:
    conditions = []
    if message:
        since = f"2026-01-01T00:{evicted:02}:00Z"
        conditions = [
            {
                "type": "Evicted",
                "status": "True",
                "reason": "AdmissionCheck",
                "message": message,
                "lastTransitionTime": since,
            }
        ]
    return {
        "metadata": {
            "namespace": NS,
            "name": name,
            "uid": name,
            "creationTimestamp": f"2026-01-01T00:{created:02}:00Z",
        },
        "spec": {"queueName": "q", "priority": priority, "podSets": []},
        "status": {"conditions": conditions, "accumulatedPastExecutionTimeSeconds": ran},
    }


CASES: dict[str, tuple[list[Json], str, str]] = {
    "priority first, whatever ran": (
        [waiting("low", 1, message=LOST, ran=9000), waiting("high", 2)],
        "high low",
        "high low",
    ),
    "who ran for longer comes first": (
        [
            waiting("short", message=LOST, ran=60, evicted=10),
            waiting("long", message=LOST, ran=600, evicted=11),
            waiting("longest", message=LOST, ran=6000, evicted=12),
        ],
        "longest long short",
        "short long longest",
    ),
    "before those that never ran, though they have waited longer": (
        [waiting("new", created=1), waiting("lost", message=LOST, ran=60)],
        "lost new",
        "new lost",
    ),
    "not those that were evicted for something else": (
        [waiting("new", created=1), waiting("gone", message=GONE, ran=6000)],
        "new gone",
        "new gone",
    ),
    "of the same time by when they were evicted": (
        [waiting("later", message=LOST, ran=60, evicted=12), waiting("earlier", message=LOST, ran=60, evicted=11)],
        "earlier later",
        "earlier later",
    ),
    "who had not run yet when its cluster was lost waits as others do": (
        [waiting("lost", message=LOST, ran=0), waiting("new", created=1)],
        "new lost",
        "new lost",
    ),
}


@each("case", CASES)
def test_the_order(case: str) -> None:
    objects, longest_run, timestamp = CASES[case]
    for order, expected in (("LongestRun", longest_run), ("Timestamp", timestamp)):
        found = sorted((workload(one, readmission_order=order) for one in objects), key=order_of)
        assert " ".join(one.name for one in found) == expected, order


def lose(scene: Scene, *names: str) -> None:
    """Have the check ask for another try since a cluster is lost, and the pods gone."""
    for name in names:
        answer(scene, name, "Retry", message=f'{REMOTE_LOST}, Previously: "Ready"')
    for name in names:
        scene.now += timedelta(seconds=1)
        past = int((scene.now - _admitted(scene, name)).total_seconds())
        scene.set_condition(name, "Admitted", "False", "NoReservation", accumulatedPastExecutionTimeSeconds=past)
        scene.set_condition(name, "Requeued", "False", "AdmissionCheck")
        scene.set_condition(name, "QuotaReserved", "False", "Pending", admission=None)


def _admitted(scene: Scene, name: str) -> datetime:
    return datetime.fromisoformat(scene.condition(name, "Admitted")["lastTransitionTime"])


def test_with_less_quota_after_an_outage_the_longest_run_comes_back_first() -> None:
    scene = Scene()
    checked(scene, cpu="4")
    for name, priority in (("young", 0), ("older", 0), ("oldest", 0), ("urgent", 5)):
        scene.workload(name, "q", "1", priority=priority)
    for name in ("oldest", "older", "young", "urgent"):
        scene.settle()
        answer(scene, name, "Ready")
        scene.now += timedelta(minutes=10)
    scene.workload("new", "q", "1")
    scene.settle()
    checked(scene, cpu="3")
    before = len(scene.log)
    lose(scene, "urgent", "young", "older", "oldest")
    scene.settle()
    back = [one.stream for one in scene.log[before:] if isinstance(one.event, events.QuotaReservationDecided)]
    assert [one.rpartition("/")[2] for one in back] == ["urgent", "oldest", "older"]
    assert scene.condition("young", "QuotaReserved")["reason"] == "WaitingForQuota"
    after = scene.replayed()
    places = [one.key for one in sorted(after.index.engine.queues.waiting(), key=order_of)]
    assert places == [f"{NS}/young", f"{NS}/new"], "another process comes to the same order by the log alone"
